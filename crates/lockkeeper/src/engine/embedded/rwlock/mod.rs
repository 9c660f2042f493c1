//! The read-write lock: Redisson's hash of a mode and its holders, and a key beside it for each read hold, whose end is that
//! hold's alone. The hash lives as long as the longest of them.

mod hash;
mod turns;

use self::hash::{Lock, fields_of, look, mode, put_fields, put_for, put_writer, remove_field, set_life};
use self::turns::{LONG_WAIT, LOOK_AGAIN, MARK_BEYOND};
use super::keyspace::{Keyspace, Now};
use super::post::Post;
use super::token;
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Busy, Cause, Kind, Released, Renew, Renewed, StepError, Target};

pub(super) use self::hash::hold_left;
pub(super) use self::turns::waiting_writers;

/// Message 0 wakes one waiter in each of Java's processes, 1 wakes all.
const WAKE_ONE: i64 = 0;
const WAKE_ALL: i64 = 1;

pub(super) fn acquire(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    match step.target.kind {
        Kind::Read => read(keyspace, now, step),
        _ => write(keyspace, now, step),
    }
}

const READING: Acquired = Acquired::Granted {
    first_token: 0,
    block: 1,
};

/// Comes in beside other readers. The owner that already reads gets the same answer again, and a life that is never shortened.
fn read(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let lock = look(keyspace, now, target)?;
    let waited = step.waiting.map(|waiting| waiting.waited);
    let is_patient = waited.is_some_and(|waited| waited > LONG_WAIT);
    if let Some(lock) = &lock
        && lock.writes
    {
        if is_patient {
            turns::leave_mark(keyspace, now, target, lock.time_left.unwrap_or(0) + MARK_BEYOND);
        }
        return Ok(Acquired::Busy(Busy::until(lock.time_left)));
    }
    let is_in = lock.as_ref().is_some_and(|lock| lock.holds(&step.owner));
    if !is_in && let Some(notice) = turns::notice_left(keyspace, now, target) {
        let passes = is_patient && (lock.is_none() || turns::is_marked(keyspace, now, target));
        if !passes {
            let look_again = waited.map(|waited| match &lock {
                Some(_) => notice + 1,
                None => (notice + 1).min((LONG_WAIT + 1).saturating_sub(waited)),
            });
            return Ok(Acquired::Busy(Busy {
                time_left: lock.map_or(Some(notice), |lock| lock.time_left),
                look_again,
            }));
        }
    }
    let mut fields = lock.map_or_else(|| mode("read"), |_| fields_of(keyspace, now, target));
    fields.entry(step.owner.as_str().to_owned()).or_insert("1".to_owned());
    put_fields(keyspace, now, target, fields, step.lease);
    let key = target.hold_key(&step.owner);
    if keyspace.left(&key, now).is_none_or(|left| left < step.lease) {
        put_for(keyspace, now, &key, step.lease);
    }
    turns::cut_mark(keyspace, now, target);
    Ok(READING)
}

/// Comes in alone, or tells how long the present holds have left. A writer that goes on waiting leaves a notice.
fn write(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let lock = look(keyspace, now, target)?;
    if lock.as_ref().is_some_and(|lock| lock.writes && lock.holds(&step.owner)) {
        return write_again(keyspace, now, step);
    }
    let is_held =
        |keyspace: &mut Keyspace, lock: &Lock| lock.writes || lock.longest_hold(keyspace, now, target, None).is_some();
    let busy_for = match &lock {
        Some(lock) if is_held(keyspace, lock) => {
            if !lock.writes {
                turns::cut_mark(keyspace, now, target);
            }
            Some(lock.time_left)
        }
        // It is the turn of others.
        _ => turns::cut_mark(keyspace, now, target).map(Some),
    };
    if let Some(time_left) = busy_for {
        if step.waiting.is_some() {
            turns::leave_notice(keyspace, now, target, &step.owner);
        }
        return Ok(Acquired::Busy(Busy {
            time_left,
            look_again: step.waiting.map(|_| LOOK_AGAIN),
        }));
    }
    let block = token::new_block(keyspace, now, target, &step.owner, step.lease, step.block)?;
    put_writer(keyspace, now, target, &step.owner, step.lease);
    turns::take_notice(keyspace, now, target, &step.owner);
    Ok(Acquired::Granted {
        first_token: block.first,
        block: block.size,
    })
}

/// The writer that already has it gets the same tokens again.
fn write_again(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let block = token::same_block(keyspace, now, target, &step.owner, step.lease, step.block)?;
    if let Some(entry) = keyspace.get(target.name.as_str(), now) {
        entry.live_for(now, step.lease);
    }
    Ok(Acquired::Granted {
        first_token: block.first,
        block: block.size,
    })
}

/// Takes one side in the place of a hold on the other: reading for a writer, writing for the only reader.
pub(super) fn convert(
    keyspace: &mut Keyspace,
    now: Now,
    step: &Acquire,
    from: &Owner,
    post: &mut Post<'_>,
) -> Result<Acquired, StepError> {
    match step.target.kind {
        Kind::Read => downgrade(keyspace, now, step, from, post),
        _ => upgrade(keyspace, now, step, from),
    }
}

fn upgrade(keyspace: &mut Keyspace, now: Now, step: &Acquire, from: &Owner) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let Some(lock) = look(keyspace, now, target)? else {
        return Err(not_held());
    };
    if lock.writes && lock.holds(&step.owner) {
        return write_again(keyspace, now, step);
    }
    let key = target.hold_key(from);
    if lock.writes || !lock.holds(from) || keyspace.left(&key, now).is_none() {
        return Err(not_held());
    }
    if lock.longest_hold(keyspace, now, target, Some(from)).is_some() {
        return Ok(Acquired::Busy(Busy::until(lock.time_left)));
    }
    let block = token::new_block(keyspace, now, target, &step.owner, step.lease, step.block)?;
    put_writer(keyspace, now, target, &step.owner, step.lease);
    keyspace.remove(&key);
    Ok(Acquired::Granted {
        first_token: block.first,
        block: block.size,
    })
}

/// The read hold lasts as long as the write hold would have, or its own lease if that is longer. Everybody is woken: other
/// readers may come in now.
fn downgrade(
    keyspace: &mut Keyspace,
    now: Now,
    step: &Acquire,
    from: &Owner,
    post: &mut Post<'_>,
) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let key = target.hold_key(&step.owner);
    let lock = look(keyspace, now, target)?;
    match lock {
        Some(lock) if lock.writes && lock.holds(from) => {
            let mut fields = fields_of(keyspace, now, target);
            fields.remove(from.as_str());
            fields.extend(mode("read"));
            fields.insert(step.owner.as_str().to_owned(), "1".to_owned());
            put_fields(keyspace, now, target, fields, step.lease);
            let life = lock.time_left.unwrap_or(0).max(step.lease);
            put_for(keyspace, now, &key, life);
            turns::cut_mark(keyspace, now, target);
            post.publish(&target.channel, WAKE_ALL);
        }
        Some(lock) if !lock.writes && lock.holds(&step.owner) && keyspace.left(&key, now).is_some() => {
            for key in [target.name.as_str(), &key] {
                if let Some(entry) = keyspace.get(key, now) {
                    entry.live_for(now, step.lease);
                }
            }
        }
        _ => return Err(not_held()),
    }
    Ok(READING)
}

fn not_held() -> StepError {
    StepError::none(Cause::NotHeld)
}

/// Lengthens a hold of its owner. A reader's own key is lengthened, and the hash as far as that needs it; the keys of others
/// are left alone.
pub(super) fn renew(keyspace: &mut Keyspace, now: Now, entry: &Renew) -> Renewed {
    let target = &*entry.target;
    let reads = target.kind == Kind::Read;
    match look(keyspace, now, target) {
        Ok(Some(lock)) if lock.writes != reads && lock.holds(&entry.owner) => {}
        _ => return Renewed::Gone,
    }
    let key = if reads {
        target.hold_key(&entry.owner)
    } else {
        target.name.as_str().to_owned()
    };
    let Some(held) = keyspace.get(&key, now) else {
        return Renewed::Gone;
    };
    held.live_for(now, entry.lease);
    held.live_no_longer_than(now, entry.longest);
    if reads {
        let life = held.time_left(now).unwrap_or(entry.lease);
        if let Some(hash) = keyspace.get(target.name.as_str(), now) {
            hash.live_for(now, life);
        }
    } else if entry.refresh_token {
        token::refresh(keyspace, now, target, entry.lease);
    }
    Renewed::Held
}

pub(super) fn release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    let lock = look(keyspace, now, target)?;
    match target.kind {
        Kind::Read => Ok(release_read(keyspace, now, target, owner, lock, post)),
        _ => Ok(release_write(keyspace, now, target, owner, lock, post)),
    }
}

/// Ends a read hold. The hash lives on for the longest one that is left, and ends if none lives, whatever dead readers left
/// in it.
fn release_read(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    lock: Option<Lock>,
    post: &mut Post<'_>,
) -> Released {
    let Some(mut lock) = lock.filter(|lock| lock.holds(owner)) else {
        return Released::NotThere;
    };
    let key = target.hold_key(owner);
    let lived = keyspace.left(&key, now).is_some();
    keyspace.remove(&key);
    lock.holders.remove(owner.as_str());
    let receivers = if lock.writes && !lock.holders.is_empty() {
        remove_field(keyspace, now, target, owner);
        0
    } else if let Some(left) = lock.longest_hold(keyspace, now, target, None) {
        remove_field(keyspace, now, target, owner);
        set_life(keyspace, now, target, left);
        0
    } else {
        keyspace.remove(target.name.as_str());
        post.publish(&target.channel, WAKE_ONE)
    };
    if lived {
        Released::Freed { receivers }
    } else {
        Released::NotThere
    }
}

/// Ends a write hold, and takes back the notice of a writer that waits no more: readers may come in then.
fn release_write(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    lock: Option<Lock>,
    post: &mut Post<'_>,
) -> Released {
    let had_notice = turns::take_notice(keyspace, now, target, owner);
    let Some(mut held) = lock.as_ref().filter(|lock| lock.writes && lock.holds(owner)).cloned() else {
        let may_read = !lock.is_some_and(|lock| lock.writes) && turns::notice_left(keyspace, now, target).is_none();
        if had_notice && may_read {
            post.publish(&target.channel, WAKE_ALL);
        }
        return Released::NotThere;
    };
    held.holders.remove(owner.as_str());
    // Only a peer reads beside its own write hold.
    match held.longest_hold(keyspace, now, target, None) {
        Some(left) => {
            let mut fields = fields_of(keyspace, now, target);
            fields.remove(owner.as_str());
            fields.extend(mode("read"));
            put_fields(keyspace, now, target, fields, left);
            set_life(keyspace, now, target, left);
        }
        None => keyspace.remove(target.name.as_str()),
    }
    Released::Freed {
        receivers: post.publish(&target.channel, WAKE_ALL),
    }
}

/// Frees one side whoever holds it; the other is left alone.
pub(super) fn force_release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    post: &mut Post<'_>,
) -> Result<bool, StepError> {
    let writes = target.kind == Kind::Write;
    let held = look(keyspace, now, target)?.is_some_and(|lock| lock.writes == writes);
    if held {
        keyspace.remove(target.name.as_str());
        post.publish(&target.channel, if writes { WAKE_ALL } else { WAKE_ONE });
    }
    Ok(held)
}
