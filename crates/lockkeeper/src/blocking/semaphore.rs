use std::sync::Arc;
use std::time::Duration;

use super::parking::block_on;
use crate::base::lease::Lease;
use crate::error::Error;
use crate::object::hold_handle::HoldHandle;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::waiting::Polling;

/// A number of leased permits by name, for threads; see [`lockkeeper::Semaphore`](crate::Semaphore). A thread that acquires twice
/// has two permits: there is no re-entry.
///
/// The errors are those of the async form, and [`Error::BlockingInAsync`].
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a permit is acquired"]
pub struct Semaphore {
    inner: crate::Semaphore,
}

impl Semaphore {
    pub(super) const fn new(inner: crate::Semaphore) -> Self {
        Self { inner }
    }

    /// Sets the lease; see [`lockkeeper::Semaphore::lease`](crate::Semaphore::lease).
    pub fn lease(self, lease: Lease) -> Self {
        Self::new(self.inner.lease(lease))
    }

    /// Sets how long a call that waits may take; see [`lockkeeper::Semaphore::wait`](crate::Semaphore::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Sets the time kept back at the end of a lease; see [`lockkeeper::Semaphore::margin`](crate::Semaphore::margin).
    pub fn margin(self, margin: Duration) -> Self {
        Self::new(self.inner.margin(margin))
    }

    /// Sets the longest total time of a hold; see [`lockkeeper::Semaphore::longest_hold`](crate::Semaphore::longest_hold).
    pub fn longest_hold(self, longest: Duration) -> Self {
        Self::new(self.inner.longest_hold(longest))
    }

    /// Waits by asking again and again; see [`lockkeeper::Semaphore::polling`](crate::Semaphore::polling).
    pub fn polling(self, polling: Polling) -> Self {
        Self::new(self.inner.polling(polling))
    }

    /// Acquires one permit, waiting for it if need be.
    ///
    /// # Errors
    /// See the type.
    pub fn acquire(&self) -> Result<SemaphorePermit, Error> {
        Ok(SemaphorePermit::new(block_on(
            self.inner.core(),
            self.inner.acquire(),
        )??))
    }

    /// Acquires so many permits in one hold, waiting for them if need be.
    ///
    /// # Errors
    /// See the type.
    pub fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        Ok(SemaphorePermit::new(block_on(
            self.inner.core(),
            self.inner.acquire_many(permits),
        )??))
    }

    /// Acquires one permit if there is one now.
    ///
    /// # Errors
    /// See the type.
    pub fn try_acquire(&self) -> Result<SemaphorePermit, Error> {
        Ok(SemaphorePermit::new(block_on(
            self.inner.core(),
            self.inner.try_acquire(),
        )??))
    }

    /// Acquires so many permits in one hold if there are so many now.
    ///
    /// # Errors
    /// See the type.
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        Ok(SemaphorePermit::new(block_on(
            self.inner.core(),
            self.inner.try_acquire_many(permits),
        )??))
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

    /// Sets the number of permits, those that are held counted in.
    ///
    /// # Errors
    /// See the type.
    pub fn set_permits(&self, permits: u32) -> Result<(), Error> {
        block_on(self.inner.core(), self.inner.set_permits(permits))?
    }

    /// How many permits are held, by whichever process.
    ///
    /// # Errors
    /// See the type.
    pub fn acquired_permits(&self) -> Result<i64, Error> {
        block_on(self.inner.core(), self.inner.acquired_permits())?
    }

    /// How many permits there are, available and held together.
    ///
    /// # Errors
    /// See the type.
    pub fn permits(&self) -> Result<i64, Error> {
        block_on(self.inner.core(), self.inner.permits())?
    }

    /// Removes the semaphore with all that is held of it; tells whether there was one.
    ///
    /// # Errors
    /// See the type.
    pub fn remove(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.remove())?
    }
}

/// One or more permits of a [`Semaphore`], held together; see [`lockkeeper::SemaphorePermit`](crate::SemaphorePermit). It may be
/// given up by another thread than the one that acquired it.
#[derive(Debug)]
#[must_use = "a permit that is not kept is given back at once"]
pub struct SemaphorePermit {
    permit: crate::SemaphorePermit,
}

impl SemaphorePermit {
    const fn new(permit: crate::SemaphorePermit) -> Self {
        Self { permit }
    }

    /// The name of the semaphore.
    #[must_use]
    pub fn name(&self) -> &str {
        self.permit.name()
    }

    /// How many permits are held.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.permit.permits()
    }

    /// The ids of the permits; keep them out of logs.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.permit.ids()
    }

    /// How long the hold may still be believed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.permit.remaining()
    }

    /// Held, doubtful or lost, without asking anybody.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.permit.state()
    }

    /// A view of the hold for others, which does not keep it.
    #[must_use]
    pub fn handle(&self) -> HoldHandle {
        self.permit.handle()
    }

    /// Lengthens the hold; see [`lockkeeper::SemaphorePermit::extend`](crate::SemaphorePermit::extend).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn extend(&self, duration: Duration) -> Result<(), Error> {
        block_on(self.permit.turn.core(), self.permit.extend(duration))?
    }

    /// Gives the permits back; see [`lockkeeper::SemaphorePermit::unlock`](crate::SemaphorePermit::unlock).
    ///
    /// # Errors
    /// Those of the async form. Inside async code [`Error::BlockingInAsync`], and they are given back in the background.
    pub fn unlock(self) -> Result<Unlocked, Error> {
        let core = Arc::clone(self.permit.turn.core());
        block_on(&core, self.permit.unlock())?
    }

    /// The same permits for async code.
    pub fn into_async(self) -> crate::SemaphorePermit {
        self.permit
    }
}
