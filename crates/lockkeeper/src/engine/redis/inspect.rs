//! What is known of a name, of whatever kind it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::hold::run;
use super::link::Link;
use super::reply::{Status, any_text, text, time_left};
use super::script;
use crate::base::name::Name;
use crate::base::owner::is_writing;
use crate::engine::{
    Answer, ELECTION, Holder, InLine, Inspection, Layout, NEVER, Reply, StepError, TERM, Target, is_resting_mark,
};

/// How many fields of a hash are listed at most: a lock has few, and a peer's big hash must not hold up the server.
const MOST_FIELDS: u32 = 10_000;

pub(super) async fn inspect(link: &Arc<Link>, name: Name, until: Instant) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let command = inspect_call(name);
    let sent = session.node().now();
    let mut answer = run(&session, &script::INSPECT, &command, sent, until, |rest, status| {
        (status == Status::Done).then_some(())?;
        Some(Reply::Inspected(read(rest)?))
    })
    .await
    .map_err(|failure| failure.error)?;
    if let Reply::Inspected(inspection) = &mut answer.reply {
        // What was told as a moment is counted from the server's own.
        let now = answer.server_time / 1000;
        for waiter in &mut inspection.waiting {
            waiter.time_left = waiter.time_left.map(|dead_at| dead_at.saturating_sub(now));
        }
        if inspection.kind == "permits" {
            for holder in &mut inspection.holders {
                holder.time_left = holder.time_left.map(|end| end.saturating_sub(now));
            }
        }
    }
    Ok(answer)
}

pub(super) fn inspect_call(name: Name) -> Cmd {
    let target = Target::new(Layout::default(), name);
    let name = target.name.as_str();
    let mut command = script::INSPECT.call(10, 1, 10 * name.len() + 256);
    command
        .arg(name)
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(target.queue_key())
        .arg(target.timeout_key())
        .arg(target.writers_key())
        .arg(target.hold_key_base())
        .arg(target.permits_key())
        .arg(target.latch_record_key())
        .arg(target.semaphore_record_key())
        .arg(MOST_FIELDS);
    command
}

fn read(rest: &[Value]) -> Option<Inspection> {
    let [
        kind,
        left,
        record,
        peer,
        content,
        line,
        writers,
        ends,
        latch,
        semaphore,
        permits @ ..,
    ] = rest
    else {
        return None;
    };
    let (mut waiting, writers) = (line_of(line)?, line_of(writers)?);
    let (kind, left) = (text(kind)?, time_left(left));
    if kind == "hash"
        && let Some((owner, candidate, term)) = leader(content)
    {
        return Some(Inspection::of_election(&owner, &candidate, term, left));
    }
    let numbers = Numbers::read(text(content).filter(|_| kind == "string"), latch, semaphore, permits)?;
    let (mut kind, mut layout, mut holders) = match kind {
        "none" => ("", None, Vec::new()),
        "string" => {
            let owner = any_text(content);
            // Redisson's semaphores and latches are numbers that stay. One that ends is somebody's hand-written lock, unless it is
            // known to be no lock.
            if left.is_none() && owner.parse::<i64>().is_ok() {
                ("counter", None, Vec::new())
            } else {
                let holder = Holder {
                    owner,
                    holds: 1,
                    time_left: left,
                    writes: false,
                };
                ("mutex", Some(Layout::Plain), vec![holder])
            }
        }
        // One that is too large is told without its fields.
        "hash" if content.as_map_iter().is_some() => hash(content, left, ends)?,
        other => (other, None, Vec::new()),
    };
    let mut counts = BTreeMap::new();
    if let Some(numbers) = numbers
        && let Some(known) = numbers.kind.or((kind == "counter").then_some("counter"))
    {
        (kind, layout) = (known, None);
        counts = numbers.counts(known);
        holders = numbers.holders;
    }
    // Beside a line it is a fair one; without anybody in line it cannot be told from a plain one.
    let kind = if !waiting.is_empty() && matches!(kind, "mutex" | "") {
        "fair"
    } else if !writers.is_empty() && kind.is_empty() {
        "rwlock"
    } else {
        kind
    };
    if kind == "rwlock" {
        waiting = writers;
    }
    let all = holders.len();
    holders.retain(|holder| !is_resting_mark(&holder.owner));
    Some(Inspection {
        kind: kind.to_owned(),
        layout,
        resting: left.filter(|_| holders.len() < all),
        holders,
        waiting,
        counts,
        candidate: None,
        token: last_token(record).max(last_token(peer)),
    })
}

/// What is known of a number: which kind of object it is, if that is known, and who holds permits of it.
struct Numbers {
    number: i64,
    kind: Option<&'static str>,
    held: i64,
    ended: i64,
    holders: Vec<Holder>,
}

impl Numbers {
    /// `Some(None)` if the key holds no number; `None` if the reply was not understood.
    #[expect(clippy::option_option, reason = "the outer one is the reader's, as everywhere here")]
    fn read(number: Option<&str>, latch: &Value, semaphore: &Value, permits: &[Value]) -> Option<Option<Self>> {
        let [Value::Int(held), Value::Int(ended), permits] = permits else {
            return None;
        };
        let Some(number) = number.and_then(plain_number) else {
            return Some(None);
        };
        let kind = match (text(latch)?, text(semaphore)?) {
            _ if *held >= 0 => Some("permits"),
            ("", "permits") => Some("permits"),
            ("", "semaphore") => Some("semaphore"),
            ("", _) => None,
            _ => Some("latch"),
        };
        let holder = |pair: &[Value]| {
            let [Value::BulkString(id), end] = pair else {
                return None;
            };
            Some(Holder {
                owner: id.iter().map(|byte| format!("{byte:02x}")).collect(),
                holds: 1,
                writes: false,
                time_left: text(end)?
                    .parse::<f64>()
                    .ok()
                    .filter(|end| *end < NEVER as f64)
                    .map(|end| end.max(0.0) as u64),
            })
        };
        let mut holders: Vec<_> = permits.as_sequence()?.chunks(2).map(holder).collect::<Option<_>>()?;
        holders.sort_by(|one, next| one.owner.cmp(&next.owner));
        Some(Some(Self {
            number,
            kind,
            held: (*held).max(0),
            ended: (*ended).max(0),
            holders,
        }))
    }

    fn counts(&self, kind: &str) -> BTreeMap<&'static str, i64> {
        match kind {
            "permits" => BTreeMap::from([("available", self.number + self.ended), ("acquired", self.held)]),
            "semaphore" => BTreeMap::from([("available", self.number)]),
            _ => BTreeMap::from([("count", self.number)]),
        }
    }
}

/// A number as the server counts with, below 2^53.
fn plain_number(text: &str) -> Option<i64> {
    let number = text.parse::<i64>().ok()?;
    (number.to_string() == text && number.abs() < 1 << 53).then_some(number)
}

/// Waiters with the moments at which they count as dead.
fn line_of(line: &Value) -> Option<Vec<InLine>> {
    let pairs = line.as_sequence()?.chunks(2);
    let waiter = |pair: &[Value]| {
        let [owner, dead_at] = pair else { return None };
        Some(InLine {
            owner: any_text(owner),
            // A score may be written with an exponent.
            time_left: text(dead_at)?
                .parse::<f64>()
                .ok()
                .map(|dead_at| dead_at.max(0.0) as u64),
        })
    };
    pairs.map(waiter).collect()
}

/// The owner text, the candidate's text and the term of an election's leader, if it is one.
fn leader(fields: &Value) -> Option<(String, String, u64)> {
    let (mut is_election, mut term, mut leader) = (false, None, None);
    for (field, value) in fields.as_map_iter()? {
        match any_text(field).as_str() {
            "mode" => is_election = text(value) == Some(ELECTION),
            TERM => term = text(value)?.parse().ok(),
            owner => leader = Some((owner.to_owned(), any_text(value))),
        }
    }
    let (owner, candidate) = leader.filter(|_| is_election)?;
    Some((owner, candidate, term?))
}

/// A hash of owners and counts is a mutex, with a `mode` beside them a read-write lock, and else no lock.
fn hash(fields: &Value, left: Option<u64>, ends: &Value) -> Option<(&'static str, Option<Layout>, Vec<Holder>)> {
    let mut kind = "mutex";
    let mut holders = Vec::new();
    let mut writes = false;
    let mut ends = ends.as_sequence()?.iter();
    for (owner, holds) in fields.as_map_iter()? {
        let owner = any_text(owner);
        let end = ends.next();
        if owner == "mode" {
            kind = "rwlock";
            writes = text(holds) == Some("write");
            continue;
        }
        let Some(holds) = text(holds).and_then(|holds| holds.parse().ok()) else {
            return Some(("hash", None, Vec::new()));
        };
        holders.push(Holder {
            writes: is_writing(&owner),
            owner,
            holds,
            // Each read hold ends on its own.
            time_left: end.map_or(left, time_left),
        });
    }
    for holder in &mut holders {
        holder.writes &= writes;
        if holder.writes {
            holder.time_left = left;
        }
    }
    holders.sort_by(|one, next| one.owner.cmp(&next.owner));
    Some((kind, Some(Layout::Redisson), holders))
}

/// The number at the beginning of a record or of Redisson's token; `None` where there is none, or none below 2^53.
fn last_token(value: &Value) -> Option<u64> {
    let number = text(value)?.split(' ').next()?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    is_plain
        .then_some(number)?
        .parse()
        .ok()
        .filter(|token| *token < 1 << 53)
}
