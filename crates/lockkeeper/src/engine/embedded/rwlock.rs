//! The read-write lock: Redisson's hash of a mode and its holders, and a key beside it for each read hold, whose end is that
//! hold's alone. The hash lives as long as the longest of them.
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

use super::keyspace::{Keyspace, Now, Value};
use super::mutex;
use super::post::Post;
use super::token;
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Busy, Cause, InLine, Kind, Released, Renew, Renewed, StepError, Target};

/// How long the notice of a writer stands that is not heard of, in milliseconds.
pub(crate) const NOTICE: u64 = 2_000;

/// How often a waiting writer looks again, so that its notice stands.
pub(crate) const LOOK_AGAIN: u64 = 1_000;

/// A reader that has waited for longer passes the notices.
pub(crate) const LONG_WAIT: u64 = 1_000;

/// For how long writers step back, and so how far apart the readers of one round may come.
pub(crate) const ROUND: u64 = 50;

/// How much longer a mark stands than the writer's lease before whose end it was left.
pub(crate) const MARK_BEYOND: u64 = 1_000;

/// How many holds of one peer are looked at.
pub(crate) const MOST_HOLDS: u64 = 1_000;

/// Message 0 wakes one waiter in each of Java's processes, 1 wakes all.
const WAKE_ONE: i64 = 0;
const WAKE_ALL: i64 = 1;

/// The lock as it was found.
#[derive(Clone)]
struct Lock {
    writes: bool,
    /// Every holder with its number of holds.
    holders: BTreeMap<String, u64>,
    time_left: Option<u64>,
}

impl Lock {
    fn holds(&self, owner: &Owner) -> bool {
        self.holders.contains_key(owner.as_str())
    }

    /// How long the longest read hold has left, of all owners but one; `None` if none lives. What a dead reader left in the
    /// hash does not count.
    fn longest_hold(&self, keyspace: &mut Keyspace, now: Now, target: &Target, but: Option<&Owner>) -> Option<u64> {
        let others = self
            .holders
            .iter()
            .filter(|(owner, _)| but.is_none_or(|but| but.as_str() != **owner));
        others
            .filter_map(|(owner, holds)| hold_left(keyspace, now, target, owner, *holds))
            .max()
    }
}

/// How long the longest of one owner's read holds has left; `None` if none lives.
pub(super) fn hold_left(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &str, holds: u64) -> Option<u64> {
    let base = target.hold_key_base();
    let keys = (1..=holds.min(MOST_HOLDS)).map(|number| format!("{base}{owner}:rwlock_timeout:{number}"));
    keys.filter_map(|key| key_left(keyspace, now, &key)).max()
}

/// How long a key has left that ends.
fn key_left(keyspace: &mut Keyspace, now: Now, key: &str) -> Option<u64> {
    keyspace.get(key, now)?.time_left(now)
}

/// `None` if the lock is free; anything but a read-write lock is an error.
fn look(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Option<Lock>, StepError> {
    let Some(entry) = keyspace.get(target.name.as_str(), now) else {
        return Ok(None);
    };
    let wrong = |word: &str| Err(StepError::none(Cause::WrongKind(word.to_owned())));
    let fields = match &entry.value {
        Value::Hash(fields) => fields,
        other => return wrong(mutex::kind(other)),
    };
    let writes = match fields.get("mode").map(String::as_str) {
        Some("write") => true,
        Some("read") => false,
        _ => return wrong("hash"),
    };
    let holders = fields.iter().filter(|(owner, _)| *owner != "mode");
    Ok(Some(Lock {
        writes,
        holders: holders
            .map(|(owner, holds)| (owner.clone(), number_of(holds)))
            .collect(),
        time_left: entry.time_left(now),
    }))
}

/// A number of holds; what is none counts for none.
fn number_of(holds: &str) -> u64 {
    if holds.is_empty() || !holds.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    holds.parse().unwrap_or(u64::MAX)
}

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
            leave_mark(keyspace, now, target, lock.time_left.unwrap_or(0) + MARK_BEYOND);
        }
        return Ok(Acquired::Busy(Busy::until(lock.time_left)));
    }
    let is_in = lock.as_ref().is_some_and(|lock| lock.holds(&step.owner));
    if !is_in && let Some(notice) = notice_left(keyspace, now, target) {
        let passes = is_patient && (lock.is_none() || key_left(keyspace, now, &target.readers_key()).is_some());
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
    if key_left(keyspace, now, &key).is_none_or(|left| left < step.lease) {
        put_for(keyspace, now, &key, step.lease);
    }
    cut_mark(keyspace, now, target);
    Ok(READING)
}

/// Comes in alone, or tells how long the present holds have left. A writer that goes on waiting leaves a notice.
fn write(keyspace: &mut Keyspace, now: Now, step: &Acquire) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let lock = look(keyspace, now, target)?;
    if lock.as_ref().is_some_and(|lock| lock.writes && lock.holds(&step.owner)) {
        return write_again(keyspace, now, step);
    }
    let is_held = |keyspace: &mut Keyspace, lock: &Lock| {
        lock.writes || lock.longest_hold(keyspace, now, target, None).is_some()
    };
    let busy_for = match &lock {
        Some(lock) if is_held(keyspace, lock) => {
            if !lock.writes {
                cut_mark(keyspace, now, target);
            }
            Some(lock.time_left)
        }
        // It is the turn of others.
        _ => cut_mark(keyspace, now, target).map(Some),
    };
    if let Some(time_left) = busy_for {
        if step.waiting.is_some() {
            leave_notice(keyspace, now, target, &step.owner);
        }
        return Ok(Acquired::Busy(Busy {
            time_left,
            look_again: step.waiting.map(|_| LOOK_AGAIN),
        }));
    }
    let block = token::new_block(keyspace, now, target, &step.owner, step.lease, step.block)?;
    put_writer(keyspace, now, target, &step.owner, step.lease);
    take_notice(keyspace, now, target, &step.owner);
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
    if lock.writes || !lock.holds(from) || key_left(keyspace, now, &key).is_none() {
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
            cut_mark(keyspace, now, target);
            post.publish(&target.channel, WAKE_ALL);
        }
        Some(lock) if !lock.writes && lock.holds(&step.owner) && key_left(keyspace, now, &key).is_some() => {
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
    let lived = key_left(keyspace, now, &key).is_some();
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
    let had_notice = take_notice(keyspace, now, target, owner);
    let Some(mut held) = lock.as_ref().filter(|lock| lock.writes && lock.holds(owner)).cloned() else {
        let may_read = !lock.is_some_and(|lock| lock.writes) && notice_left(keyspace, now, target).is_none();
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

/// The writers that wait, in the order in which their notices fall.
pub(super) fn waiting_writers(keyspace: &mut Keyspace, now: Now, target: &Target) -> Vec<InLine> {
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
fn notice_left(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<u64> {
    let last = notices(keyspace, now, target).into_values().max()?;
    let left = last - milliseconds(now);
    (left > 0).then_some(left.unsigned_abs())
}

/// What somebody else put under that key is left alone.
fn leave_notice(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) {
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
fn take_notice(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) -> bool {
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

fn leave_mark(keyspace: &mut Keyspace, now: Now, target: &Target, life: u64) {
    let key = target.readers_key();
    if key_left(keyspace, now, &key).is_none_or(|left| left < life) {
        put_for(keyspace, now, &key, life);
    }
}

/// The lock is not written under: a mark stands for one round more. Tells how long, if there is one.
fn cut_mark(keyspace: &mut Keyspace, now: Now, target: &Target) -> Option<u64> {
    let entry = keyspace.get(&target.readers_key(), now)?;
    entry.time_left(now)?;
    entry.live_no_longer_than(now, ROUND);
    entry.time_left(now)
}

fn mode(mode: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("mode".to_owned(), mode.to_owned())])
}

fn fields_of(keyspace: &mut Keyspace, now: Now, target: &Target) -> BTreeMap<String, String> {
    match keyspace.get(target.name.as_str(), now).map(|entry| &entry.value) {
        Some(Value::Hash(fields)) => fields.clone(),
        _ => BTreeMap::new(),
    }
}

/// Writes the hash, which lives for at least so long and for no less than it had.
fn put_fields(keyspace: &mut Keyspace, now: Now, target: &Target, fields: BTreeMap<String, String>, life: u64) {
    let key = target.name.as_str();
    match keyspace.get(key, now) {
        Some(entry) => {
            entry.value = Value::Hash(fields);
            entry.live_for(now, life);
        }
        None => {
            let expiry = now.at.plus(Duration::from_millis(life));
            keyspace.put(key, Value::Hash(fields), Some(expiry), now);
        }
    }
}

/// A writer has the hash for itself: whatever dead readers left in it is gone.
fn put_writer(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner, lease: u64) {
    keyspace.remove(target.name.as_str());
    let mut fields = mode("write");
    fields.insert(owner.as_str().to_owned(), "1".to_owned());
    put_fields(keyspace, now, target, fields, lease);
}

fn remove_field(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) {
    if let Some(Value::Hash(fields)) = keyspace.get(target.name.as_str(), now).map(|entry| &mut entry.value) {
        fields.remove(owner.as_str());
    }
}

fn set_life(keyspace: &mut Keyspace, now: Now, target: &Target, life: u64) {
    if let Some(entry) = keyspace.get(target.name.as_str(), now) {
        entry.expiry = Some(now.at.plus(Duration::from_millis(life)));
    }
}

fn put_for(keyspace: &mut Keyspace, now: Now, key: &str, life: u64) {
    let expiry = now.at.plus(Duration::from_millis(life));
    keyspace.put(key, Value::Text("1".to_owned()), Some(expiry), now);
}
