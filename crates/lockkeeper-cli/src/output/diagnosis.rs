//! What `doctor` prints.

use super::colour::Paint;
use super::locks::shown;
use serde::Serialize;
use std::io::{self, Write};

/// The row of the promise table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowReport {
    /// Its sign in the table.
    pub id: String,
    /// What the deployment is.
    pub deployment: String,
    /// What it promises.
    pub promise: String,
    /// What breaks it.
    pub breaks: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    /// What it is, in words that stay the same.
    pub id: String,
    /// `note`, `warning` or `serious`.
    pub severity: String,
    /// What is so.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// One server. The order of the fields is the order in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiagnosisReport {
    /// Its address.
    pub server: String,
    /// Program and version.
    pub version: String,
    /// What it promises at best, if that is known.
    pub row: Option<RowReport>,
    /// The worst first.
    pub findings: Vec<FindingReport>,
}

#[derive(Serialize)]
struct Servers<'a> {
    servers: &'a [DiagnosisReport],
}

/// Prints what was found: one JSON object, or paragraphs for people.
///
/// # Errors
///
/// The stream's own.
pub fn write_diagnoses(out: &mut impl Write, servers: &[DiagnosisReport], json: bool, paint: Paint) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, &Servers { servers })?;
        return writeln!(out);
    }
    for (number, server) in servers.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        write_server(out, server, paint)?;
    }
    Ok(())
}

fn write_server(out: &mut impl Write, server: &DiagnosisReport, paint: Paint) -> io::Result<()> {
    writeln!(out, "{} {}", paint.bold(shown(&server.server)), shown(&server.version))?;
    match &server.row {
        Some(row) => {
            writeln!(out, "  It is    {} ({})", row.deployment, row.id)?;
            writeln!(out, "  Promise  {}", row.promise)?;
            writeln!(out, "  Broken   by {}", row.breaks)?;
        }
        None => writeln!(out, "  It could not be found out what this server promises.")?,
    }
    if server.findings.is_empty() {
        return writeln!(out, "\n{}", paint.green("Nothing weakens it, as far as can be seen."));
    }
    for finding in &server.findings {
        let severity = match finding.severity.as_str() {
            "serious" => paint.red(&finding.severity),
            "warning" => paint.yellow(&finding.severity),
            _ => paint.green(&finding.severity),
        };
        writeln!(out, "\n{severity}: {} [{}]", shown(&finding.found), finding.id)?;
        writeln!(out, "  {}", finding.why)?;
        writeln!(out, "  {}", finding.remedy)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DiagnosisReport {
        DiagnosisReport {
            server: "127.0.0.1:6379".to_owned(),
            version: "redis 7.0\u{1b}[2J".to_owned(),
            row: Some(RowReport {
                id: "P1".to_owned(),
                deployment: "one server".to_owned(),
                promise: "something".to_owned(),
                breaks: "a restart".to_owned(),
            }),
            findings: vec![FindingReport {
                id: "eviction".to_owned(),
                severity: "serious".to_owned(),
                found: "it evicts".to_owned(),
                why: "Locks go.".to_owned(),
                remedy: "Do not.".to_owned(),
            }],
        }
    }

    fn printed(report: &DiagnosisReport, json: bool) -> String {
        let mut bytes = Vec::new();
        write_diagnoses(&mut bytes, std::slice::from_ref(report), json, Paint::new(false)).expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn people_read_what_is_so_why_and_what_to_do() {
        assert_eq!(
            printed(&report(), false),
            "127.0.0.1:6379 redis 7.0\\u{1b}[2J\n  It is    one server (P1)\n  Promise  something\n  Broken   by a restart\n\n\
             serious: it evicts [eviction]\n  Locks go.\n  Do not.\n"
        );
        let mut good = report();
        good.findings.clear();
        assert!(printed(&good, false).ends_with("\nNothing weakens it, as far as can be seen.\n"));
    }

    #[test]
    fn json_has_the_documented_fields_in_order() {
        assert_eq!(
            printed(&report(), true),
            "{\"servers\":[{\"server\":\"127.0.0.1:6379\",\"version\":\"redis 7.0\\u001b[2J\",\"row\":{\"id\":\"P1\",\
             \"deployment\":\"one server\",\"promise\":\"something\",\"breaks\":\"a restart\"},\"findings\":[{\"id\":\"eviction\",\
             \"severity\":\"serious\",\"found\":\"it evicts\",\"why\":\"Locks go.\",\"remedy\":\"Do not.\"}]}]}\n"
        );
    }
}
