//! The turns of readers and writers, beside Redisson's keys.
//!
//! Redisson lets everybody in who comes in time, so that a stream of readers keeps writers out for ever. Ours keep to turns:
//!
//! - A writer that waits leaves a *notice*, and as long as one stands no new reader of ours comes in. The notice of a writer
//!   that is not heard of falls after two seconds.
//! - A reader that has waited for more than a second comes in before all writers as soon as the lock is free. If a writer was
//!   faster, it leaves a *mark*: when that one has gone, the other writers step back, once, for the time of a signal, and all
//!   readers who have waited for long come in together.
//!
//! So a writer waits for the readers who are in, and at most for one round of those who waited longer; a reader waits for those
//! who are in, and at most for two writers more. Java's callers know nothing of that.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hash::put_for;
use crate::base::owner::Owner;
use crate::engine::embedded::keyspace::{Keyspace, Now, Value};
use crate::engine::{InLine, Target};

/// How long the notice of a writer stands that is not heard of, in milliseconds.
pub(super) const NOTICE: u64 = 2_000;

/// How often a waiting writer looks again, so that its notice stands.
pub(super) const LOOK_AGAIN: u64 = 1_000;

/// A reader that has waited for longer passes the notices.
pub(super) const LONG_WAIT: u64 = 1_000;

/// For how long writers step back, and so how far apart the readers of one round may come.
pub(super) const ROUND: u64 = 50;

/// How much longer a mark stands than the writer's lease before whose end it was left.
pub(super) const MARK_BEYOND: u64 = 1_000;

/// The writers that wait, in the order in which their notices fall.
pub(in crate::engine::embedded) fn waiting_writers(keyspace: &mut Keyspace, now: Now, target: &Target) -> Vec<InLine> {
    let now_in_milliseconds = milliseconds(now);
    let mut notices: Vec<_> = notices(keyspace, now, target).into_iter().collect();
    notices.retain(|(_, end)| *end > now_in_milliseconds);
    notices.sort_by(|(one, end), (other, other_end)| (end, one).cmp(&(other_end, other)));
    let waiter = |(owner, end): (String, i64)| InLine {
        owner,
        time_left: Some((end - now_in_milliseconds).unsigned_abs()),
    };
    notices.into_iter().map(waiter).collect()
}

fn milliseconds(now: Now) -> i64 {
    i64::try_from(now.server_time / 1_000).unwrap_or(i64::MAX)
}

fn notices(keyspace: &mut Keyspace, now: Now, target: &Target) -> BTreeMap<String, i64> {
    match keyspace.get(&target.writers_key(), now).map(|entry| &entry.value) {
        Some(Value::Scores(ends)) => ends.clone(),
        _ => BTreeMap::new(),
    }
}

/// How long the last notice still stands; `None` if none does.
pub(super) fn notice_left(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<u64> {
    let last = notices(keyspace, now, target).into_values().max()?;
    let left = last - milliseconds(now);
    (left > 0).then_some(left.unsigned_abs())
}

/// What somebody else put under that key is left alone.
pub(super) fn leave_notice(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) {
    let key = target.writers_key();
    if keyspace
        .get(&key, now)
        .is_some_and(|entry| !matches!(entry.value, Value::Scores(_)))
    {
        return;
    }
    let mut ends = notices(keyspace, now, target);
    ends.retain(|_, end| *end > milliseconds(now));
    ends.insert(owner.as_str().to_owned(), milliseconds(now) + NOTICE.cast_signed());
    let expiry = now.at.plus(Duration::from_millis(NOTICE));
    keyspace.put(&key, Value::Scores(ends), Some(expiry), now);
}

/// Takes a writer's notice back, and tells whether there was one.
pub(super) fn take_notice(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) -> bool {
    let key = target.writers_key();
    let Some(Value::Scores(ends)) = keyspace.get(&key, now).map(|entry| &mut entry.value) else {
        return false;
    };
    let had_one = ends.remove(owner.as_str()).is_some();
    if ends.is_empty() {
        keyspace.remove(&key);
    }
    had_one
}

pub(super) fn leave_mark(keyspace: &mut Keyspace, now: Now, target: &Target, life: u64) {
    let key = target.readers_key();
    if keyspace.left(&key, now).is_none_or(|left| left < life) {
        put_for(keyspace, now, &key, life);
    }
}

/// The lock is not written under: a mark stands for one round more. Tells how long, if there is one.
pub(super) fn cut_mark(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<u64> {
    let entry = keyspace.get(&target.readers_key(), now)?;
    entry.time_left(now)?;
    entry.live_no_longer_than(now, ROUND);
    entry.time_left(now)
}

pub(super) fn is_marked(keyspace: &mut Keyspace, now: Now, target: &Target) -> bool {
    keyspace.left(&target.readers_key(), now).is_some()
}
