use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::guard::{forget, held_by_this_thread, remember};
use super::holding::blocking_hold_methods;
use super::parking::{block_on, block_on_with};
use crate::base::lease::Lease;
use crate::base::token::Token;
use crate::error::Error;
use crate::object::hold_handle::HoldHandle;
use crate::object::rwlock::{read_inside, write_inside};
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::waiting::Polling;

/// A read-write lock by name, for threads; see [`lockkeeper::RwLock`](crate::RwLock). Re-entrant: a thread that writes may read and
/// write again, and one that reads may read again, at no cost.
///
/// ```
/// # use lockkeeper::{Error, blocking::Keeper};
/// let prices = Keeper::embedded().rwlock("prices");
/// let writer = prices.write()?;
/// let inner = prices.read()?; // the same thread: no waiting, no round trip
/// drop((inner, writer));
///
/// let reader = prices.read()?;
/// assert!(matches!(prices.write(), Err(Error::WouldWaitForItself { .. })));
/// let writer = reader.try_upgrade().map_err(|(_, error)| error)?;
/// # drop(writer); Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is locked"]
pub struct RwLock {
    inner: crate::RwLock,
}

impl RwLock {
    pub(super) const fn new(inner: crate::RwLock) -> Self {
        Self { inner }
    }

    /// Sets the lease; see [`lockkeeper::RwLock::lease`](crate::RwLock::lease).
    pub fn lease(self, lease: Lease) -> Self {
        Self::new(self.inner.lease(lease))
    }

    /// Sets how long a call that waits may take; see [`lockkeeper::RwLock::wait`](crate::RwLock::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Sets the time kept back at the end of a lease; see [`lockkeeper::RwLock::margin`](crate::RwLock::margin).
    pub fn margin(self, margin: Duration) -> Self {
        Self::new(self.inner.margin(margin))
    }

    /// Sets the longest total time of a hold; see [`lockkeeper::RwLock::longest_hold`](crate::RwLock::longest_hold).
    pub fn longest_hold(self, longest: Duration) -> Self {
        Self::new(self.inner.longest_hold(longest))
    }

    /// Waits by asking again and again; see [`lockkeeper::RwLock::polling`](crate::RwLock::polling).
    pub fn polling(self, polling: Polling) -> Self {
        Self::new(self.inner.polling(polling))
    }

    /// Comes in as a reader, or shares the hold if this thread reads or writes already; a writer that waits does not stop it.
    ///
    /// A guard that shares a write hold keeps that hold, and so keeps others out, for as long as it lives.
    ///
    /// # Errors
    /// Those of [`lockkeeper::RwLock::read`](crate::RwLock::read); [`Error::BlockingInAsync`]; on re-entry [`Error::Lost`] if the outer
    /// hold is lost and [`Error::InnerLease`] if the lease asked for is more than the outer one.
    pub fn read(&self) -> Result<RwLockReadGuard, Error> {
        match read_inside(&self.inner, held_by_this_thread)? {
            Some(turn) => Ok(RwLockReadGuard::new(crate::RwLockReadGuard::new(turn))),
            None => block_on(self.inner.core(), self.inner.read())?.map(RwLockReadGuard::remembered),
        }
    }

    /// As [`read`](Self::read), without waiting.
    ///
    /// # Errors
    /// Those of [`lockkeeper::RwLock::try_read`](crate::RwLock::try_read), and of [`read`](Self::read).
    pub fn try_read(&self) -> Result<RwLockReadGuard, Error> {
        match read_inside(&self.inner, held_by_this_thread)? {
            Some(turn) => Ok(RwLockReadGuard::new(crate::RwLockReadGuard::new(turn))),
            None => block_on(self.inner.core(), self.inner.try_read())?.map(RwLockReadGuard::remembered),
        }
    }

    /// Comes in as the writer, or shares the hold if this thread writes already.
    ///
    /// # Errors
    /// Those of [`lockkeeper::RwLock::write`](crate::RwLock::write), and of [`read`](Self::read) on re-entry;
    /// [`Error::WouldWaitForItself`], at once, if this thread reads: [`RwLockReadGuard::try_upgrade`] is the way from reading to
    /// writing.
    pub fn write(&self) -> Result<RwLockWriteGuard, Error> {
        match write_inside(&self.inner, held_by_this_thread)? {
            Some(turn) => Ok(RwLockWriteGuard::new(crate::RwLockWriteGuard::new(turn))),
            None => block_on(self.inner.core(), self.inner.write())?.map(RwLockWriteGuard::remembered),
        }
    }

    /// As [`write`](Self::write), without waiting.
    ///
    /// # Errors
    /// Those of [`lockkeeper::RwLock::try_write`](crate::RwLock::try_write), and of [`write`](Self::write).
    pub fn try_write(&self) -> Result<RwLockWriteGuard, Error> {
        match write_inside(&self.inner, held_by_this_thread)? {
            Some(turn) => Ok(RwLockWriteGuard::new(crate::RwLockWriteGuard::new(turn))),
            None => block_on(self.inner.core(), self.inner.try_write())?.map(RwLockWriteGuard::remembered),
        }
    }

    /// Frees the lock of all its readers; see [`lockkeeper::RwLock::force_unlock_read`](crate::RwLock::force_unlock_read).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn force_unlock_read(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.force_unlock_read())?
    }

    /// Frees the lock of its writer; see [`lockkeeper::RwLock::force_unlock_write`](crate::RwLock::force_unlock_write).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn force_unlock_write(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.force_unlock_write())?
    }
}

macro_rules! guards {
    ($($(#[$attribute:meta])* $guard:ident;)+) => { $(
        $(#[$attribute])*
        ///
        /// It belongs to its thread.
        #[must_use = "a guard that is not kept frees the lock at once"]
        pub struct $guard {
            guard: crate::$guard,
            _of_this_thread: PhantomData<*const ()>,
        }

        impl $guard {
            pub(super) const fn new(guard: crate::$guard) -> Self {
                Self {
                    guard,
                    _of_this_thread: PhantomData,
                }
            }

            /// The guard of a hold that becomes this thread's.
            fn remembered(guard: crate::$guard) -> Self {
                remember(&guard.turn);
                Self::new(guard)
            }

            blocking_hold_methods!();

            /// The same guard for async code, which may go to other threads. It takes the hold out of this thread's re-entry: from
            /// now on this thread waits for it as others do.
            pub fn into_async(self) -> crate::$guard {
                forget(&self.guard.turn);
                self.guard
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.guard.fmt(f)
            }
        }
    )+ };
}

guards! {
    /// The value that a reading thread has in hand; see [`lockkeeper::RwLockReadGuard`](crate::RwLockReadGuard).
    RwLockReadGuard;
    /// The value that a writing thread has in hand; see [`lockkeeper::RwLockWriteGuard`](crate::RwLockWriteGuard).
    RwLockWriteGuard;
}

impl RwLockReadGuard {
    /// Makes the only reader the writer; see [`lockkeeper::RwLockReadGuard::try_upgrade`](crate::RwLockReadGuard::try_upgrade).
    ///
    /// # Errors
    /// Those of the async form. Inside async code [`Error::BlockingInAsync`], and the guard still reads.
    pub fn try_upgrade(self) -> Result<RwLockWriteGuard, (Self, Error)> {
        let core = Arc::clone(self.guard.turn.core());
        match block_on_with(&core, self.guard, crate::RwLockReadGuard::try_upgrade) {
            Ok(Ok(guard)) => Ok(RwLockWriteGuard::remembered(guard)),
            Ok(Err((guard, error))) | Err((guard, error)) => Err((Self::new(guard), error)),
        }
    }
}

impl RwLockWriteGuard {
    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// Makes the writer a reader; see [`lockkeeper::RwLockWriteGuard::downgrade`](crate::RwLockWriteGuard::downgrade).
    ///
    /// # Errors
    /// Those of the async form. Inside async code [`Error::BlockingInAsync`], and the lock is freed in the background.
    pub fn downgrade(self) -> Result<RwLockReadGuard, Error> {
        let core = Arc::clone(self.guard.turn.core());
        block_on(&core, self.guard.downgrade())?.map(RwLockReadGuard::remembered)
    }
}
