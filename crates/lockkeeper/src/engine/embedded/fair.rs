//! The fair mutex: Redisson's hash of one owner, and beside it a line of those who wait, each with the moment at which it
//! counts as dead.
//!
//! Redisson's rule for that moment is the end of the lock's life and one grace for each place up to one's own. A waiter of
//! ours moves it on whenever it looks, so that it keeps its place however long it waits. Once the lock is free its head has
//! one grace, whatever moment it had: it was told, so if it is alive it comes.

use std::collections::{BTreeMap, VecDeque};

use super::keyspace::{Entry, Keyspace, Now, Value};
use super::mutex::{self, Hold};
use super::post::Post;
use super::token;
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Busy, Cause, InLine, Released, StepError, Target, Waiting};

/// The grace of Redisson's waiters, which it takes off the moments of all others when it leaves the line.
pub(crate) const PEER_GRACE: i64 = 300_000;

/// How often whoever stands behind a waiter that may go without a word looks again, and the first behind the head.
pub(crate) const CLOSE_LOOK: i64 = 1_000;

/// How many places of the line are looked through for peers, and how many deaf heads are passed over with a message.
pub(crate) const FAR: usize = 64;

/// The line of one name, taken out of the keyspace for one step, and put back at its end.
struct Line<'a> {
    target: &'a Target,
    waiters: VecDeque<String>,
    /// When each counts as dead, in milliseconds of the server's time.
    ends: BTreeMap<String, i64>,
    now: i64,
}

impl<'a> Line<'a> {
    fn take(keyspace: &mut Keyspace, now: Now, target: &'a Target) -> Result<Self, StepError> {
        let wrong = |value: &Value| StepError::none(Cause::WrongKind(mutex::kind(value).to_owned()));
        let waiters = match keyspace.get(&target.queue_key(), now).map(|entry| &entry.value) {
            None => VecDeque::new(),
            Some(Value::List(waiters)) => waiters.clone(),
            Some(other) => return Err(wrong(other)),
        };
        let ends = match keyspace.get(&target.timeout_key(), now).map(|entry| &entry.value) {
            None => BTreeMap::new(),
            Some(Value::Scores(ends)) => ends.clone(),
            Some(other) => return Err(wrong(other)),
        };
        let mut line = Self {
            target,
            waiters,
            ends,
            now: i64::try_from(now.server_time / 1_000).unwrap_or(i64::MAX),
        };
        line.drop_dead();
        Ok(line)
    }

    fn put_back(self, keyspace: &mut Keyspace, now: Now) {
        let Self {
            target, waiters, ends, ..
        } = self;
        put(
            keyspace,
            now,
            &target.queue_key(),
            waiters.is_empty(),
            Value::List(waiters),
        );
        put(
            keyspace,
            now,
            &target.timeout_key(),
            ends.is_empty(),
            Value::Scores(ends),
        );
    }

    /// Heads that count as dead lose their place.
    fn drop_dead(&mut self) {
        while let Some(head) = self.waiters.front()
            && self.ends.get(head).is_some_and(|end| *end <= self.now)
        {
            self.ends.remove(head);
            self.waiters.pop_front();
        }
    }

    fn head(&self) -> Option<&String> {
        self.waiters.front()
    }

    fn position(&self, owner: &str) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter == owner)
    }

    /// How many peers stand before this place, as far as one looks.
    fn peers_before(&self, position: usize) -> usize {
        let near = self.waiters.iter().take(position).skip(position.saturating_sub(FAR));
        near.filter(|waiter| !is_ours(waiter)).count()
    }

    /// Gives a waiter its place, or lets it keep the one it has; tells which it is.
    fn wait(&mut self, owner: &str, grace: i64, lock_left: i64) -> usize {
        if let Some(position) = self.position(owner) {
            let places = i64::try_from(position + 1).unwrap_or(i64::MAX);
            let peers = i64::try_from(self.peers_before(position)).unwrap_or(0);
            let end = self.now + lock_left + places * grace + peers * PEER_GRACE;
            let known = self.ends.entry(owner.to_owned()).or_insert(end);
            *known = end.max(*known);
            return position;
        }
        let last = self.waiters.back().and_then(|last| self.ends.get(last)).copied();
        let before = last.unwrap_or(0).max(self.now + lock_left);
        self.ends.insert(owner.to_owned(), before + grace);
        self.waiters.push_back(owner.to_owned());
        self.waiters.len() - 1
    }

    /// Takes a waiter out. Those behind it move up by what its place counted for, which is its grace, or as far as is known the
    /// distance to the place before; though none is dead by that alone.
    fn leave(&mut self, owner: &str, grace: Option<i64>, lock_left: i64) {
        let position = self.position(owner);
        let end = self.ends.remove(owner);
        let Some(position) = position else { return };
        let before = match position.checked_sub(1) {
            Some(before) => self.ends.get(&self.waiters[before]).copied(),
            None => Some(self.now + lock_left),
        };
        let grace = grace.or_else(|| Some(end? - before?)).unwrap_or(0).max(0);
        self.waiters.retain(|waiter| waiter != owner);
        for behind in self.waiters.iter().skip(position) {
            if let Some(end) = self.ends.get_mut(behind) {
                *end = (*end - grace).max((*end).min(self.now + grace));
            }
        }
    }

    /// The lock is free and somebody who is not the head looks: the head has one grace from now on, and is told again
    /// when that begins. Tells how long it has.
    fn hurry_head(&mut self, grace: i64, post: &mut Post<'_>) -> i64 {
        let Some(head) = self.waiters.front().cloned() else {
            return 0;
        };
        let latest = self.now + (grace - CLOSE_LOOK).max(grace / 2);
        let end = self.ends.entry(head.clone()).or_insert(i64::MAX);
        if *end > latest {
            *end = latest;
            let left = latest - self.now;
            post.publish(&self.target.channel_of_text(&head), 0);
            return left;
        }
        *end - self.now
    }

    /// Tells the head that the lock is free, and whoever comes next if the head does not hear. Tells how many heard.
    fn call(&self, post: &mut Post<'_>) -> u64 {
        for waiter in self.waiters.iter().take(FAR) {
            let heard = post.publish(&self.target.channel_of_text(waiter), 0);
            if heard > 0 {
                return heard;
            }
        }
        0
    }
}

fn put(keyspace: &mut Keyspace, now: Now, key: &str, empty: bool, value: Value) {
    if empty {
        keyspace.remove(key);
    } else {
        // Redisson lets the line live for ever, unless somebody gave it an end.
        let expiry = keyspace.get(key, now).and_then(|entry| entry.expiry);
        keyspace.put(key, value, expiry, now);
    }
}

/// Our owners end in a number of 19 digits; Java's end in a small one, the number of a thread.
fn is_ours(waiter: &str) -> bool {
    waiter
        .rsplit(':')
        .next()
        .is_some_and(|number| number.len() == 19 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Takes the mutex for whoever is first in line, or gives the caller a place behind the others. A caller that does not wait
/// gets no place, and does not overtake anybody either.
pub(super) fn acquire(
    keyspace: &mut Keyspace,
    now: Now,
    step: &Acquire,
    post: &mut Post<'_>,
) -> Result<Acquired, StepError> {
    let target = &*step.target;
    let owner = step.owner.as_str();
    let left = match mutex::hold(keyspace, now, target, Some(&step.owner))? {
        Hold::Ours(_) => return mutex::acquire(keyspace, now, step),
        Hold::Nobody => None,
        Hold::Theirs(entry) => Some(entry.time_left(now)),
    };
    let mut line = Line::take(keyspace, now, target)?;
    let busy = match (left, &step.waiting) {
        (None, waiting) if line.head().is_none_or(|head| head == owner) => {
            // Whoever cannot have a token keeps its place.
            let has_token = token::check(keyspace, now, target, step.block);
            if has_token.is_ok() {
                line.leave(owner, waiting.as_ref().map(grace_of), 0);
            }
            line.put_back(keyspace, now);
            has_token?;
            return mutex::acquire(keyspace, now, step);
        }
        (None, None) => Busy::until(Some(0)),
        (None, Some(waiting)) => {
            line.wait(owner, grace_of(waiting), 0);
            let left = line.hurry_head(grace_of(waiting), post);
            Busy::until(Some(left.unsigned_abs()))
        }
        (Some(left), None) => Busy::until(left),
        (Some(left), Some(waiting)) => {
            let position = line.wait(owner, grace_of(waiting), lock_left(left));
            Busy {
                time_left: left,
                look_again: Some(look_again(&line, owner, position)),
            }
        }
    };
    line.put_back(keyspace, now);
    Ok(Acquired::Busy(busy))
}

/// What a lock's life counts for; one that never ends counts for nothing.
fn lock_left(left: Option<u64>) -> i64 {
    i64::try_from(left.unwrap_or(0)).unwrap_or(i64::MAX / 4)
}

fn grace_of(waiting: &Waiting) -> i64 {
    i64::try_from(waiting.grace).unwrap_or(i64::MAX / 4).max(1)
}

/// When a waiter in this place must look again while the lock is held: behind a peer every second, since that goes without a
/// word; else the nearer the head the sooner, since a head may be deaf; and always in time to move its end on.
fn look_again(line: &Line<'_>, owner: &str, position: usize) -> u64 {
    let rest = line.ends.get(owner).map_or(0, |end| end - line.now);
    let in_time = (rest / 2).max(1);
    let close = if line.peers_before(position) > 0 {
        CLOSE_LOOK
    } else if position > 0 {
        i64::try_from(position).unwrap_or(i64::MAX).saturating_mul(CLOSE_LOOK)
    } else {
        in_time
    };
    in_time.min(close).unsigned_abs()
}

/// Frees the mutex if this owner holds it, takes it out of the line if it waits there, and calls the head if the lock is free.
pub(super) fn release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &Owner,
    post: &mut Post<'_>,
) -> Result<Released, StepError> {
    // Everything is checked before anything is changed.
    mutex::hold(keyspace, now, target, None)?;
    let mut line = Line::take(keyspace, now, target)?;
    let (ours, left) = match mutex::hold(keyspace, now, target, Some(owner))? {
        Hold::Ours(entry) => (true, (!remove_field(entry, owner)).then(|| entry.time_left(now))),
        Hold::Nobody => (false, None),
        Hold::Theirs(entry) => (false, Some(entry.time_left(now))),
    };
    if ours && left.is_none() {
        keyspace.remove(target.name.as_str());
    }
    line.leave(owner.as_str(), None, lock_left(left.flatten()));
    let receivers = if left.is_none() { line.call(post) } else { 0 };
    line.put_back(keyspace, now);
    Ok(if ours {
        Released::Freed { receivers }
    } else {
        Released::NotThere
    })
}

/// Whether the hash is empty now; only a stranger's hand puts a second field there.
fn remove_field(entry: &mut Entry, owner: &Owner) -> bool {
    match &mut entry.value {
        Value::Hash(fields) => {
            fields.remove(owner.as_str());
            fields.is_empty()
        }
        _ => true,
    }
}

/// Frees the mutex whoever holds it, and calls the next.
pub(super) fn force_release(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    post: &mut Post<'_>,
) -> Result<bool, StepError> {
    let held = !matches!(mutex::hold(keyspace, now, target, None)?, Hold::Nobody);
    let line = Line::take(keyspace, now, target)?;
    if held {
        keyspace.remove(target.name.as_str());
        line.call(post);
    }
    line.put_back(keyspace, now);
    Ok(held)
}

/// Who waits, head first, for whoever asks.
pub(super) fn line(keyspace: &mut Keyspace, now: Now, target: &Target) -> Vec<InLine> {
    let waiters = match keyspace.get(&target.queue_key(), now).map(|entry| &entry.value) {
        Some(Value::List(waiters)) => waiters.clone(),
        _ => VecDeque::new(),
    };
    let ends = match keyspace.get(&target.timeout_key(), now).map(|entry| &entry.value) {
        Some(Value::Scores(ends)) => ends.clone(),
        _ => BTreeMap::new(),
    };
    let now = now.server_time / 1_000;
    let waiter = |owner: String| InLine {
        time_left: ends
            .get(&owner)
            .map(|end| u64::try_from(*end).unwrap_or(0).saturating_sub(now)),
        owner,
    };
    waiters.into_iter().map(waiter).collect()
}
