//! The election: a hash of a mode, the term, and the leader with its candidate's text. Every beginning and every end of a term
//! that is not an expiry is told on the channel.

use std::collections::BTreeMap;
use std::time::Duration;

use super::keyspace::{Entry, Keyspace, Now, Value};
use super::post::Post;
use super::{mutex, token};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Busy, Cause, ELECTION, Released, Renew, Renewed, StepError, TERM, Target};

const ENDED: i64 = 0;
const BEGUN: i64 = 1;

/// The present term; anything but an election is an error.
fn term<'a>(keyspace: &'a mut Keyspace, now: Now, target: &Target) -> Result<Option<&'a mut Entry>, StepError> {
    let Some(entry) = keyspace.get(target.name.as_str(), now) else {
        return Ok(None);
    };
    match mutex::kind(&entry.value) {
        ELECTION => Ok(Some(entry)),
        other => Err(StepError::none(Cause::WrongKind(other.to_owned()))),
    }
}

fn is_led_by(entry: &Entry, owner: &Owner) -> bool {
    matches!(&entry.value, Value::Hash(fields) if fields.contains_key(owner.as_str()))
}

/// Begins a term, or tells how long the present one has left. The leader asking again gets the same answer.
pub(super) fn acquire(
    keyspace: &mut Keyspace,
    now: Now,
    step: &Acquire,
    post: &mut Post<'_>,
) -> Result<Acquired, StepError> {
    let (target, owner) = (&*step.target, &step.owner);
    let ours = match term(keyspace, now, target)? {
        Some(entry) if !is_led_by(entry, owner) => return Ok(Acquired::Busy(Busy::until(entry.time_left(now)))),
        present => present.is_some(),
    };
    let block = if ours {
        let block = token::same_block(keyspace, now, target, owner, step.lease, step.block)?;
        if let Some(entry) = term(keyspace, now, target)? {
            entry.live_for(now, step.lease);
        }
        block
    } else {
        let block = token::new_block(keyspace, now, target, owner, step.lease, step.block)?;
        let candidate = step.candidate.as_deref().unwrap_or_default();
        let fields = [
            ("mode", ELECTION),
            (TERM, &block.first.to_string()),
            (owner.as_str(), candidate),
        ];
        let fields = fields.map(|(field, value)| (field.to_owned(), value.to_owned()));
        let expiry = now.at.plus(Duration::from_millis(step.lease));
        let value = Value::Hash(BTreeMap::from(fields));
        keyspace.put(target.name.as_str(), value, Some(expiry), now);
        post.publish(&target.channel, BEGUN);
        block
    };
    Ok(Acquired::Granted {
        first_token: block.first,
        block: block.size,
    })
}

/// Lengthens the term of its leader, as the mutex's renewal does.
pub(super) fn renew(keyspace: &mut Keyspace, now: Now, entry: &Renew) -> Renewed {
    match term(keyspace, now, &entry.target) {
        Ok(Some(present)) if is_led_by(present, &entry.owner) => {
            present.live_for(now, entry.lease);
            present.live_no_longer_than(now, entry.longest);
        }
        _ => return Renewed::Gone,
    }
    if entry.refresh_token {
        token::refresh(keyspace, now, &entry.target, entry.lease);
    }
    Renewed::Held
}

/// Ends the term if this owner leads.
pub(super) fn release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    match term(keyspace, now, target)? {
        Some(entry) if is_led_by(entry, owner) => {}
        _ => return Ok(Released::NotThere),
    }
    keyspace.remove(target.name.as_str());
    Ok(Released::Freed {
        receivers: post.publish(&target.channel, ENDED),
    })
}

/// Ends the term whoever leads; tells whether there was one.
pub(super) fn force_release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    post: &mut Post<'_>,
) -> Result<bool, StepError> {
    let led = term(keyspace, now, target)?.is_some();
    if led {
        keyspace.remove(target.name.as_str());
        post.publish(&target.channel, ENDED);
    }
    Ok(led)
}

/// The candidate's text of the leader, its owner text and its term.
pub(super) fn leader(fields: &BTreeMap<String, String>) -> Option<(&str, &str, u64)> {
    (fields.get("mode")? == ELECTION).then_some(())?;
    let term = fields.get(TERM)?.parse().ok()?;
    let mut owners = fields.iter().filter(|(field, _)| *field != "mode" && *field != TERM);
    let (owner, candidate) = owners.next()?;
    Some((candidate, owner, term))
}
