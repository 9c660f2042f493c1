use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::token::Token;
use crate::engine::Kind;
use crate::error::{Error, LossReason};
use crate::object::hold_handle::{HoldHandle, remaining};
use crate::object::holding::hold_methods;
use crate::service::gate::Gate;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::{Origin, Turn};

/// The value that a reader of a [`RwLock`](crate::RwLock) has in hand. Giving it up ends the read hold.
///
/// What [`MutexGuard`](crate::MutexGuard) says of ownership and of dropping holds here too.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{HoldState, Keeper, Unlocked};
///
/// let guard = Keeper::embedded().rwlock("prices").read().await?;
/// assert_eq!(guard.state(), HoldState::Held);
/// assert_eq!(guard.unlock().await?, Unlocked::Freed);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct RwLockReadGuard {
    pub(crate) turn: Arc<Turn>,
}

impl RwLockReadGuard {
    pub(crate) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    hold_methods!();

    /// Makes the only reader the writer, in one step: nobody else wrote since the read lock was taken. It never waits, so that
    /// two readers who both try cannot block each other; both are refused.
    ///
    /// A guard taken inside of a write guard (by [scope](crate::Keeper::scope) or thread) is a write guard at once.
    ///
    /// # Errors
    /// [`Error::OtherReaders`] with others beside it, and [`Error::SharedHold`] if other guards share the hold: the guard that is
    /// given back still reads. [`Error::Lost`] if the hold is or turns out to be lost. With [`Error::Unreachable`] or
    /// [`Error::Refused`] the guard's [`state`](Self::state) tells: held if the step was certainly not done, lost if it may have
    /// been; then clean-up ends both the read and the write hold.
    ///
    /// # Cancelling
    /// The guard is given up, and clean-up ends whichever hold there is.
    ///
    /// # Failover
    /// As for any write hold: see [`RwLock`](crate::RwLock).
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # use lockkeeper::{Error, Keeper};
    /// let prices = Keeper::embedded().rwlock("prices");
    /// let (one, another) = (prices.read().await?, prices.read().await?);
    /// let (one, error) = one.try_upgrade().await.unwrap_err();
    /// assert!(matches!(error, Error::OtherReaders { .. }));
    /// another.unlock().await?;
    /// let writer = one.try_upgrade().await.map_err(|(_, error)| error)?;
    /// # drop(writer); Ok(()) }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn try_upgrade(self) -> Result<RwLockWriteGuard, (Self, Error)> {
        let Origin::Gate(gate) = self.turn.origin.clone() else {
            return Ok(RwLockWriteGuard::new(self.turn));
        };
        if gate.target.kind == Kind::Write {
            return Ok(RwLockWriteGuard::new(self.turn));
        }
        let writing = other_side(&gate, Kind::Write);
        match gate.upgrade(self.turn, &writing).await {
            Ok(turn) => Ok(RwLockWriteGuard::new(turn)),
            Err((turn, error)) => Err((Self::new(turn), error)),
        }
    }
}

/// The value that the writer of a [`RwLock`](crate::RwLock) has in hand. Giving it up ends the write hold and wakes all who wait.
///
/// What [`MutexGuard`](crate::MutexGuard) says of ownership and of dropping holds here too.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, Unlocked};
///
/// let guard = Keeper::embedded().rwlock("prices").write().await?;
/// assert!(guard.token().get() > 0);
/// assert_eq!(guard.unlock().await?, Unlocked::Freed);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct RwLockWriteGuard {
    pub(crate) turn: Arc<Turn>,
}

impl RwLockWriteGuard {
    pub(crate) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    hold_methods!();

    /// The fencing token: send it along with every write to what the lock protects.
    #[must_use]
    pub fn token(&self) -> Token {
        self.turn.token
    }

    /// Makes the writer a reader, in one step: nobody else writes in between, and readers who wait are woken.
    ///
    /// The read hold has the lease with which the write lock was taken, and lasts on the server no less than the write hold would
    /// have.
    ///
    /// # Errors
    /// Whatever goes wrong, the write hold is given up. [`Error::Lost`] if it is lost; [`Error::NotHeld`] if the server has no
    /// record of it; [`Error::SharedHold`] if other guards share the hold, which those then keep; [`Error::Unreachable`] or
    /// [`Error::Refused`] if the step was not confirmed: clean-up then ends whichever hold there is.
    ///
    /// # Cancelling
    /// The guard is given up, and clean-up ends whichever hold there is.
    ///
    /// # Failover
    /// As for any hold: see [`RwLock`](crate::RwLock).
    pub async fn downgrade(self) -> Result<RwLockReadGuard, Error> {
        let Origin::Gate(gate) = self.turn.origin.clone() else {
            return Ok(RwLockReadGuard::new(self.turn));
        };
        let reading = other_side(&gate, Kind::Read);
        gate.downgrade(self.turn, &reading).await.map(RwLockReadGuard::new)
    }
}

fn other_side(gate: &Gate, kind: Kind) -> Arc<Gate> {
    gate.core.gate(kind, gate.target.name.clone())
}

impl fmt::Debug for RwLockReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLockReadGuard")
            .field("name", &self.turn.hold.target.name)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RwLockWriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLockWriteGuard")
            .field("name", &self.turn.hold.target.name)
            .field("token", &self.turn.token)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
