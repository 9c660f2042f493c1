use std::sync::Arc;
use std::time::Duration;

use super::{Place, checked};
use crate::base::lease::Lease;
use crate::engine::{ANSWER_LIFE, Action, Kind};
use crate::error::Error;
use crate::object::options::Options;
use crate::service::core::Core;
use crate::service::request::Request;
use crate::service::waiting::Polling;

/// A plain number of permits by name: acquiring takes some off, releasing puts some back, and nobody remembers whose they are.
///
/// This is Redisson's `RSemaphore`, and Java services count the same number.
///
/// **It is not safe against crashes.** Permits have no lease and no owner: what a process took and did not release before it died
/// is gone until somebody [adds](Self::add_permits) it. So is what was released twice too much. Take [`Semaphore`](crate::Semaphore),
/// whose permits are leased, unless Java shares the plain one. Only while a call is under way is a lost answer or a dropped
/// future made good: what it took is given back.
///
/// Callers of one process stand in one line, first come first served. A missed message costs one re-check
/// ([`recheck`](crate::KeeperBuilder::recheck), 30 seconds, while the subscription works, else a second).
///
/// # Failover
/// After a failover to a replica that had not heard of the last changes, those are undone.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::Keeper;
///
/// let semaphore = Keeper::embedded().counting_semaphore("slots");
/// semaphore.try_set_permits(3).await?;
/// semaphore.acquire(2).await?;
/// assert!(semaphore.try_acquire(2).await.is_err());
/// semaphore.release(2).await?;
/// assert_eq!(semaphore.available_permits().await?, 3);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a permit is acquired"]
pub struct CountingSemaphore {
    place: Place,
    options: Options,
}

impl CountingSemaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        Self {
            place: Place::new(core, Kind::Counter, name),
            options: Options {
                // A grant is nobody's until its caller has taken it: for so long the server remembers whom it was for.
                lease: Lease::fixed(Duration::from_millis(ANSWER_LIFE)),
                ..Options::default()
            },
        }
    }

    /// Sets how long a call that waits may take; by default for ever. Zero means exactly one full attempt.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Waits by asking again and again instead of by signals.
    pub const fn polling(mut self, polling: Polling) -> Self {
        self.options.polling = Some(polling);
        self
    }

    /// Takes so many permits, all of them or none, waiting for them if need be. None at all is done at once.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the [wait](Self::wait) ended first ([`Error::Busy`] if the wait is zero); [`Error::Unreachable`] if the
    /// server did not answer within the wait, or, with no wait set, for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is something
    /// else, permits with leases included; [`Error::Refused`]; [`Error::Name`] or [`Error::Permits`], before anything is sent.
    ///
    /// # Cancelling
    /// Dropping the future leaves the line. What was taken all the same is given back in the background.
    pub async fn acquire(&self, permits: u32) -> Result<(), Error> {
        self.take(permits, self.options.waiting()?).await
    }

    /// Takes so many permits if there are so many now: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if there are fewer; else those of [`acquire`](Self::acquire). An unreachable server is never "busy".
    ///
    /// # Cancelling
    /// What was taken all the same is given back in the background.
    pub async fn try_acquire(&self, permits: u32) -> Result<(), Error> {
        self.take(permits, self.options.trying()?).await
    }

    async fn take(&self, permits: u32, request: Request) -> Result<(), Error> {
        checked(permits)?;
        let gate = self.place.gate()?;
        if permits == 0 {
            return Ok(());
        }
        let turn = gate.acquire(&Request { permits, ..request }).await?;
        // From here on they are the caller's own.
        gate.forget(&turn)
    }

    /// Gives so many permits back, and wakes who waits for them. Nobody checks that they were taken: what is given back too often
    /// is available too often. None at all is done at once.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits); where the effect is possible, they may have been given back.
    ///
    /// # Cancelling
    /// They may or may not have been given back.
    pub async fn release(&self, permits: u32) -> Result<(), Error> {
        checked(permits)?;
        self.place.target()?;
        if permits == 0 {
            return Ok(());
        }
        self.place.add(permits.into()).await
    }

    /// As [`release`](Self::release), but does nothing if the semaphore was never set or was removed; tells whether it was there.
    ///
    /// # Errors
    /// Those of [`release`](Self::release).
    ///
    /// # Cancelling
    /// As [`release`](Self::release).
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, Error> {
        checked(permits)?;
        self.place.target()?;
        if permits == 0 {
            return Ok(false);
        }
        let action = Action::AddPermits {
            permits: permits.into(),
            if_there: true,
        };
        Ok(self.place.change(action, "giving permits back").await? == 1)
    }

    /// Sets the number of permits if it was never set; tells whether it did.
    ///
    /// # Errors
    /// [`Error::Permits`] for more than 2^31 - 1, before anything is sent; [`Error::WrongKind`] if the key is something else;
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::Name`].
    ///
    /// # Cancelling
    /// The number may or may not have been set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        self.place.try_set(permits, None).await
    }

    /// As [`try_set_permits`](Self::try_set_permits), for a semaphore that ends by itself after `life`.
    ///
    /// # Errors
    /// [`Error::Permits`] for a life below a millisecond or beyond a year; else those of
    /// [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// As [`try_set_permits`](Self::try_set_permits).
    pub async fn try_set_permits_for(&self, permits: u32, life: Duration) -> Result<bool, Error> {
        self.place.try_set(permits, Some(life)).await
    }

    /// Adds permits, or takes some away if the number is negative: the number may fall below zero. A semaphore that was never set
    /// counts as having none.
    ///
    /// # Errors
    /// Those of [`release`](Self::release).
    ///
    /// # Cancelling
    /// As [`release`](Self::release).
    pub async fn add_permits(&self, permits: i32) -> Result<(), Error> {
        self.place.add(permits.into()).await
    }

    /// Takes all permits that are available now, and tells how many.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits); where the effect is possible, they may have been taken.
    ///
    /// # Cancelling
    /// They may or may not have been taken.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        self.place.drain().await
    }

    /// How many permits are available; may be below zero.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// Nothing changes.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        Ok(self.place.count().await?.0)
    }

    /// Removes the semaphore; tells whether there was one. Who waits goes on waiting, until permits are set again.
    ///
    /// # Errors
    /// Those of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancelling
    /// It may or may not have been removed.
    pub async fn remove(&self) -> Result<bool, Error> {
        self.place.remove().await
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.place.core
    }
}
