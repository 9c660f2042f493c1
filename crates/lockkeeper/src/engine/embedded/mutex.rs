//! The mutex in both layouts: Redisson's hash of one owner, and the plain string.

use std::collections::BTreeMap;
use std::time::Duration;

use super::keyspace::{Entry, Keyspace, Now, Value};
use super::post::Post;
use super::token;
use crate::base::owner::Owner;
use crate::engine::{
    Acquire, Acquired, Busy, Cause, ELECTION, Kind, Layout, Released, Renew, Renewed, StepError, Target,
};

/// Who has the mutex, as one owner sees it.
pub(super) enum Hold<'a> {
    Nobody,
    Ours(&'a mut Entry),
    Theirs(&'a mut Entry),
}

/// Looks at the key; anything but a mutex of the target's layout is an error.
pub(super) fn hold<'a>(
    keyspace: &'a mut Keyspace,
    now: Now,
    target: &Target,
    owner: Option<&Owner>,
) -> Result<Hold<'a>, StepError> {
    let Some(entry) = keyspace.get(target.name.as_str(), now) else {
        return Ok(Hold::Nobody);
    };
    let ours = match (&entry.value, target.kind.layout()) {
        (Value::Hash(fields), Layout::Redisson) if !fields.contains_key("mode") => {
            owner.is_some_and(|owner| fields.contains_key(owner.as_str()))
        }
        (Value::Text(text), Layout::Plain) => owner.is_some_and(|owner| text == owner.as_str()),
        (other, _) => return Err(StepError::none(Cause::WrongKind(kind(other).to_owned()))),
    };
    Ok(if ours { Hold::Ours(entry) } else { Hold::Theirs(entry) })
}

/// The word for what a key holds.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "string",
        Value::Hash(fields) => match fields.get("mode").map(String::as_str) {
            Some(ELECTION) => ELECTION,
            Some(_) => "read-write lock",
            None => "hash",
        },
        Value::Token(_) => "hash",
        Value::List(_) => "list",
        Value::Scores(_) => "zset",
    }
}

/// Takes the mutex, or tells how long the present hold has left. The owner that already has it gets the same answer
/// again, and a life that is never shortened: a lost reply costs nothing.
pub(super) fn acquire(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let block = match hold(keyspace, now, target, Some(&step.owner))? {
        Hold::Theirs(entry) => {
            return Ok(Acquired::Busy(Busy::until(entry.time_left(now))));
        }
        Hold::Nobody => {
            let block = match target.kind {
                Kind::Fenced => token::new_fence(keyspace, now, target)?,
                _ => token::new_block(keyspace, now, target, &step.owner, step.lease, step.block)?,
            };
            let value = match target.kind.layout() {
                Layout::Redisson => Value::Hash(BTreeMap::from([(step.owner.as_str().to_owned(), "1".to_owned())])),
                Layout::Plain => Value::Text(step.owner.as_str().to_owned()),
            };
            let expiry = now.at.plus(Duration::from_millis(step.lease));
            keyspace.put(target.name.as_str(), value, Some(expiry), now);
            block
        }
        Hold::Ours(_) => {
            let block = match target.kind {
                Kind::Fenced => token::same_fence(keyspace, now, target)?,
                _ => token::same_block(keyspace, now, target, &step.owner, step.lease, step.block)?,
            };
            if let Hold::Ours(entry) = hold(keyspace, now, target, Some(&step.owner))? {
                entry.live_for(now, step.lease);
            }
            block
        }
    };
    Ok(Acquired::Granted {
        first_token: block.first,
        block: block.size,
    })
}

/// Lengthens the hold of its owner: to the wanted life, never shorter than what is left, and never longer than the hold
/// ever asked for (more than that is a clock that stepped back). It never takes a mutex again.
pub(super) fn renew(keyspace: &mut Keyspace, now: Now, entry: &Renew) -> Renewed {
    let Ok(Hold::Ours(held)) = hold(keyspace, now, &entry.target, Some(&entry.owner)) else {
        return Renewed::Gone;
    };
    held.live_for(now, entry.lease);
    held.live_no_longer_than(now, entry.longest);
    if entry.refresh_token {
        token::refresh(keyspace, now, &entry.target, entry.lease);
    }
    Renewed::Held
}

/// Frees the mutex if this owner holds it.
pub(super) fn release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    let Hold::Ours(entry) = hold(keyspace, now, target, Some(owner))? else {
        return Ok(Released::NotThere);
    };
    // A hash ends with its last field; only a stranger's hand puts a second one there.
    let others = match &mut entry.value {
        Value::Hash(fields) => {
            fields.remove(owner.as_str());
            !fields.is_empty()
        }
        _ => false,
    };
    if !others {
        keyspace.remove(target.name.as_str());
    }
    Ok(Released::Freed {
        receivers: signal(target, post),
    })
}

/// Frees the mutex whoever holds it; tells whether there was one. The token's record stays, so tokens go on rising.
pub(super) fn force_release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    post: &mut Post<'_>,
) -> Result<bool, StepError> {
    let held = !matches!(hold(keyspace, now, target, None)?, Hold::Nobody);
    if held {
        keyspace.remove(target.name.as_str());
        signal(target, post);
    }
    Ok(held)
}

/// Redisson's message for "look again". A spin mutex sends none.
fn signal(target: &Target, post: &mut Post<'_>) -> u64 {
    match target.kind {
        Kind::Spin => 0,
        _ => post.publish(&target.channel, 0),
    }
}
