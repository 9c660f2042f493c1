use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::holding::blocking_hold_methods;
use super::parking::block_on;
use crate::base::lease::Lease;
use crate::base::token::Token;
use crate::engine::Layout;
use crate::error::Error;
use crate::object::hold_handle::HoldHandle;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;

/// Work that is done at most once in a period, for threads; see [`lockkeeper::Periodic`](crate::Periodic).
///
/// ```
/// use lockkeeper::blocking::Keeper;
/// use std::time::Duration;
///
/// let hourly = Keeper::embedded().periodic("send-reminders").at_least(Duration::from_secs(55 * 60));
/// if let Some(run) = hourly.try_start()? {
///     // ... send them ...
///     run.unlock()?;
/// }
/// assert!(hourly.try_start()?.is_none());
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until a run is started"]
pub struct Periodic {
    inner: crate::Periodic,
}

impl Periodic {
    pub(super) const fn new(inner: crate::Periodic) -> Self {
        Self { inner }
    }

    /// Sets how long after a run has begun nobody else may begin; see
    /// [`lockkeeper::Periodic::at_least`](crate::Periodic::at_least).
    pub fn at_least(self, least: Duration) -> Self {
        Self::new(self.inner.at_least(least))
    }

    /// Sets how long a run may take; see [`lockkeeper::Periodic::at_most`](crate::Periodic::at_most).
    pub fn at_most(self, most: Duration) -> Self {
        Self::new(self.inner.at_most(most))
    }

    /// Sets the lease; see [`lockkeeper::Periodic::lease`](crate::Periodic::lease).
    pub fn lease(self, lease: Lease) -> Self {
        Self::new(self.inner.lease(lease))
    }

    /// Sets the time kept back at the end of a lease; see [`lockkeeper::Periodic::margin`](crate::Periodic::margin).
    pub fn margin(self, margin: Duration) -> Self {
        Self::new(self.inner.margin(margin))
    }

    /// Sets the longest total time of a run; see [`lockkeeper::Periodic::longest_hold`](crate::Periodic::longest_hold).
    pub fn longest_hold(self, longest: Duration) -> Self {
        Self::new(self.inner.longest_hold(longest))
    }

    /// Sets how long a call waits for its turn; see [`lockkeeper::Periodic::wait`](crate::Periodic::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Sets the layout on the server; see [`lockkeeper::Periodic::layout`](crate::Periodic::layout).
    pub fn layout(self, layout: Layout) -> Self {
        Self::new(self.inner.layout(layout))
    }

    /// Begins a run; `None` if somebody else is at work, or has been in this period.
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn try_start(&self) -> Result<Option<PeriodicGuard>, Error> {
        let started = block_on(self.inner.core(), self.inner.try_start())??;
        Ok(started.map(|guard| PeriodicGuard { guard }))
    }
}

/// A run that has begun; see [`lockkeeper::PeriodicGuard`](crate::PeriodicGuard). It may be given up by any thread.
#[must_use = "a guard that is not kept ends the run at once"]
pub struct PeriodicGuard {
    guard: crate::PeriodicGuard,
}

impl PeriodicGuard {
    blocking_hold_methods!();

    /// Takes the run back; see [`lockkeeper::PeriodicGuard::abandon`](crate::PeriodicGuard::abandon).
    ///
    /// # Errors
    /// Those of [`unlock`](Self::unlock).
    pub fn abandon(self) -> Result<Unlocked, Error> {
        let core = Arc::clone(self.guard.turn.core());
        block_on(&core, self.guard.abandon())?
    }

    /// The fencing token of this run.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }
}

impl fmt::Debug for PeriodicGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
