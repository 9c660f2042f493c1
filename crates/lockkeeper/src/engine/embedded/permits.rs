//! The semaphore whose permits are leased: each has an id, and an end after which it is available again.
//!
//! The owner text of a hold is its ids, one behind the other. Java keeps them as bytes; here they are hex digits.

use super::keyspace::{Keyspace, Now};
use super::post::Post;
use super::semaphore::{add, available, has_ended, ids, milliseconds, put_ids, reclaim, tell};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Busy, NEVER, Released, Renew, Renewed, StepError, Target};

/// Takes a permit for each id, all of them or none. The owner that has them already gets the same answer again, and a life that
/// is never shortened.
pub(super) fn acquire(
    keyspace: &mut Keyspace,
    now: Now,
    step: &Acquire,
    post: &mut Post<'_>,
) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let Some(available) = available(keyspace, now, target)? else {
        return Ok(Acquired::Busy(Busy::until(None)));
    };
    let available = reclaim(keyspace, now, target, available, post);
    let mut held = ids(keyspace, now, target);
    let missing = step.owner.permits().filter(|id| !held.contains_key(*id)).count();
    let missing = i64::try_from(missing).unwrap_or(i64::MAX);
    if missing > 0 && available < missing {
        let ends = held.values().filter(|end| **end > milliseconds(now) && **end < NEVER);
        let left = ends.min().map(|end| (end - milliseconds(now)).unsigned_abs());
        return Ok(Acquired::Busy(Busy::until(left)));
    }
    if missing > 0 {
        add(keyspace, now, target, -missing);
    }
    let due = milliseconds(now).saturating_add_unsigned(step.lease);
    for id in step.owner.permits() {
        let end = held.entry(id.to_owned()).or_insert(due);
        *end = due.max(*end);
    }
    put_ids(keyspace, now, target, held);
    // Both keys end together.
    let expiry = keyspace.get(target.name.as_str(), now).and_then(|entry| entry.expiry);
    if let Some(entry) = keyspace.get(&target.permits_key(), now) {
        entry.expiry = expiry;
    }
    Ok(Acquired::Granted {
        first_token: 0,
        block: 1,
    })
}

/// Moves the ends of permits on, if all of them are there and none has ended. What has ended is never taken again.
pub(super) fn renew(keyspace: &mut Keyspace, now: Now, entry: &Renew) -> Renewed {
    let target = &*entry.target;
    let mut held = ids(keyspace, now, target);
    let is_held = |id: &str| held.get(id).is_some_and(|end| *end > milliseconds(now));
    if !entry.owner.permits().all(is_held) {
        return Renewed::Gone;
    }
    let after = |life: u64| milliseconds(now).saturating_add_unsigned(life);
    let (due, last) = (after(entry.lease), after(entry.longest.max(entry.lease)));
    for id in entry.owner.permits() {
        if let Some(end) = held.get_mut(id) {
            *end = (*end).clamp(due, last);
        }
    }
    put_ids(keyspace, now, target, held);
    Renewed::Held
}

/// Gives permits back. What had ended is given back too, and yet counts as not held.
pub(super) fn release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    let available = available(keyspace, now, target)?;
    let mut held = ids(keyspace, now, target);
    let (mut all_held, mut removed) = (true, 0);
    for id in owner.permits() {
        let end = held.remove(id);
        removed += i64::from(end.is_some());
        all_held &= end.is_some_and(|end| end > milliseconds(now));
    }
    if removed == 0 {
        return Ok(Released::NotThere);
    }
    let before = held.len();
    held.retain(|_, end| !has_ended(*end, now));
    removed += i64::try_from(before - held.len()).unwrap_or(0);
    put_ids(keyspace, now, target, held);
    if available.is_none() {
        // The semaphore was removed, and its permits with it.
        return Ok(Released::NotThere);
    }
    let available = add(keyspace, now, target, removed);
    let receivers = tell(target, available, post);
    Ok(if all_held {
        Released::Freed { receivers }
    } else {
        Released::NotThere
    })
}
