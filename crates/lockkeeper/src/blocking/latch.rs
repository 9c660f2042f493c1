use std::time::Duration;

use super::parking::block_on;
use crate::error::Error;
use crate::object::latch::LatchEnd;

/// A count-down latch by name, for threads; see [`lockkeeper::CountDownLatch`](crate::CountDownLatch).
///
/// The errors are those of the async form, and [`Error::BlockingInAsync`].
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is used"]
pub struct CountDownLatch {
    inner: crate::CountDownLatch,
}

impl CountDownLatch {
    pub(super) const fn new(inner: crate::CountDownLatch) -> Self {
        Self { inner }
    }

    /// Sets the count, if the latch has none; tells whether it did.
    ///
    /// # Errors
    /// See the type.
    pub fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.try_set_count(count))?
    }

    /// Takes one off the count, and tells what is left.
    ///
    /// # Errors
    /// See the type.
    pub fn count_down(&self) -> Result<u64, Error> {
        block_on(self.inner.core(), self.inner.count_down())?
    }

    /// The present count.
    ///
    /// # Errors
    /// See the type.
    pub fn count(&self) -> Result<u64, Error> {
        block_on(self.inner.core(), self.inner.count())?
    }

    /// Removes the latch whatever its count; tells whether there was one.
    ///
    /// # Errors
    /// See the type.
    pub fn remove(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.remove())?
    }

    /// Waits until the latch has opened.
    ///
    /// # Errors
    /// See the type.
    pub fn wait(&self) -> Result<LatchEnd, Error> {
        block_on(self.inner.core(), self.inner.wait())?
    }

    /// As [`wait`](Self::wait), for no longer than `limit`.
    ///
    /// # Errors
    /// See the type.
    pub fn wait_timeout(&self, limit: Duration) -> Result<LatchEnd, Error> {
        block_on(self.inner.core(), self.inner.wait_timeout(limit))?
    }
}
