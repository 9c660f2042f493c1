//! The objects that the load fights for, one variant a kind.

use std::time::Duration;

use lockkeeper::{Error, Keeper, MutexGuard};

/// How many may hold an object at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nobody else.
    One,
    /// Any number of readers, while nobody writes.
    Readers,
    /// So many.
    Permits(usize),
}

/// An object that the load fights for.
#[derive(Debug, Clone)]
pub struct Contended {
    kind: Kind,
    /// What it protects, as the history knows it.
    pub names: Vec<String>,
    /// How many may hold it.
    pub limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Mutex,
}

impl Contended {
    /// Reads `KIND:NAME` or `KIND:NAME:PERMITS`; one for each way of using it, as readers and writers are two.
    ///
    /// # Panics
    ///
    /// If there is no such kind.
    #[must_use]
    pub fn read(text: &str) -> Vec<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let one = |kind, limit| Self {
            kind,
            names: parts[1].split('+').map(str::to_owned).collect(),
            limit,
        };
        match parts[0] {
            "mutex" => vec![one(Kind::Mutex, Limit::One)],
            other => panic!("no kind of object: {other}"),
        }
    }

    pub(super) async fn acquire(&self, keeper: &Keeper, wait: Duration) -> Result<Hold, Error> {
        let name = &self.names[0];
        Ok(match self.kind {
            Kind::Mutex => Hold::Mutex(keeper.mutex(name).wait(wait).lock().await?),
        })
    }
}

/// What was acquired.
#[derive(Debug)]
pub(super) enum Hold {
    Mutex(MutexGuard),
}

impl Hold {
    pub(super) fn owner(&self) -> &str {
        match self {
            Self::Mutex(guard) => guard.owner(),
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Mutex(guard) => Some(guard.token().get()),
        }
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Mutex(guard) => Some(guard.remaining()),
        }
    }

    pub(super) async fn release(self) {
        match self {
            Self::Mutex(guard) => drop(guard.unlock().await.expect("a hold that was kept")),
        }
    }
}
