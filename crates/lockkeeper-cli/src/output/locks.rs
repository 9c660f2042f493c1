//! What `show` and `unlock` print.

use super::colour::Paint;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Held or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LockState {
    /// At least one holder.
    Held,
    /// No holder.
    Free,
    /// No holder, but taken until its period is over.
    Resting,
    /// There, and of a kind that nobody holds.
    Set,
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderReport {
    /// The owner text on the server.
    pub owner: String,
    /// How often it holds the lock (re-entry of peers that count on the server).
    pub holds: u64,
    /// The time left, in milliseconds; `None` when the key has no end.
    pub ttl_ms: Option<u64>,
    /// `read` or `write`, of a read-write lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// What the leader of an election tells of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
}

/// One waiter that the server knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaiterReport {
    /// The text under which it waits.
    pub owner: String,
    /// The time left until it counts as dead unless it is heard of, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// A lock as found on the server. The order of the fields is the order in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockReport {
    /// The lock's name.
    pub name: String,
    /// The kind of object, such as `mutex`.
    pub kind: String,
    /// `redisson` or `plain`; not known of a lock that is free.
    pub layout: Option<String>,
    /// Held or free.
    pub state: LockState,
    /// Who holds it.
    pub holders: Vec<HolderReport>,
    /// Who waits, where the server knows that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<WaiterReport>,
    /// Numbers that belong to its kind, such as `available` permits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, i64>,
    /// How long it still rests, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resting_ms: Option<u64>,
    /// The last fencing token given out, if it is still known.
    pub token: Option<u64>,
}

/// What a forced unlock did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnlockReport {
    /// The lock as it was found; its state is the one after the unlock.
    #[serde(flatten)]
    pub lock: LockReport,
    /// Whether there was something to free.
    pub freed: bool,
    /// The reason given.
    pub reason: Option<String>,
}

/// Prints a lock: one JSON object, or lines for people.
///
/// # Errors
///
/// The stream's own.
pub fn write_lock(out: &mut impl Write, lock: &LockReport, json: bool, paint: Paint) -> io::Result<()> {
    if json {
        return write_json(out, lock);
    }
    let state = match lock.state {
        LockState::Held => paint.yellow("held"),
        LockState::Free => paint.green("free"),
        LockState::Resting => paint.yellow("resting"),
        LockState::Set => paint.yellow("set"),
    };
    writeln!(out, "{} {state}", paint.bold(shown(&lock.name)))?;
    match &lock.layout {
        Some(layout) => writeln!(out, "  kind    {} ({layout} layout)", lock.kind)?,
        None => writeln!(out, "  kind    {}", lock.kind)?,
    }
    for holder in &lock.holders {
        write_holder(out, holder, "holder")?;
    }
    if let Some(milliseconds) = lock.resting_ms {
        writeln!(out, "  rests   for {}", seconds(milliseconds))?;
    }
    for waiter in &lock.waiters {
        let left = waiter
            .ttl_ms
            .map(|left| format!(": counts as dead in {}", seconds(left)));
        writeln!(out, "  waiter  {}{}", shown(&waiter.owner), left.unwrap_or_default())?;
    }
    for (what, number) in &lock.counts {
        writeln!(out, "  {what}  {number}")?;
    }
    match lock.token {
        Some(token) => writeln!(out, "  token   {token}"),
        None => writeln!(out, "  token   none known"),
    }
}

/// Prints a forced unlock: one JSON object, or lines for people.
///
/// # Errors
///
/// The stream's own.
pub fn write_unlock(out: &mut impl Write, unlock: &UnlockReport, json: bool, paint: Paint) -> io::Result<()> {
    if json {
        return write_json(out, unlock);
    }
    let name = paint.bold(shown(&unlock.lock.name));
    if !unlock.freed {
        return writeln!(out, "{name} was free already");
    }
    writeln!(out, "{name} {}", paint.green("freed"))?;
    for holder in &unlock.lock.holders {
        write_holder(out, holder, "was held by")?;
    }
    match &unlock.reason {
        Some(reason) => writeln!(out, "  reason  {}", shown(reason)),
        None => Ok(()),
    }
}

fn write_holder(out: &mut impl Write, holder: &HolderReport, label: &str) -> io::Result<()> {
    let left = match holder.ttl_ms {
        Some(milliseconds) => format!("{} left", seconds(milliseconds)),
        None => "no end".to_owned(),
    };
    let holds = if holder.holds == 1 {
        "1 hold".to_owned()
    } else {
        format!("{} holds", holder.holds)
    };
    let mode = holder.mode.map(|mode| format!(", {mode}s")).unwrap_or_default();
    writeln!(out, "  {label}  {}: {holds}{mode}, {left}", shown(&holder.owner))?;
    match &holder.candidate {
        Some(candidate) => writeln!(out, "  leader  {}", shown(candidate)),
        None => Ok(()),
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} s", milliseconds / 1_000, milliseconds % 1_000)
}

fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// Text from the server may hold anything, also what a terminal would obey.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|letter| {
            if letter.is_control() {
                letter.escape_default().collect()
            } else {
                vec![letter]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HolderReport, LockReport, LockState, UnlockReport, WaiterReport, write_lock, write_unlock};
    use crate::output::Paint;
    use std::collections::BTreeMap;

    fn held() -> LockReport {
        LockReport {
            name: "order:1001".to_owned(),
            kind: "mutex".to_owned(),
            layout: Some("redisson".to_owned()),
            state: LockState::Held,
            holders: vec![HolderReport {
                owner: "a\u{1b}[2J:7".to_owned(),
                holds: 2,
                ttl_ms: Some(29_004),
                mode: None,
                candidate: None,
            }],
            waiters: Vec::new(),
            counts: BTreeMap::new(),
            resting_ms: None,
            token: Some(1_790_000_000_000_001),
        }
    }

    fn printed(print: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
        let mut bytes = Vec::new();
        print(&mut bytes).expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn json_has_the_documented_fields_in_order() {
        assert_eq!(
            printed(|out| write_lock(out, &held(), true, Paint::new(true))),
            "{\"name\":\"order:1001\",\"kind\":\"mutex\",\"layout\":\"redisson\",\"state\":\"held\",\"holders\":\
             [{\"owner\":\"a\\u001b[2J:7\",\"holds\":2,\"ttl_ms\":29004}],\"token\":1790000000000001}\n"
        );
    }

    #[test]
    fn people_read_lines_without_control_characters() {
        assert_eq!(
            printed(|out| write_lock(out, &held(), false, Paint::new(false))),
            "order:1001 held\n  kind    mutex (redisson layout)\n  \
             holder  a\\u{1b}[2J:7: 2 holds, 29.004 s left\n  token   1790000000000001\n"
        );
    }

    #[test]
    fn what_only_some_kinds_have_is_told_of_them_alone() {
        let mut lock = held();
        lock.kind = "fair".to_owned();
        lock.state = LockState::Resting;
        lock.resting_ms = Some(1_500);
        lock.holders[0].mode = Some("write");
        lock.holders[0].candidate = Some("node\r7".to_owned());
        lock.waiters = vec![WaiterReport {
            owner: "b:8".to_owned(),
            ttl_ms: Some(5_000),
        }];
        lock.counts = BTreeMap::from([("acquired", 2), ("available", -1)]);
        assert_eq!(
            printed(|out| write_lock(out, &lock, false, Paint::new(false))),
            "order:1001 resting\n  kind    fair (redisson layout)\n  \
             holder  a\\u{1b}[2J:7: 2 holds, writes, 29.004 s left\n  leader  node\\r7\n  rests   for 1.500 s\n  \
             waiter  b:8: counts as dead in 5.000 s\n  acquired  2\n  available  -1\n  token   1790000000000001\n"
        );
        let json = printed(|out| write_lock(out, &lock, true, Paint::new(false)));
        assert!(
            json.contains(
                "\"mode\":\"write\",\"candidate\":\"node\\r7\"}],\"waiters\":[{\"owner\":\"b:8\",\"ttl_ms\":5000}],\
                 \"counts\":{\"acquired\":2,\"available\":-1},\"resting_ms\":1500,"
            ),
            "{json}"
        );
    }

    #[test]
    fn a_forced_unlock_says_whom_it_hit_and_why() {
        let mut unlock = UnlockReport {
            lock: held(),
            freed: true,
            reason: Some("stuck".to_owned()),
        };
        unlock.lock.state = LockState::Free;
        let text = printed(|out| write_unlock(out, &unlock, false, Paint::new(false)));
        assert!(text.starts_with("order:1001 freed\n  was held by  a"), "{text}");
        assert!(text.ends_with("  reason  stuck\n"), "{text}");
        let json = printed(|out| write_unlock(out, &unlock, true, Paint::new(false)));
        assert!(
            json.ends_with("\"token\":1790000000000001,\"freed\":true,\"reason\":\"stuck\"}\n"),
            "{json}"
        );
        unlock.freed = false;
        assert_eq!(
            printed(|out| write_unlock(out, &unlock, false, Paint::new(false))),
            "order:1001 was free already\n"
        );
    }
}
