mod rwlock;
mod semaphores;
mod steps;
mod virtual_time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::keyspace::{Keyspace, Now, Value};
use super::{EmbeddedEngine, State};
use crate::base::clock::{Clock, Moment};

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    /// Moves it on to so many microseconds since its origin; never back.
    pub(crate) fn set(&self, microseconds: u64) {
        self.0.fetch_max(microseconds, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, span: Duration) {
        let span = u64::try_from(span.as_micros()).unwrap();
        self.0.fetch_add(span, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// What others may have put under a key.
#[derive(Clone, Debug)]
pub(crate) enum Foreign {
    Text(String),
    List,
    Queue(Vec<String>),
    Scores(Vec<(String, i64)>),
    /// Ids in hex digits, which a server has as bytes.
    Permits(Vec<(String, i64)>),
    Hash(Vec<(String, String)>),
}

/// What a test may do beside the steps, as if others had done it.
impl EmbeddedEngine {
    /// An engine on a clock moved by hand, whose server's time begins at `epoch` microseconds since 1970.
    pub(crate) fn by_hand(epoch: u64) -> (Self, Arc<HandClock>) {
        let clock = Arc::new(HandClock::default());
        (Self::on_since(clock.clone(), epoch), clock)
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State, Now) -> T) -> T {
        let mut state = self.state();
        let at = state.reached.max(Moment::of(&*self.clock));
        let now = Now {
            at,
            server_time: self.server_time(at),
        };
        work(&mut state, now)
    }

    /// Brings the end of every key closer by `span`.
    pub(crate) fn lapse(&self, span: Duration) {
        self.with_state(|state, now| state.keyspace.lapse(span, now));
    }

    /// Puts a value under a key, for so many milliseconds or for ever.
    pub(crate) fn put_foreign(&self, key: &str, value: Foreign, life: Option<u64>) {
        let value = match value {
            Foreign::Text(text) => Value::Text(text),
            Foreign::List => Value::List(["x".to_owned()].into()),
            Foreign::Queue(members) => Value::List(members.into()),
            Foreign::Scores(scores) | Foreign::Permits(scores) => Value::Scores(scores.into_iter().collect()),
            Foreign::Hash(fields) => Value::Hash(BTreeMap::from_iter(fields)),
        };
        self.with_state(|state, now| {
            let expiry = life.map(|life| now.at.plus(Duration::from_millis(life)));
            state.keyspace.put(key, value, expiry, now);
        });
    }

    /// Whether some key ends, or ended, less than `span` from now.
    pub(crate) fn is_near_an_expiry(&self, span: Duration) -> bool {
        self.with_state(|state, now| {
            let mut expiries = state.keyspace.entries().filter_map(|(_, entry)| entry.expiry);
            expiries.any(|expiry| expiry.since(now.at).max(now.at.since(expiry)) < span)
        })
    }

    /// Takes over the lives, in milliseconds, of those keys whose own differs by no more than `within`.
    pub(crate) fn adopt_lives(&self, lives: &BTreeMap<String, Option<u64>>, within: Duration) {
        self.with_state(|state, now| {
            for (key, life) in lives {
                let Some(entry) = state.keyspace.get(key, now) else {
                    continue;
                };
                if let (Some(present), Some(life)) = (entry.time_left(now), *life)
                    && Duration::from_millis(present.abs_diff(life)) <= within
                {
                    entry.expiry = Some(now.at.plus(Duration::from_millis(life)));
                }
            }
        });
    }

    pub(crate) fn clear(&self) {
        self.with_state(|state, _| state.keyspace = Keyspace::default());
    }

    pub(crate) fn remove_key(&self, key: &str) {
        self.with_state(|state, _| state.keyspace.remove(key));
    }

    /// The text under a key, if there is one and it is a text.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.with_state(|state, now| match &state.keyspace.get(key, now)?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// How many milliseconds every key has left (`None` if it stays), the expired ones left out, sorted by key.
    pub(crate) fn lives(&self) -> BTreeMap<String, Option<u64>> {
        self.with_state(|state, now| {
            let entries = state.keyspace.entries();
            entries
                .filter(|(_, entry)| entry.time_left(now) != Some(0))
                .map(|(key, entry)| (key.clone(), entry.time_left(now)))
                .collect()
        })
    }
}
