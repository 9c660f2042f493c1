use std::time::Duration;

use super::parking::block_on;
use crate::error::Error;
use crate::service::waiting::Polling;

/// A plain number of permits by name, for threads; see [`lockkeeper::CountingSemaphore`](crate::CountingSemaphore), also for what
/// it does not promise.
///
/// The errors are those of the async form, and [`Error::BlockingInAsync`].
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a permit is acquired"]
pub struct CountingSemaphore {
    inner: crate::CountingSemaphore,
}

impl CountingSemaphore {
    pub(super) const fn new(inner: crate::CountingSemaphore) -> Self {
        Self { inner }
    }

    /// Sets how long a call that waits may take; see [`lockkeeper::CountingSemaphore::wait`](crate::CountingSemaphore::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Waits by asking again and again; see
    /// [`lockkeeper::CountingSemaphore::polling`](crate::CountingSemaphore::polling).
    pub fn polling(self, polling: Polling) -> Self {
        Self::new(self.inner.polling(polling))
    }

    /// Takes so many permits, waiting for them if need be.
    ///
    /// # Errors
    /// See the type.
    pub fn acquire(&self, permits: u32) -> Result<(), Error> {
        block_on(self.inner.core(), self.inner.acquire(permits))?
    }

    /// Takes so many permits if there are so many now.
    ///
    /// # Errors
    /// See the type.
    pub fn try_acquire(&self, permits: u32) -> Result<(), Error> {
        block_on(self.inner.core(), self.inner.try_acquire(permits))?
    }

    /// Gives so many permits back, and wakes who waits for them.
    ///
    /// # Errors
    /// See the type.
    pub fn release(&self, permits: u32) -> Result<(), Error> {
        block_on(self.inner.core(), self.inner.release(permits))?
    }

    /// As [`release`](Self::release), but does nothing if the semaphore is not there; tells whether it was.
    ///
    /// # Errors
    /// See the type.
    pub fn release_if_exists(&self, permits: u32) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.release_if_exists(permits))?
    }

    /// Sets the number of permits if it was never set; tells whether it did.
    ///
    /// # Errors
    /// See the type.
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.try_set_permits(permits))?
    }

    /// As [`try_set_permits`](Self::try_set_permits), for a semaphore that ends by itself after `life`.
    ///
    /// # Errors
    /// See the type.
    pub fn try_set_permits_for(&self, permits: u32, life: Duration) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.try_set_permits_for(permits, life))?
    }

    /// Adds permits, or takes some away if the number is negative.
    ///
    /// # Errors
    /// See the type.
    pub fn add_permits(&self, permits: i32) -> Result<(), Error> {
        block_on(self.inner.core(), self.inner.add_permits(permits))?
    }

    /// Takes away all permits that are available now, and tells how many.
    ///
    /// # Errors
    /// See the type.
    pub fn drain_permits(&self) -> Result<u32, Error> {
        block_on(self.inner.core(), self.inner.drain_permits())?
    }

    /// How many permits are available; may be below zero.
    ///
    /// # Errors
    /// See the type.
    pub fn available_permits(&self) -> Result<i64, Error> {
        block_on(self.inner.core(), self.inner.available_permits())?
    }

    /// Removes the semaphore; tells whether there was one.
    ///
    /// # Errors
    /// See the type.
    pub fn remove(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.remove())?
    }
}
