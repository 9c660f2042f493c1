//! The answers to operations that changed something, kept for a while so that a repeat changes nothing more.

use std::time::Duration;

use super::keyspace::{Keyspace, Now, Value};
use crate::engine::{ANSWER_LIFE, Outcome};

pub(super) fn known(keyspace: &mut Keyspace, now: Now, key: &str) -> Option<Outcome> {
    match &keyspace.get(key, now)?.value {
        Value::Text(number) => number.parse().ok().map(Outcome::Number),
        _ => None,
    }
}

pub(super) fn keep(keyspace: &mut Keyspace, now: Now, key: &str, outcome: &Outcome) {
    // What only looks is asked again.
    let Outcome::Number(number) = outcome else { return };
    let expiry = now.at.plus(Duration::from_millis(ANSWER_LIFE));
    keyspace.put(key, Value::Text(number.to_string()), Some(expiry), now);
}
