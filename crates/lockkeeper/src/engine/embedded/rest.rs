//! The end of a run that is made once in a period: its name stays taken for the rest of it, by nobody.

use std::time::Duration;

use super::keyspace::{Entry, Keyspace, Now, Value};
use super::mutex::{self, Hold};
use super::post::Post;
use crate::base::owner::Owner;
use crate::engine::{Released, Rest, StepError, Target, resting_mark};

/// Puts a mark in the place of the owner, for exactly as long as its rest has left; frees the name if that is over. A repeat
/// finds the mark, and changes nothing. Nobody is told before the rest is over: its end needs no message.
pub(super) fn rest(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    rest: Rest,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    let mark = resting_mark(owner);
    let entry = match mutex::hold(keyspace, now, target, Some(owner))? {
        Hold::Nobody => return Ok(Released::NotThere),
        Hold::Theirs(entry) if is_there(entry, &mark) => {
            return Ok(Released::Resting {
                time_left: entry.time_left(now),
            });
        }
        Hold::Theirs(_) => return Ok(Released::NotThere),
        Hold::Ours(entry) => entry,
    };
    let left = rest.until.saturating_sub(now.server_time / 1_000).min(rest.longest);
    if left < 1 {
        return mutex::release(keyspace, now, target, owner, post);
    }
    match &mut entry.value {
        Value::Hash(fields) => {
            fields.remove(owner.as_str());
            fields.insert(mark, "1".to_owned());
        }
        value => *value = Value::Text(mark),
    }
    entry.expiry = Some(now.at.plus(Duration::from_millis(left)));
    Ok(Released::Resting {
        time_left: entry.time_left(now),
    })
}

fn is_there(entry: &Entry, mark: &str) -> bool {
    match &entry.value {
        Value::Hash(fields) => fields.contains_key(mark),
        Value::Text(text) => text == mark,
        _ => false,
    }
}
