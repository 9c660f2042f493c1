//! Versions with known faults that matter to whoever runs scripts.

use super::{Finding, Severity};

/// The first version of each line in which the faults of the Lua engine of October 2025 are mended (CVE-2025-49844, -46817,
/// -46818 and -46819), which let a user who may send scripts run code in the server.
const REDIS: [(u32, u32, u32); 5] = [(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)];
const VALKEY: [(u32, u32, u32); 3] = [(7, 2, 11), (8, 0, 6), (8, 1, 4)];

/// Whether a version has them; `None` if it is not understood.
pub(super) fn has_known_faults(is_valkey: bool, version: &str) -> Option<bool> {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    let (major, minor, patch) = (next()?, next()?, next()?);
    let lines: &[_] = if is_valkey { &VALKEY } else { &REDIS };
    let line = lines.iter().find(|line| (line.0, line.1) == (major, minor));
    Some(match line {
        Some(line) => patch < line.2,
        // A line that was begun later has them mended, and one that was given up before never will.
        None => lines.last().is_some_and(|last| (major, minor) < (last.0, last.1)),
    })
}

/// A server with which nothing works.
pub(super) fn too_old(detail: String) -> Finding {
    Finding {
        id: "too-old",
        severity: Severity::Serious,
        found: detail,
        why: "Commands and rules of expiry that locks rely on are not there.",
        remedy: "Run Redis 6.2, Valkey 7.2, or later.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mended_versions_are_told_from_others() {
        for (is_valkey, version, known) in [
            (false, "6.2.19", Some(true)),
            (false, "6.2.20", Some(false)),
            (false, "7.0.15", Some(true)),
            (false, "7.2.11", Some(false)),
            (false, "8.0.3", Some(true)),
            (false, "8.2.2", Some(false)),
            (false, "8.4.0", Some(false)),
            (true, "7.2.10", Some(true)),
            (true, "8.1.4", Some(false)),
            (true, "9.0.0-rc1", Some(false)),
            (false, "unstable", None),
        ] {
            assert_eq!(has_known_faults(is_valkey, version), known, "{version}");
        }
    }
}
