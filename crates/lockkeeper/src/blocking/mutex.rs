use std::time::Duration;

use super::guard::{MutexGuard, held_by_this_thread};
use super::parking::block_on;
use crate::base::lease::Lease;
use crate::engine::Layout;
use crate::error::Error;
use crate::object::scope::check_reentry;
use crate::service::waiting::Polling;

/// A lock by name, for threads; see [`lockkeeper::Mutex`](crate::Mutex). Re-entrant: the thread that holds it may lock it
/// again, at no cost.
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is locked"]
pub struct Mutex {
    inner: crate::Mutex,
}

impl Mutex {
    pub(super) const fn new(inner: crate::Mutex) -> Self {
        Self { inner }
    }

    /// Sets the lease; see [`lockkeeper::Mutex::lease`](crate::Mutex::lease).
    pub fn lease(self, lease: Lease) -> Self {
        Self::new(self.inner.lease(lease))
    }

    /// Sets how long [`lock`](Self::lock) waits; see [`lockkeeper::Mutex::wait`](crate::Mutex::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Sets the layout on the server; see [`lockkeeper::Mutex::layout`](crate::Mutex::layout).
    pub fn layout(self, layout: Layout) -> Self {
        Self::new(self.inner.layout(layout))
    }

    /// Sets the time kept back at the end of a lease; see [`lockkeeper::Mutex::margin`](crate::Mutex::margin).
    pub fn margin(self, margin: Duration) -> Self {
        Self::new(self.inner.margin(margin))
    }

    /// Sets the longest total time of a hold; see [`lockkeeper::Mutex::longest_hold`](crate::Mutex::longest_hold).
    pub fn longest_hold(self, longest: Duration) -> Self {
        Self::new(self.inner.longest_hold(longest))
    }

    /// Waits by asking again and again; see [`lockkeeper::Mutex::polling`](crate::Mutex::polling).
    pub fn polling(self, polling: Polling) -> Self {
        Self::new(self.inner.polling(polling))
    }

    /// Acquires the lock, waiting for it if need be, or enters it again if this thread holds it.
    ///
    /// # Errors
    /// Those of [`lockkeeper::Mutex::lock`](crate::Mutex::lock); [`Error::BlockingInAsync`]; on re-entry [`Error::Lost`] if the
    /// outer hold is lost (it is never acquired anew) and [`Error::InnerLease`] if the lease asked for is more than the outer one.
    pub fn lock(&self) -> Result<MutexGuard, Error> {
        match self.inner()? {
            Some(guard) => Ok(guard),
            None => Ok(MutexGuard::remembered(block_on(self.inner.core(), self.inner.lock())??)),
        }
    }

    /// As [`lock`](Self::lock), without waiting.
    ///
    /// # Errors
    /// Those of [`lockkeeper::Mutex::try_lock`](crate::Mutex::try_lock), and of [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<MutexGuard, Error> {
        match self.inner()? {
            Some(guard) => Ok(guard),
            None => Ok(MutexGuard::remembered(block_on(
                self.inner.core(),
                self.inner.try_lock(),
            )??)),
        }
    }

    /// Frees the lock whoever holds it; see [`lockkeeper::Mutex::force_unlock`](crate::Mutex::force_unlock).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn force_unlock(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.force_unlock())?
    }

    fn inner(&self) -> Result<Option<MutexGuard>, Error> {
        match held_by_this_thread(self.inner.origin()?) {
            Some(turn) => {
                let turn = check_reentry(turn, self.inner.options())?;
                Ok(Some(MutexGuard::new(crate::MutexGuard::new(turn))))
            }
            None => Ok(None),
        }
    }
}
