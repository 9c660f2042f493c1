//! The count-down latch: a number that is there only while it is above zero. Message 0 opens the gates of Java's waiters, so
//! it is sent only by the step that reaches zero; 1 closes them.
//!
//! Beside it our own record keeps how the latch last ended and when, so that a waiter whose message was lost still learns of
//! it, and so that a latch of ours can be told from other numbers.

use std::time::Duration;

use super::keyspace::{Keyspace, Now, Value};
use super::mutex;
use super::post::Post;
use crate::engine::{
    Action, Cause, LATCH_END_LIFE, LATCH_GONE, LATCH_OPENED, LATCH_RECORD_LIFE, LATCH_REMOVED, Outcome, StepError,
    Target,
};

const OPEN: i64 = 0;
const CLOSED: i64 = 1;

/// The record of a latch that never ended.
const NO_END: &str = "none 0";

pub(super) fn operate(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    action: Action,
    post: &mut Post<'_>,
) -> Result<Outcome, StepError> {
    let key = target.name.as_str();
    let count = count(keyspace, now, target)?;
    let answer = match action {
        Action::SetCount(wanted) if count == 0 && wanted > 0 => {
            let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
            keyspace.put(key, Value::Text(wanted.to_string()), None, now);
            let end = record(keyspace, now, target).unwrap_or_else(|| NO_END.to_owned());
            keep(keyspace, now, target, end, LATCH_RECORD_LIFE);
            post.publish(&target.channel, CLOSED);
            1
        }
        Action::CountDown if count > 1 => {
            if let Some(entry) = keyspace.get(key, now) {
                entry.value = Value::Text((count - 1).to_string());
            }
            count - 1
        }
        Action::CountDown if count == 1 => {
            keyspace.remove(key);
            keep(
                keyspace,
                now,
                target,
                format!("open {}", now.server_time),
                LATCH_END_LIFE,
            );
            post.publish(&target.channel, OPEN);
            0
        }
        Action::RemoveLatch if count > 0 => {
            keyspace.remove(key);
            keep(
                keyspace,
                now,
                target,
                format!("removed {}", now.server_time),
                LATCH_END_LIFE,
            );
            post.publish(&target.channel, CLOSED);
            1
        }
        Action::Count => count,
        Action::AwaitLatch { since } => match end_since(keyspace, now, target, since) {
            Some(end) => end,
            None if count > 0 || since == 0 => count,
            None => LATCH_GONE,
        },
        _ => 0,
    };
    Ok(Outcome::Number(answer))
}

/// How the latch ended since that moment, if a step of ours ended it. It may have been set again meanwhile.
fn end_since(keyspace: &mut Keyspace, now: Now, target: &Target, since: u64) -> Option<i64> {
    let record = record(keyspace, now, target).filter(|_| since > 0)?;
    let (end, at) = record.split_once(' ')?;
    let at: u64 = at.parse().ok()?;
    match end {
        "open" if at > since => Some(LATCH_OPENED),
        "removed" if at > since => Some(LATCH_REMOVED),
        _ => None,
    }
}

fn record(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<String> {
    match &keyspace.get(&target.latch_record_key(), now)?.value {
        Value::Text(record) => Some(record.clone()),
        _ => None,
    }
}

fn keep(keyspace: &mut Keyspace, now: Now, target: &Target, record: String, life: u64) {
    let expiry = now.at.plus(Duration::from_millis(life));
    keyspace.put(&target.latch_record_key(), Value::Text(record), Some(expiry), now);
}

/// The count; anything but a number above zero is of another kind.
fn count(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<i64, StepError> {
    let Some(entry) = keyspace.get(target.name.as_str(), now) else {
        return Ok(0);
    };
    let count = match &entry.value {
        Value::Text(text) => text
            .parse::<i64>()
            .ok()
            .filter(|count| *count > 0 && count.to_string() == *text),
        _ => None,
    };
    count.ok_or_else(|| StepError::none(Cause::WrongKind(mutex::kind(&entry.value).to_owned())))
}
