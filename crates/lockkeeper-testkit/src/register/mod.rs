//! The thing behind the lock: what a lock is there to protect.
//!
//! A [`Register`] takes writes in two ways. A *guarded* write carries a fencing token and is refused if a higher
//! token has been seen: with it, an old holder does no harm. A *blind* write is taken as it is, and the register
//! counts the updates that got lost by it: the harm that a lock without fencing can do. A [`RegisterServer`] offers
//! one register to several processes over loopback.

mod client;
mod server;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use client::RegisterClient;
pub use server::RegisterServer;

/// A value together with its version, which rises with every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The value.
    pub value: i64,
    /// How many writes there were before.
    pub version: u64,
}

/// A guarded write came with a token lower than one seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The highest token seen.
    pub highest: u64,
}

/// What a register has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Writes that were taken, of both ways.
    pub writes: u64,
    /// Blind writes that overwrote a change which their writer had not read.
    pub lost_updates: u64,
    /// Guarded writes that were refused.
    pub refused_stale: u64,
}

#[derive(Debug, Default)]
struct State {
    value: i64,
    version: u64,
    highest_token: u64,
    tally: Tally,
}

impl State {
    fn take(&mut self, value: i64) {
        self.value = value;
        self.version += 1;
        self.tally.writes += 1;
    }
}

/// A value that is 0 at first, and counts what is done to it.
#[derive(Debug, Default)]
pub struct Register {
    state: Mutex<State>,
}

impl Register {
    /// A register with the value 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value now.
    #[must_use]
    pub fn read(&self) -> Reading {
        let state = self.state();
        Reading {
            value: state.value,
            version: state.version,
        }
    }

    /// Takes `value` in any case. `false` if others had written since `seen`: their update is lost.
    pub fn write(&self, seen: Reading, value: i64) -> bool {
        let mut state = self.state();
        let kept = state.version == seen.version;
        state.tally.lost_updates += u64::from(!kept);
        state.take(value);
        kept
    }

    /// Takes `value` only if `token` is at least the highest seen so far.
    ///
    /// # Errors
    ///
    /// [`Stale`] if it is lower; nothing is changed then.
    pub fn write_guarded(&self, token: u64, value: i64) -> Result<(), Stale> {
        let mut state = self.state();
        if token < state.highest_token {
            state.tally.refused_stale += 1;
            return Err(Stale {
                highest: state.highest_token,
            });
        }
        state.highest_token = token;
        state.take(value);
        Ok(())
    }

    /// What was counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.state().tally
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
