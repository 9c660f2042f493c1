//! Processes as `/proc` shows them.

use nix::unistd::{Pid, getsid};
use std::fs;
use std::time::{Duration, Instant};

/// Long enough for a busy machine; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something can be seen.
pub(crate) fn eventually(what: &str, mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    while !seen() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter and the parent.
fn status(process: i32) -> Option<(char, i32)> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether it is there and not only waiting to be waited for.
pub(crate) fn runs(process: i32) -> bool {
    status(process).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Whether it is stopped.
pub(crate) fn is_stopped(process: i32) -> bool {
    status(process).is_some_and(|(state, _)| state == 'T')
}

/// Whether it has ended and nobody waited for it.
pub(crate) fn is_zombie(process: i32) -> bool {
    status(process).is_some_and(|(state, _)| state == 'Z')
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn session(process: i32) -> Option<i32> {
    let session = getsid(Some(Pid::from_raw(process))).ok()?;
    Some(session.as_raw())
}

/// All processes of a session, its leader too.
pub(crate) fn session_members(leader: u32) -> Vec<i32> {
    let leader = i32::try_from(leader).ok();
    all().filter(|process| session(*process) == leader).collect()
}

/// All children, zombies too.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    all()
        .filter(|process| status(*process).is_some_and(|(_, its)| its == parent))
        .collect()
}

/// The guardian of a supervisor, once it is one.
pub(crate) fn guardian(supervisor: i32) -> Option<i32> {
    children(supervisor).into_iter().find(|process| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let leads_session = session(*process) == Some(*process);
        leads_session && words.split(|byte| *byte == 0).any(|word| word == b"__guardian")
    })
}
