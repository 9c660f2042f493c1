//! The tables of the chapter on observing, held against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LossReason;

const CHAPTER: &str = include_str!("observing.md");
const METERS: &str = include_str!("../service/meters.rs");

/// The rows below the table head that begins with `head`, as cells without their back quotes.
fn rows(head: &str) -> Vec<Vec<String>> {
    let from = CHAPTER.find(head).unwrap_or_else(|| panic!("no table {head}"));
    CHAPTER[from..]
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().replace('`', ""))
                .collect()
        })
        .collect()
}

/// Name, kind and labels of every metric that the code makes.
fn metrics_in_code() -> BTreeSet<[String; 3]> {
    let mut found = BTreeSet::new();
    for kind in ["counter", "gauge", "histogram"] {
        let call = format!("{kind}!(");
        for (at, _) in METERS.match_indices(&call) {
            let arguments = METERS[at + call.len()..].split_once(')').expect("a closed call").0;
            let mut words = arguments.split('"').skip(1).step_by(2);
            let name = words.next().expect("a name").to_owned();
            let labels: Vec<_> = words.collect();
            found.insert([name, kind.to_owned(), labels.join(", ")]);
        }
    }
    found
}

#[test]
fn the_table_of_metrics_is_the_codes() {
    let table: BTreeSet<_> = rows("| name | kind | labels |")
        .into_iter()
        .map(|row| [row[0].clone(), row[1].clone(), row[2].clone()])
        .collect();
    assert!(table.len() >= 10, "the table was not read: {table:?}");
    assert_eq!(table, metrics_in_code());
}

#[test]
fn the_table_of_reasons_is_the_codes() {
    let table: BTreeSet<_> = rows("| `reason` | meaning |")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    let reasons = [
        LossReason::DeadlinePassed,
        LossReason::GoneOnServer,
        LossReason::LongestHoldReached,
        LossReason::Forked,
        LossReason::KeeperClosed,
    ];
    assert_eq!(table, reasons.map(|reason| reason.as_str().to_owned()).into());
    for reason in reasons {
        assert!(
            METERS.contains(&format!("LossReason::{reason:?}")),
            "{reason:?} is not counted"
        );
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("the sources").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The arguments of a macro call that begins at `text`, up to its closing parenthesis.
fn arguments(text: &str) -> &str {
    let (mut depth, mut quoted) = (1, false);
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    panic!("a call that is not closed: {text}")
}

/// Level, message and fields of every event that the code tells.
fn events_in_code() -> BTreeSet<[String; 3]> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("guide/tests.rs")) {
        let text = fs::read_to_string(file).expect("a source");
        for level in ["error", "warn", "info", "debug", "trace"] {
            let call = format!("tracing::{level}!(");
            for (at, _) in text.match_indices(&call) {
                let (fields, message) = arguments(&text[at + call.len()..]).rsplit_once("\"").map_or_else(
                    || panic!("an event without a message in {file:?}"),
                    |(before, _)| before.rsplit_once('"').expect("a whole message"),
                );
                let name = |field: &str| {
                    let name = field.split('=').next().unwrap_or(field);
                    name.trim().trim_start_matches(['?', '%']).to_owned()
                };
                let fields: Vec<_> = split_fields(fields)
                    .into_iter()
                    .map(name)
                    .filter(|name| !name.is_empty())
                    .collect();
                found.insert([level.to_owned(), message.to_owned(), fields.join(", ")]);
            }
        }
    }
    found
}

/// The fields, separated by the commas that are not inside of parentheses.
fn split_fields(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
    .collect()
}

#[test]
fn the_table_of_events_is_the_codes() {
    let table: BTreeSet<_> = rows("| level | message | fields |")
        .into_iter()
        .map(|row| [row[0].clone(), row[1].clone(), row[2].clone()])
        .collect();
    let code = events_in_code();
    let missing: Vec<_> = code.difference(&table).collect();
    let stale: Vec<_> = table.difference(&code).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "in the code, not in guide/observing.md: {missing:?}; the other way round: {stale:?}"
    );
}
