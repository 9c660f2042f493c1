use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::config::RedisConfig;
use crate::base::clock::{Clock, Moment};
use crate::error::Error;

/// One server, as all connections to it share it.
pub(super) struct Node {
    pub(super) config: RedisConfig,
    pub(super) clock: Arc<dyn Clock>,
    round_trips: AtomicU64,
}

impl Node {
    pub(super) fn new(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        config.check_credentials()?;
        // What cannot be used is told at once, and not by each connection.
        config.client()?;
        Ok(Self {
            config,
            clock,
            round_trips: AtomicU64::new(0),
        })
    }

    pub(super) fn now(&self) -> Moment {
        Moment::of(&*self.clock)
    }

    pub(super) fn count_request(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
