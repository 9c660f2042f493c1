use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::token::TokenRecord;
use crate::base::clock::Moment;

/// The moment at which a step runs, on the deadline clock and as the server's time that tokens are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) at: Moment,
    /// Microseconds since 1970.
    pub(super) server_time: u64,
}

/// What a key holds, told apart as Redis' `TYPE` does.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Hash(BTreeMap<String, String>),
    /// Never empty.
    List(VecDeque<String>),
    /// Members with numbers, as Redis' sorted sets have. Never empty.
    Scores(BTreeMap<String, i64>),
    /// Our own record of the last token; only ever behind a token key.
    Token(TokenRecord),
}

/// A key's value and the moment from which it is there no more; `None` if it stays.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) expiry: Option<Moment>,
}

impl Entry {
    /// How many milliseconds are left, a begun one counted whole; `None` if the key stays.
    pub(super) fn time_left(&self, now: Now) -> Option<u64> {
        let left = self.expiry?.since(now.at);
        Some(u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Lets the key live for at least `life` milliseconds from now; never shortens. A key that stayed gets an end: every
    /// key has one.
    pub(super) fn live_for(&mut self, now: Now, life: u64) {
        let wanted = now.at.plus(Duration::from_millis(life));
        self.expiry = Some(self.expiry.map_or(wanted, |present| present.max(wanted)));
    }

    /// Lets the key live for at most `life` milliseconds from now.
    pub(super) fn live_no_longer_than(&mut self, now: Now, life: u64) {
        let longest = now.at.plus(Duration::from_millis(life));
        self.expiry = Some(self.expiry.map_or(longest, |present| present.min(longest)));
    }
}

/// All keys. An expired key is as good as none from the very moment on; it is swept out some time later.
#[derive(Default)]
pub(super) struct Keyspace {
    entries: HashMap<String, Entry>,
    sweep_at: usize,
}

/// Below this many keys it is not worth looking for expired ones.
const SMALLEST_SWEEP: usize = 1024;

impl Keyspace {
    pub(super) fn get(&mut self, key: &str, now: Now) -> Option<&mut Entry> {
        self.entries
            .get_mut(key)
            .filter(|entry| entry.expiry.is_none_or(|expiry| now.at < expiry))
    }

    pub(super) fn put(&mut self, key: &str, value: Value, expiry: Option<Moment>, now: Now) {
        self.sweep(now);
        let entry = Entry { value, expiry };
        if let Some(present) = self.entries.get_mut(key) {
            *present = entry;
        } else {
            self.entries.insert(key.to_owned(), entry);
        }
    }

    /// How many milliseconds a key has left that ends.
    pub(super) fn left(&mut self, key: &str, now: Now) -> Option<u64> {
        self.get(key, now)?.time_left(now)
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Drops what has expired whenever the number of keys has doubled, so that names used once do not pile up.
    fn sweep(&mut self, now: Now) {
        if self.entries.len() < self.sweep_at.max(SMALLEST_SWEEP) {
            return;
        }
        self.entries
            .retain(|_, entry| entry.expiry.is_none_or(|expiry| now.at < expiry));
        self.sweep_at = self.entries.len() * 2;
    }

    /// Brings the end of every key closer by `span`, as if that time had passed.
    #[cfg(test)]
    pub(super) fn lapse(&mut self, span: Duration, now: Now) {
        self.entries.retain(|_, entry| {
            if let Value::Scores(scores) = &mut entry.value {
                // Moments of the server's time come closer as well; one that never comes does not.
                for score in scores
                    .values_mut()
                    .filter(|score| (1..crate::engine::NEVER).contains(*score))
                {
                    *score -= i64::try_from(span.as_millis()).unwrap_or(0);
                }
            }
            let Some(expiry) = entry.expiry else { return true };
            let left = expiry.since(now.at).saturating_sub(span);
            entry.expiry = Some(now.at.plus(left));
            !left.is_zero()
        });
    }

    /// Every key with what it holds.
    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Now {
        Now {
            at: Moment::from_nanos(milliseconds * 1_000_000),
            server_time: milliseconds * 1000,
        }
    }

    fn text() -> Value {
        Value::Text("x".to_owned())
    }

    #[test]
    fn a_key_is_there_until_its_expiry_and_not_at_it() {
        let mut keyspace = Keyspace::default();
        keyspace.put("a", text(), Some(at(10).at), at(0));
        assert_eq!(keyspace.get("a", at(9)).unwrap().time_left(at(9)), Some(1));
        assert!(keyspace.get("a", at(10)).is_none());
    }

    #[test]
    fn a_begun_millisecond_counts_whole() {
        let entry = Entry {
            value: text(),
            expiry: Some(Moment::from_nanos(1_000_001)),
        };
        assert_eq!(entry.time_left(at(0)), Some(2));
    }

    #[test]
    fn a_life_is_lengthened_never_shortened_unless_cut() {
        let mut entry = Entry {
            value: text(),
            expiry: Some(at(100).at),
        };
        entry.live_for(at(10), 20);
        assert_eq!(entry.time_left(at(10)), Some(90));
        entry.live_for(at(10), 200);
        assert_eq!(entry.time_left(at(10)), Some(200));
        entry.live_no_longer_than(at(10), 50);
        assert_eq!(entry.time_left(at(10)), Some(50));
        entry.live_no_longer_than(at(10), 80);
        assert_eq!(entry.time_left(at(10)), Some(50));
    }

    #[test]
    fn names_used_once_do_not_pile_up() {
        let mut keyspace = Keyspace::default();
        for step in 0..100_000 {
            let now = at(step);
            keyspace.put(&step.to_string(), text(), Some(at(step + 10).at), now);
        }
        assert!(keyspace.entries.len() <= SMALLEST_SWEEP, "{}", keyspace.entries.len());
    }

    #[test]
    fn a_lapse_is_as_if_the_time_had_passed() {
        let mut keyspace = Keyspace::default();
        keyspace.put("short", text(), Some(at(10).at), at(0));
        keyspace.put("long", text(), Some(at(30).at), at(0));
        keyspace.put("stays", text(), None, at(0));
        keyspace.lapse(Duration::from_millis(10), at(0));
        assert!(keyspace.get("short", at(0)).is_none());
        assert_eq!(keyspace.get("long", at(0)).unwrap().time_left(at(0)), Some(20));
        assert!(keyspace.get("stays", at(0)).is_some());
    }
}
