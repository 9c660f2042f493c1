use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, LossReason};
use crate::object::hold_handle::{HoldHandle, remaining};
use crate::object::holding::hold_methods;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;

/// One or more permits of a [`Semaphore`](crate::Semaphore), held together. Giving it up makes them available again.
///
/// It belongs to whoever has it in hand, and may be sent to another task and given up there. **Dropping** it never blocks, never
/// panics and needs no runtime: the permits are given back in the background. Where it matters that they are back, call
/// [`unlock`](Self::unlock). Permits that were given up are given back once, and those that ended before never a second time:
/// [`unlock`](Self::unlock) then tells [`Error::Lost`] or [`Error::NotHeld`].
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::Keeper;
///
/// let semaphore = Keeper::embedded().semaphore("workers");
/// semaphore.try_set_permits(4).await?;
/// let permit = semaphore.acquire_many(3).await?;
/// assert_eq!((permit.permits(), permit.ids().count()), (3, 3));
/// permit.unlock().await?;
/// assert_eq!(semaphore.available_permits().await?, 4);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a permit that is not kept is given back at once"]
pub struct SemaphorePermit {
    pub(crate) turn: Arc<Turn>,
}

impl SemaphorePermit {
    pub(crate) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    hold_methods!();

    /// How many permits are held.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.ids().count()
    }

    /// The ids of the permits, as Redisson shows them: 32 hex digits each. Whoever knows one can give the permit back: keep them
    /// out of logs.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.turn.hold.owner.permits()
    }
}

impl fmt::Debug for SemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("name", &self.turn.hold.target.name)
            .field("permits", &self.permits())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
