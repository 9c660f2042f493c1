//! Optimistic updates: read some keys, decide, and write only if nobody changed them in between.
//!
//! For values that are changed seldom at the same time this is cheaper than a lock: no lease, no owner, nothing left
//! behind by a crash. Under contention a lock is better, since every loser here does its work again.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lockkeeper::redis::optimistic::{Change, Decision};
//!
//! let keeper = lockkeeper::Keeper::connect("redis://127.0.0.1:6379").await?;
//! let updates = keeper.optimistic().ok_or("not on Redis")?;
//! let left = updates
//!     .update(&["stock:1001"], |values| {
//!         let stock: u64 = values[0].as_deref().map_or(0, |text| String::from_utf8_lossy(text).parse().unwrap_or(0));
//!         match stock.checked_sub(1) {
//!             Some(left) => Decision::write([Change::set("stock:1001", left.to_string())], Some(left)),
//!             None => Decision::keep(None),
//!         }
//!     })
//!     .await?;
//! # let _: Option<u64> = left;
//! # Ok(())
//! # }
//! ```

mod transaction;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use self::transaction::{Outcome, Transaction};
use super::backoff::Backoff;
use super::node::Node;
use super::session::Session;
use crate::engine::{Cause, StepError};
use crate::error::Error;

/// How many connections are kept for the next update.
const MOST_IDLE: usize = 4;

/// What is done to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    key: Vec<u8>,
    kind: ChangeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ChangeKind {
    Set { value: Vec<u8>, life: Option<Duration> },
    Delete,
}

impl Change {
    /// Writes a value. The key keeps the time it has left, if any.
    pub fn set(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            kind: ChangeKind::Set {
                value: value.into(),
                life: None,
            },
        }
    }

    /// Writes a value that goes away after `life`, which counts in whole milliseconds, at least one.
    pub fn set_for(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, life: Duration) -> Self {
        Self {
            key: key.into(),
            kind: ChangeKind::Set {
                value: value.into(),
                life: Some(life),
            },
        }
    }

    /// Removes the key.
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            kind: ChangeKind::Delete,
        }
    }
}

/// What an update does with the values it was shown, and what it tells its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision<T> {
    changes: Vec<Change>,
    outcome: T,
}

impl<T> Decision<T> {
    /// Writes the changes, all of them or none.
    pub fn write(changes: impl IntoIterator<Item = Change>, outcome: T) -> Self {
        Self {
            changes: changes.into_iter().collect(),
            outcome,
        }
    }

    /// Writes nothing.
    pub fn keep(outcome: T) -> Self {
        Self {
            changes: Vec::new(),
            outcome,
        }
    }
}

/// Makes optimistic updates on one server. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Updates {
    pool: Arc<Pool>,
    attempts: u32,
}

impl Updates {
    pub(super) fn new(node: &Arc<Node>, keeper: &Handle) -> Self {
        Self {
            pool: Arc::new(Pool {
                node: Arc::clone(node),
                keeper: keeper.clone(),
                idle: Mutex::default(),
            }),
            attempts: 16,
        }
    }

    /// How often an update is tried before it gives up: 16 times unless set, at least once.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            ..self
        }
    }

    /// Shows the values of `keys` to `decide`, in the same order and `None` where there is no key, and writes what it
    /// decides if none of them was changed in the meantime. Otherwise `decide` is called again with the new values,
    /// after a pause that grows.
    ///
    /// Changes may also touch other keys, which are then not watched. On a cluster all must lie in one slot.
    ///
    /// # Cancelling
    /// A dropped future leaves nothing behind on its connection. Whether its last attempt was written is not known.
    ///
    /// # Errors
    /// [`Error::Conflict`] when every attempt met a change; [`Error::WrongKind`] if a key holds no string;
    /// [`Error::Unreachable`] or [`Error::Refused`], whose [`effect`](Error::effect) says whether it may have been
    /// written.
    pub async fn update<K: AsRef<[u8]>, T>(
        &self,
        keys: &[K],
        mut decide: impl FnMut(&[Option<Vec<u8>>]) -> Decision<T>,
    ) -> Result<T, Error> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));
        for attempt in 1..=self.attempts {
            let (transaction, values) = self.pool.begin(&keys).await?;
            let decision = decide(&values);
            match transaction.finish(decision.changes).await? {
                Outcome::Written => return Ok(decision.outcome),
                Outcome::Changed if attempt < self.attempts => tokio::time::sleep(backoff.next()).await,
                Outcome::Changed => {}
            }
        }
        Err(Error::Conflict {
            attempts: self.attempts,
        })
    }
}

/// Connections on which nothing is watched. Each is used by one update at a time.
struct Pool {
    node: Arc<Node>,
    keeper: Handle,
    idle: Mutex<Vec<Session>>,
}

impl Pool {
    /// Watches and reads the keys. A kept connection may have been cut in the meantime: then it is replaced, once.
    async fn begin(self: &Arc<Self>, keys: &[&[u8]]) -> Result<(Transaction, Vec<Option<Vec<u8>>>), Error> {
        if let Some(session) = self.take() {
            match Transaction::begin(self, session, keys).await {
                Err(Error::Unreachable { .. }) => {}
                settled => return settled,
            }
        }
        let session = self.open().await.map_err(|error| failed(&error))?;
        Transaction::begin(self, session, keys).await
    }

    fn take(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_over());
        idle.pop()
    }

    fn put_back(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE && !session.is_over() {
            idle.push(session);
        }
    }

    async fn open(&self) -> Result<Session, StepError> {
        let node = Arc::clone(&self.node);
        // The connection may serve callers on any runtime: its driver must outlive theirs.
        let opening = self.keeper.spawn(async move { Session::open(&node, |_| {}).await });
        opening.await.unwrap_or_else(|_| {
            Err(StepError::none(Cause::Unreachable(
                "the keeper's runtime has ended".to_owned(),
            )))
        })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The public form of a failure.
fn failed(error: &StepError) -> Error {
    let effect = error.effect;
    match &error.cause {
        Cause::Tls(fault, detail) => Error::Tls {
            fault: *fault,
            detail: detail.clone(),
        },
        Cause::Refused(refusal, detail) => Error::Refused {
            refusal: *refusal,
            detail: detail.clone(),
            effect,
        },
        Cause::Unreachable(detail) | Cause::WrongKind(detail) => Error::Unreachable {
            doing: "updating",
            detail: detail.clone(),
            effect,
        },
        Cause::NotHeld => Error::NotHeld,
        Cause::Late => Error::Unreachable {
            doing: "updating",
            detail: "too slow".to_owned(),
            effect,
        },
    }
}
