use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::name::Name;
use crate::engine::{Action, Kind, LATCH_GONE, LATCH_OPENED, LATCH_REMOVED, Target};
use crate::error::Error;
use crate::service::core::Core;
use crate::service::operation::operate;
use crate::service::watch::{Heard, Watch};

/// A count-down latch by name: waiters go on once it has been counted down to zero.
///
/// The count is set once, by [`try_set_count`](Self::try_set_count); each [`count_down`](Self::count_down) takes one off. At
/// zero the latch is gone from the server, and may be set again for another round. It is Redisson's `RCountDownLatch`: Java
/// services count the same latch down and wait for it.
///
/// A latch is not held by anybody and has no lease: its count stays on the server until it is counted down or removed.
///
/// # In a cluster
/// Redisson's channel for a latch whose name has a hash tag of its own, as `{orders}:42`, lies in another slot than the latch. Such a
/// latch cannot be set there, by Java neither: [`Error::Refused`] tells so. Names without braces are all right.
///
/// # Failover
/// A replica that had not heard of a count-down may show a higher count, or no latch at all. Waiters look again after each
/// reconnect, and go by what they see.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, LatchEnd};
///
/// let keeper = Keeper::embedded();
/// let latch = keeper.latch("import:parts");
/// latch.try_set_count(2).await?;
/// for _ in 0..2 {
///     let latch = latch.clone();
///     tokio::spawn(async move { latch.count_down().await });
/// }
/// assert_eq!(latch.wait().await?, LatchEnd::Open);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a handle does nothing until it is used"]
pub struct CountDownLatch {
    core: Arc<Core>,
    target: Result<Arc<Target>, Error>,
}

/// How the wait for a latch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "a latch that was removed did not open"]
pub enum LatchEnd {
    /// It was counted down to zero, or there was none when the wait began.
    Open,
    /// It was removed before it opened: what was waited for did not happen.
    Removed,
    /// It is gone, and nothing tells whether it opened: a peer ended it and its message was lost, or its key was deleted by
    /// hand or with the server's data.
    Vanished,
}

impl CountDownLatch {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        Self {
            core: Arc::clone(core),
            target: Name::new(name)
                .map(|name| Arc::new(Target::new(Kind::Latch, name)))
                .map_err(Error::from),
        }
    }

    /// Sets the count, if the latch has none; tells whether it did. A count of zero sets nothing.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the key is something else; [`Error::Unreachable`], [`Error::Refused`], [`Error::Name`].
    ///
    /// # Cancelling
    /// The count may or may not have been set.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        let number = self
            .operate(Action::SetCount(count.into()), "setting the count of a latch")
            .await?;
        Ok(number == 1)
    }

    /// Takes one off the count, and tells what is left; 0 also if the latch was open already. Whoever reaches zero wakes all who
    /// wait, in every process.
    ///
    /// A request that is repeated because its answer was lost counts once.
    ///
    /// # Errors
    /// Those of [`try_set_count`](Self::try_set_count); where the effect is possible, the latch may have been counted down.
    ///
    /// # Cancelling
    /// The latch may or may not have been counted down.
    pub async fn count_down(&self) -> Result<u64, Error> {
        let left = self.operate(Action::CountDown, "counting a latch down").await?;
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// The present count; 0 if the latch is open or was never set.
    ///
    /// # Errors
    /// Those of [`try_set_count`](Self::try_set_count).
    ///
    /// # Cancelling
    /// Nothing changes.
    pub async fn count(&self) -> Result<u64, Error> {
        let count = self.operate(Action::Count, "looking at a latch").await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Removes the latch whatever its count; tells whether there was one. Who waits for it is told [`LatchEnd::Removed`]; Java's
    /// waiters are not woken, as with Redisson's own delete.
    ///
    /// # Errors
    /// Those of [`try_set_count`](Self::try_set_count).
    ///
    /// # Cancelling
    /// The latch may or may not have been removed.
    pub async fn remove(&self) -> Result<bool, Error> {
        let number = self.operate(Action::RemoveLatch, "removing a latch").await?;
        Ok(number == 1)
    }

    /// Waits until the latch has opened, for as long as that takes. A latch that was never set is open.
    ///
    /// Any number of callers may wait; all of one process share a subscription, and nothing is sent while nothing happens. If a
    /// message is lost, the wait costs one re-check more: 30 seconds at most while the subscription works
    /// ([`recheck`](crate::KeeperBuilder::recheck)), a second while it does not.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server could not be asked for ten seconds
    /// ([`unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is something else;
    /// [`Error::Refused`], [`Error::Name`]; [`Error::Closed`] if the keeper is closed.
    ///
    /// # Cancelling
    /// Nothing is left behind.
    pub async fn wait(&self) -> Result<LatchEnd, Error> {
        self.wait_within(None).await
    }

    /// As [`wait`](Self::wait), for no longer than `limit`. Zero means exactly one look.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the latch was still closed then; else those of [`wait`](Self::wait).
    ///
    /// # Cancelling
    /// Nothing is left behind.
    pub async fn wait_timeout(&self, limit: Duration) -> Result<LatchEnd, Error> {
        self.wait_within(Some(limit)).await
    }

    async fn wait_within(&self, limit: Option<Duration>) -> Result<LatchEnd, Error> {
        let mut watch = Watch::new(&self.core, self.target()?, limit);
        // When the latch was last seen closed, in server time, and what had been heard by then, once there were ears.
        let mut since = 0;
        let mut closed: Option<Heard> = None;
        loop {
            let heard = watch.heard();
            let (seen, server_time) = watch.look(Action::AwaitLatch { since }).await?;
            let seen = seen.number();
            match (seen, closed) {
                (LATCH_OPENED, _) | (LATCH_GONE, None) => return Ok(LatchEnd::Open),
                (LATCH_REMOVED, _) => return Ok(LatchEnd::Removed),
                (LATCH_GONE, Some(closed)) => return self.told(&watch, closed).await,
                _ => {
                    since = server_time;
                    closed = heard;
                }
            }
            watch.pause(heard).await?;
        }
    }

    /// How a latch ended that a peer ended: by its message, which may still be on its way.
    async fn told(&self, watch: &Watch, closed: Heard) -> Result<LatchEnd, Error> {
        if watch.message_since(closed).is_none() {
            watch.signalled(closed, self.core.settings.recheck_unheard).await?;
        }
        Ok(match watch.message_since(closed) {
            Some(0) => LatchEnd::Open,
            Some(1) => LatchEnd::Removed,
            _ => LatchEnd::Vanished,
        })
    }

    async fn operate(&self, action: Action, doing: &'static str) -> Result<i64, Error> {
        let outcome = operate(&self.core, self.target()?, action, doing).await?;
        Ok(outcome.number())
    }

    fn target(&self) -> Result<&Arc<Target>, Error> {
        self.target.as_ref().map_err(Clone::clone)
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch")
            .field("name", &self.target.as_ref().map(|target| &target.name))
            .finish_non_exhaustive()
    }
}
