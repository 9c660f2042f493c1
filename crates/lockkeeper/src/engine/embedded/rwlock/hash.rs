//! The hash of a read-write lock and the keys of its read holds, as Redisson lays them out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::owner::Owner;
use crate::engine::embedded::keyspace::{Keyspace, Now, Value};
use crate::engine::embedded::mutex;
use crate::engine::{Cause, StepError, Target};

/// How many holds of one peer are looked at.
const MOST_HOLDS: u64 = 1_000;

/// The lock as it was found.
#[derive(Clone)]
pub(super) struct Lock {
    pub(super) writes: bool,
    /// Every holder with its number of holds.
    pub(super) holders: BTreeMap<String, u64>,
    pub(super) time_left: Option<u64>,
}

impl Lock {
    pub(super) fn holds(&self, owner: &Owner) -> bool {
        self.holders.contains_key(owner.as_str())
    }

    /// How long the longest read hold has left, of all owners but one; `None` if none lives. What a dead reader left in the
    /// hash does not count.
    pub(super) fn longest_hold(
        &self,
        keyspace: &mut Keyspace,
        now: Now,
        target: &Target,
        but: Option<&Owner>,
    ) -> Option<u64> {
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
pub(in crate::engine::embedded) fn hold_left(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    owner: &str,
    holds: u64,
) -> Option<u64> {
    let base = target.hold_key_base();
    let keys = (1..=holds.min(MOST_HOLDS)).map(|number| format!("{base}{owner}:rwlock_timeout:{number}"));
    keys.filter_map(|key| keyspace.left(&key, now)).max()
}

/// `None` if the lock is free; anything but a read-write lock is an error.
pub(super) fn look(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<Option<Lock>, StepError> {
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

pub(super) fn mode(mode: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("mode".to_owned(), mode.to_owned())])
}

pub(super) fn fields_of(keyspace: &mut Keyspace, now: Now, target: &Target) -> BTreeMap<String, String> {
    match keyspace.get(target.name.as_str(), now).map(|entry| &entry.value) {
        Some(Value::Hash(fields)) => fields.clone(),
        _ => BTreeMap::new(),
    }
}

/// Writes the hash, which lives for at least so long and for no less than it had.
pub(super) fn put_fields(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    fields: BTreeMap<String, String>,
    life: u64,
) {
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
pub(super) fn put_writer(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner, lease: u64) {
    keyspace.remove(target.name.as_str());
    let mut fields = mode("write");
    fields.insert(owner.as_str().to_owned(), "1".to_owned());
    put_fields(keyspace, now, target, fields, lease);
}

pub(super) fn remove_field(keyspace: &mut Keyspace, now: Now, target: &Target, owner: &Owner) {
    if let Some(Value::Hash(fields)) = keyspace.get(target.name.as_str(), now).map(|entry| &mut entry.value) {
        fields.remove(owner.as_str());
    }
}

pub(super) fn set_life(keyspace: &mut Keyspace, now: Now, target: &Target, life: u64) {
    if let Some(entry) = keyspace.get(target.name.as_str(), now) {
        entry.expiry = Some(now.at.plus(Duration::from_millis(life)));
    }
}

pub(super) fn put_for(keyspace: &mut Keyspace, now: Now, key: &str, life: u64) {
    let expiry = now.at.plus(Duration::from_millis(life));
    keyspace.put(key, Value::Text("1".to_owned()), Some(expiry), now);
}
