//! Our side of every kind of object that can be held, by the words that the peers use for it.

use std::str::FromStr;
use std::time::Duration;

use lockkeeper::{Error, Keeper, Lease, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A way of holding something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The mutex, Redisson's `RLock`.
    Mutex,
    /// The mutex whose tokens Java reads.
    Fenced,
    /// The mutex that is waited for without messages.
    Spin,
    /// The mutex that serves first who came first.
    Fair,
    /// A reader.
    Read,
    /// The writer.
    Write,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "mutex" => Self::Mutex,
            "fenced" => Self::Fenced,
            "spin" => Self::Spin,
            "fair" => Self::Fair,
            "read" => Self::Read,
            "write" => Self::Write,
            other => return Err(format!("no kind of object: {other}")),
        })
    }
}

impl Kind {
    /// Acquires it: with no `wait` for as long as it takes, with one of zero by exactly one attempt.
    ///
    /// # Errors
    ///
    /// As the object's own call.
    pub async fn acquire(
        self,
        keeper: &Keeper,
        name: &str,
        wait: Option<Duration>,
        lease: Lease,
    ) -> Result<Hold, Error> {
        /// The handles of all kinds have these options, and no type in common.
        macro_rules! with_options {
            ($handle:expr) => {{
                let handle = $handle.lease(lease);
                match wait {
                    Some(wait) => handle.wait(wait),
                    None => handle,
                }
            }};
        }
        Ok(match self {
            Self::Mutex => Hold::Mutex(with_options!(keeper.mutex(name)).lock().await?),
            Self::Fenced => Hold::Mutex(with_options!(keeper.fenced_mutex(name)).lock().await?),
            Self::Spin => Hold::Mutex(with_options!(keeper.spin_mutex(name)).lock().await?),
            Self::Fair => Hold::Mutex(with_options!(keeper.fair_mutex(name)).lock().await?),
            Self::Read => Hold::Read(with_options!(keeper.rwlock(name)).read().await?),
            Self::Write => Hold::Write(with_options!(keeper.rwlock(name)).write().await?),
        })
    }
}

/// What was acquired. Dropping it gives it back.
#[derive(Debug)]
pub enum Hold {
    /// A mutex of any kind.
    Mutex(MutexGuard),
    /// A reader's.
    Read(RwLockReadGuard),
    /// A writer's.
    Write(RwLockWriteGuard),
}

impl Hold {
    /// The text that marks the hold on the server.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Mutex(guard) => guard.owner(),
            Self::Read(guard) => guard.owner(),
            Self::Write(guard) => guard.owner(),
        }
    }

    /// The fencing token, where the hold excludes others.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Mutex(guard) => Some(guard.token().get()),
            Self::Write(guard) => Some(guard.token().get()),
            Self::Read(_) => None,
        }
    }

    /// How long it may still be believed.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Mutex(guard) => Some(guard.remaining()),
            Self::Read(guard) => Some(guard.remaining()),
            Self::Write(guard) => Some(guard.remaining()),
        }
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// As the guard's own call.
    pub async fn release(self) -> Result<(), Error> {
        match self {
            Self::Mutex(guard) => guard.unlock().await.map(drop),
            Self::Read(guard) => guard.unlock().await.map(drop),
            Self::Write(guard) => guard.unlock().await.map(drop),
        }
    }
}
