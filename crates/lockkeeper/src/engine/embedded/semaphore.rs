//! What both semaphores have in common: a number of permits under the name. And the plain one, whose permits are nobody's:
//! who takes some is only remembered until no copy of its request can come any more.
//!
//! Whoever makes more permits available publishes how many are available then, and never a number below one: Java's listener
//! stumbles over those.

use std::collections::BTreeMap;
use std::time::Duration;

use super::keyspace::{Keyspace, Now, Value};
use super::mutex;
use super::post::Post;
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::engine::{
    ANSWER_LIFE, Acquire, Acquired, Action, Busy, Cause, Kind, Outcome, Released, SEMAPHORE_RECORD_LIFE, StepError,
    Target,
};
use crate::error::Refusal;

/// Numbers stay below this, so that they are exact in every language.
const END: i64 = 1 << 53;

/// The number under a key, if it is one as Redis counts with.
pub(super) fn number(value: &Value) -> Option<i64> {
    let Value::Text(text) = value else { return None };
    let number = text.parse::<i64>().ok()?;
    (number.to_string() == *text && number.abs() < END).then_some(number)
}

/// How many permits are available, those that have ended not counted; `None` if there is no semaphore. Anything else is of
/// another kind.
pub(super) fn available(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Option<i64>, StepError> {
    let wrong = |found: &str| StepError::none(Cause::WrongKind(found.to_owned()));
    let available = match keyspace.get(target.name.as_str(), now).map(|entry| &entry.value) {
        None => None,
        Some(value) => Some(number(value).ok_or_else(|| wrong(mutex::kind(value)))?),
    };
    match keyspace.get(&target.permits_key(), now).map(|entry| &entry.value) {
        None => Ok(available),
        Some(Value::Scores(_)) if target.kind == Kind::Counter => Err(wrong("permits")),
        Some(Value::Scores(_)) => Ok(available),
        Some(other) => Err(wrong(mutex::kind(other))),
    }
}

/// The moment in milliseconds of the server's time: what has an end up to now has ended.
pub(super) fn milliseconds(now: Now) -> i64 {
    i64::try_from(now.server_time / 1000).unwrap_or(i64::MAX)
}

/// The ids that are held, with their ends.
pub(super) fn ids(keyspace: &mut Keyspace, now: Now, target: &Target) -> BTreeMap<String, i64> {
    match keyspace.get(&target.permits_key(), now).map(|entry| &entry.value) {
        Some(Value::Scores(ids)) => ids.clone(),
        _ => BTreeMap::new(),
    }
}

/// Writes the ids back, with the life that the key has.
pub(super) fn put_ids(keyspace: &mut Keyspace, now: Now, target: &Target, ids: BTreeMap<String, i64>) {
    let key = target.permits_key();
    if ids.is_empty() {
        keyspace.remove(&key);
    } else if let Some(entry) = keyspace.get(&key, now) {
        entry.value = Value::Scores(ids);
    } else {
        keyspace.put(&key, Value::Scores(ids), None, now);
    }
}

/// Adds to the number, which keeps its life, and tells what it is then.
pub(super) fn add(keyspace: &mut Keyspace, now: Now, target: &Target, permits: i64) -> i64 {
    let key = target.name.as_str();
    let Some(entry) = keyspace.get(key, now) else {
        keyspace.put(key, Value::Text(permits.to_string()), None, now);
        return permits;
    };
    let sum = number(&entry.value).unwrap_or(0) + permits;
    entry.value = Value::Text(sum.to_string());
    sum
}

/// Tells how many permits are available, if there are any.
pub(super) fn tell(target: &Target, available: i64, post: &mut Post<'_>) -> u64 {
    if available > 0 {
        post.publish(&target.channel, available)
    } else {
        0
    }
}

/// Makes available again what has ended, and tells how many are available then.
pub(super) fn reclaim(keyspace: &mut Keyspace, now: Now, target: &Target, available: i64, post: &mut Post<'_>) -> i64 {
    let mut ids = ids(keyspace, now, target);
    let before = ids.len();
    ids.retain(|_, end| !has_ended(*end, now));
    let ended = before - ids.len();
    if ended == 0 {
        return available;
    }
    put_ids(keyspace, now, target, ids);
    let available = add(keyspace, now, target, i64::try_from(ended).unwrap_or(i64::MAX));
    tell(target, available, post);
    available
}

pub(super) fn has_ended(end: i64, now: Now) -> bool {
    (0..=milliseconds(now)).contains(&end)
}

pub(super) fn operate(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    action: Action,
    post: &mut Post<'_>,
) -> Result<Outcome, StepError> {
    let available = available(keyspace, now, target)?;
    if action == Action::CountPermits {
        return Ok(count(keyspace, now, target, available));
    }
    let available = available.map(|available| reclaim(keyspace, now, target, available, post));
    let answer = match action {
        Action::TrySetPermits { permits, life } if available.is_none() => {
            let expiry = life.map(|life| now.at.plus(Duration::from_millis(life)));
            set(keyspace, now, target, permits, expiry, post);
            1
        }
        Action::SetPermits(permits) => {
            match available {
                None => set(keyspace, now, target, permits, None, post),
                Some(available) => {
                    let held = ids(keyspace, now, target).values().filter(|end| **end >= 0).count();
                    let total = available + i64::try_from(held).unwrap_or(i64::MAX);
                    let missing = i64::try_from(permits).unwrap_or(i64::MAX) - total;
                    let available = add(keyspace, now, target, missing);
                    note(keyspace, now, target);
                    if missing > 0 {
                        tell(target, available, post);
                    }
                }
            }
            1
        }
        Action::AddPermits { permits, if_there } if available.is_some() || !if_there => {
            let sum = available.unwrap_or(0) + permits;
            if sum.abs() >= END {
                let detail = "the number of permits would leave the range of exact numbers".to_owned();
                return Err(StepError::none(Cause::Refused(Refusal::Other, detail)));
            }
            add(keyspace, now, target, permits);
            note(keyspace, now, target);
            if permits > 0 {
                tell(target, sum, post);
            }
            1
        }
        Action::DrainPermits => {
            let taken = available.unwrap_or(0).max(0);
            if taken > 0 {
                add(keyspace, now, target, -taken);
            }
            taken
        }
        Action::RemovePermits => {
            keyspace.remove(target.name.as_str());
            keyspace.remove(&target.permits_key());
            keyspace.remove(&target.semaphore_record_key());
            i64::from(available.is_some())
        }
        _ => 0,
    };
    Ok(Outcome::Number(answer))
}

fn set(keyspace: &mut Keyspace, now: Now, target: &Target, permits: u64, expiry: Option<Moment>, post: &mut Post<'_>) {
    keyspace.put(target.name.as_str(), Value::Text(permits.to_string()), expiry, now);
    note(keyspace, now, target);
    tell(target, i64::try_from(permits).unwrap_or(i64::MAX), post);
}

/// Remembers which semaphore it is, for no longer than it lives.
fn note(keyspace: &mut Keyspace, now: Now, target: &Target) {
    let life = keyspace.get(target.name.as_str(), now).and_then(|entry| entry.expiry);
    let expiry = now.at.plus(Duration::from_millis(SEMAPHORE_RECORD_LIFE));
    let expiry = life.map_or(expiry, |life| life.min(expiry));
    let word = Value::Text(word(target).to_owned());
    keyspace.put(&target.semaphore_record_key(), word, Some(expiry), now);
}

/// The word by which a record and an inspection tell the two semaphores apart.
pub(crate) const fn word(target: &Target) -> &'static str {
    match target.kind {
        Kind::Permits => "permits",
        _ => "semaphore",
    }
}

/// What is available, with what has ended and was not made available again yet; and what is held.
fn count(keyspace: &mut Keyspace, now: Now, target: &Target, available: Option<i64>) -> Outcome {
    let Some(available) = available else {
        return Outcome::Permits {
            available: 0,
            acquired: 0,
        };
    };
    let ids = ids(keyspace, now, target);
    let ended = ids.values().filter(|end| has_ended(**end, now)).count();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    Outcome::Permits {
        available: available + number(ended),
        acquired: number(ids.len() - ended),
    }
}

/// Takes permits of the plain semaphore. The owner that has them already gets the same answer again, and one that has
/// given them up gets none.
pub(super) fn acquire(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let granted = Acquired::Granted {
        first_token: 0,
        block: 1,
    };
    let busy = Acquired::Busy(Busy::until(None));
    if let Some(taken) = taken(keyspace, now, target, &step.owner) {
        return Ok(if taken > 0 { granted } else { busy });
    }
    let wanted = i64::from(step.permits);
    if available(keyspace, now, target)?.unwrap_or(0) < wanted {
        return Ok(busy);
    }
    add(keyspace, now, target, -wanted);
    remember(keyspace, now, target, &step.owner, wanted);
    Ok(granted)
}

/// Undoes an acquire of the plain semaphore whose caller does not want it any more, and lets no late copy of it take anything.
pub(super) fn give_back(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    let available = available(keyspace, now, target)?;
    let taken = taken(keyspace, now, target, owner).unwrap_or(0);
    remember(keyspace, now, target, owner, 0);
    if taken == 0 {
        return Ok(Released::NotThere);
    }
    let receivers = match available {
        // It was removed meanwhile.
        None => 0,
        Some(_) => {
            let available = add(keyspace, now, target, taken);
            tell(target, available, post)
        }
    };
    Ok(Released::Freed { receivers })
}

fn taken(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) -> Option<i64> {
    number(&keyspace.get(&target.answer_key(owner), now)?.value)
}

fn remember(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner, taken: i64) {
    let expiry = now.at.plus(Duration::from_millis(ANSWER_LIFE));
    keyspace.put(
        &target.answer_key(owner),
        Value::Text(taken.to_string()),
        Some(expiry),
        now,
    );
}
