//! What is known of a name, of whatever kind it is. Changes nothing.

use std::collections::BTreeMap;

use super::keyspace::{Keyspace, Now, Value};
use super::{election, fair, mutex, rwlock, semaphore, token};
use crate::base::name::Name;
use crate::base::owner::is_writing;
use crate::engine::{Holder, Inspection, Layout, NEVER, Target, is_resting_mark};

pub(super) fn inspect(keyspace: &mut Keyspace, now: Now, name: &Name) -> Inspection {
    let target = Target::new(Layout::default(), name.clone());
    let token = token::last_known(keyspace, now, &target);
    let waiting = fair::line(keyspace, now, &target);
    let fair_or = |kind: &'static str| if waiting.is_empty() { kind } else { "fair" };
    let writers = rwlock::waiting_writers(keyspace, now, &target);
    let Some(entry) = keyspace.get(name.as_str(), now) else {
        return Inspection {
            kind: fair_or(if writers.is_empty() { "" } else { "rwlock" }).to_owned(),
            waiting: if waiting.is_empty() { writers } else { waiting },
            token,
            ..Inspection::default()
        };
    };
    let time_left = entry.time_left(now);
    if let Value::Hash(fields) = &entry.value
        && let Some((candidate, owner, term)) = election::leader(fields)
    {
        return Inspection::of_election(owner, candidate, term, time_left);
    }
    let number = semaphore::number(&entry.value);
    let (mut kind, mut layout, mut holders) = match &entry.value {
        Value::Text(text) if entry.expiry.is_none() && is_number(text) => ("counter", None, Vec::new()),
        Value::Text(owner) => {
            let holder = Holder {
                owner: owner.clone(),
                holds: 1,
                time_left,
                writes: false,
            };
            ("mutex", Some(Layout::Plain), vec![holder])
        }
        Value::Hash(fields) => match holders(fields, time_left) {
            Some(holders) if fields.contains_key("mode") => {
                let writes = fields.get("mode").is_some_and(|mode| mode == "write");
                let holders = sides(keyspace, now, &target, holders, writes);
                return Inspection {
                    kind: "rwlock".to_owned(),
                    layout: Some(Layout::Redisson),
                    holders,
                    waiting: writers,
                    token,
                    ..Inspection::default()
                };
            }
            Some(holders) => ("mutex", Some(Layout::Redisson), holders),
            None => ("hash", None, Vec::new()),
        },
        other => (mutex::kind(other), None, Vec::new()),
    };
    let mut counts = BTreeMap::new();
    if let Some(number) = number
        && let Some(known) = known(keyspace, now, &target).or((kind == "counter").then_some("counter"))
    {
        (kind, layout) = (known, None);
        (counts, holders) = numbers(keyspace, now, &target, known, number);
    }
    let all = holders.len();
    holders.retain(|holder| !is_resting_mark(&holder.owner));
    Inspection {
        // Beside a line it is a fair one; without anybody in line it cannot be told from a plain one.
        kind: match kind {
            "mutex" => fair_or(kind).to_owned(),
            _ => kind.to_owned(),
        },
        layout,
        resting: time_left.filter(|_| holders.len() < all),
        holders,
        waiting,
        counts,
        token,
        candidate: None,
    }
}

/// Which kind of object a number is, if that is on record: the numbers of semaphores and latches look alike.
fn known(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<&'static str> {
    let mut text = |key: &str| match &keyspace.get(key, now)?.value {
        Value::Text(text) => Some(text.clone()),
        Value::Scores(_) => Some("permits".to_owned()),
        _ => None,
    };
    if text(&target.permits_key()).is_some_and(|text| text == "permits") {
        return Some("permits");
    }
    if text(&target.latch_record_key()).is_some() {
        return Some("latch");
    }
    match text(&target.semaphore_record_key()).as_deref() {
        Some("permits") => Some("permits"),
        Some("semaphore") => Some("semaphore"),
        _ => None,
    }
}

/// What the number tells for its kind, and who holds permits.
fn numbers(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    kind: &str,
    number: i64,
) -> (BTreeMap<&'static str, i64>, Vec<Holder>) {
    let ids = semaphore::ids(keyspace, now, target);
    let ended = ids.values().filter(|end| semaphore::has_ended(**end, now)).count();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let counts = match kind {
        "permits" => BTreeMap::from([
            ("available", number + count(ended)),
            ("acquired", count(ids.len() - ended)),
        ]),
        "semaphore" => BTreeMap::from([("available", number)]),
        _ => BTreeMap::from([("count", number)]),
    };
    let present = semaphore::milliseconds(now);
    let held = ids.into_iter().filter(|(_, end)| *end > present);
    let holders = held.map(|(owner, end)| Holder {
        owner,
        holds: 1,
        writes: false,
        time_left: (end < NEVER).then_some((end - present).unsigned_abs()),
    });
    (counts, holders.collect())
}

/// Redisson's semaphores and latches are numbers that stay. One that ends is somebody's hand-written lock.
fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

/// Every field but the mode is an owner with a count; `None` if one is not, and so it is no lock.
fn holders(fields: &BTreeMap<String, String>, time_left: Option<u64>) -> Option<Vec<Holder>> {
    let owners = fields.iter().filter(|(owner, _)| *owner != "mode");
    let holders = owners.map(|(owner, holds)| {
        Some(Holder {
            owner: owner.clone(),
            holds: holds.parse().ok()?,
            time_left,
            writes: false,
        })
    });
    holders.collect()
}

/// Tells the writer from readers, whose holds end on their own.
fn sides(keyspace: &mut Keyspace, now: Now, target: &Target, mut holders: Vec<Holder>, writes: bool) -> Vec<Holder> {
    for holder in &mut holders {
        holder.writes = writes && is_writing(&holder.owner);
        if !holder.writes {
            let left = rwlock::hold_left(keyspace, now, target, &holder.owner, holder.holds);
            holder.time_left = Some(left.unwrap_or(0));
        }
    }
    holders
}
