use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::token::Token;
use crate::error::{Error, LossReason};
use crate::object::hold_handle::{HoldHandle, remaining};
use crate::object::holding::hold_methods;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;

/// The value that the holder of a [`Mutex`](crate::Mutex) has in hand. Giving it up frees the lock.
///
/// Ownership belongs to this value, never to a thread or a task: it may be sent to another task and given up there.
///
/// **Dropping** it never blocks, never panics and needs no runtime: the lock passes to the next local waiter, or is freed
/// in the background. The release on the server is therefore not immediate; where that matters, call
/// [`unlock`](Self::unlock). If the process ends right after the drop, the lease may have to run out (see
/// [`Keeper::close`](crate::Keeper::close)).
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{HoldState, Keeper, Unlocked};
///
/// let guard = Keeper::embedded().mutex("order:1001").lock().await?;
/// assert_eq!(guard.state(), HoldState::Held);
/// assert_eq!(guard.unlock().await?, Unlocked::Freed);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct MutexGuard {
    pub(crate) turn: Arc<Turn>,
}

impl MutexGuard {
    pub(crate) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    hold_methods!();

    /// The fencing token of this turn: send it along with every write to what the lock protects.
    #[must_use]
    pub fn token(&self) -> Token {
        self.turn.token
    }

    /// Another guard of the same hold, at no cost: the lock is freed when the last of them is given up.
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold is lost. Into a doubtful hold one may re-enter; its state tells.
    pub fn reenter(&self) -> Result<Self, Error> {
        match self.state() {
            HoldState::Lost(reason) => Err(Error::Lost(reason)),
            _ => Ok(Self::new(Arc::clone(&self.turn))),
        }
    }
}

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard")
            .field("name", &self.turn.hold.target.name)
            .field("token", &self.turn.token)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
