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

/// A run of a [`Periodic`](crate::Periodic) that has begun. It ends when this value is given up.
///
/// [`unlock`](Self::unlock) ends it and is told [`Unlocked::Resting`] if the least time is not over yet. **Dropping** it does the
/// same in the background: it never blocks, never panics, needs no runtime, and never frees the name before its time.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, Unlocked};
/// use std::time::Duration;
///
/// let keeper = Keeper::embedded();
/// let hourly = keeper.periodic("send-reminders").at_least(Duration::from_secs(55 * 60));
/// let run = hourly.try_start().await?.expect("nobody else is here");
/// assert_eq!(run.unlock().await?, Unlocked::Resting);
/// assert!(hourly.try_start().await?.is_none());
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a guard that is not kept ends the run at once"]
pub struct PeriodicGuard {
    pub(crate) turn: Arc<Turn>,
}

impl PeriodicGuard {
    hold_methods!();

    /// Takes the run back, as if it had not begun: the name is free at once, and somebody else may begin in this period. For work
    /// that turned out not to be possible here.
    ///
    /// # Errors
    /// Those of [`unlock`](Self::unlock).
    ///
    /// # Cancelling
    /// The release goes on in the background.
    pub async fn abandon(self) -> Result<Unlocked, Error> {
        self.turn.hold.forgo_rest();
        self.unlock().await
    }

    /// The fencing token of this run: send it along with every write.
    #[must_use]
    pub fn token(&self) -> Token {
        self.turn.token
    }
}

impl fmt::Debug for PeriodicGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicGuard")
            .field("name", &self.turn.hold.target.name)
            .field("token", &self.turn.token)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
