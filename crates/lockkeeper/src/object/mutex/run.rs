use std::pin::pin;
use std::sync::Arc;

use super::Mutex;
use crate::error::{Error, LossReason};
use crate::object::hold_handle::HoldHandle;
use crate::object::holding::unlock;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;

/// What became of work that [`Mutex::run`] or [`Periodic::run`](crate::Periodic::run) ran.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ran<T> {
    /// What the work returned; `None` if it was cancelled because the hold was lost.
    pub value: Option<T>,
    /// Why the hold was lost, if it was, while the work ran or just as it ended.
    pub lost: Option<LossReason>,
    /// What became of the lock afterwards.
    pub release: Result<Unlocked, Error>,
}

impl Mutex {
    /// Runs `work` under the lock and cancels it when the hold is lost.
    ///
    /// The work gets a view of the hold, for its token and its remaining time. Its own value always comes back, beside the
    /// hold's fate and the outcome of the release. The lock is released only after the work's future is destroyed.
    ///
    /// Work that blocks its thread cannot be cancelled: it must look at [`HoldHandle::state`] itself.
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock), if the lock was not acquired: the work was not started then.
    ///
    /// # Cancelling
    /// Dropping the future drops the work, then frees the lock in the background.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let ran = keeper.mutex("report").run(|hold| async move { hold.token().get() }).await?;
    /// assert!(ran.value.is_some() && ran.lost.is_none());
    /// # Ok(()) }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn run<W, F>(&self, work: W) -> Result<Ran<F::Output>, Error>
    where
        W: FnOnce(HoldHandle) -> F,
        F: Future,
    {
        Ok(run_under(self.lock().await?.turn, work).await)
    }
}

/// Runs `work` under a hold, cancels it when that is lost, and gives the hold up after its end.
pub(crate) async fn run_under<W, F>(turn: Arc<Turn>, work: W) -> Ran<F::Output>
where
    W: FnOnce(HoldHandle) -> F,
    F: Future,
{
    let handle = HoldHandle::new(&turn);
    let value = {
        let lost = pin!(handle.lost());
        // Ends with this block, before the release below.
        let work = pin!(work(handle.clone()));
        tokio::select! {
            value = work => Some(value),
            _ = lost => None,
        }
    };
    let lost = match turn.state() {
        HoldState::Lost(reason) => Some(reason),
        _ => None,
    };
    Ran {
        value,
        lost,
        release: unlock(turn).await,
    }
}
