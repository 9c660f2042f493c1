use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::holding::blocking_hold_methods;
use super::parking::block_on;
use crate::base::lease::Lease;
use crate::base::token::Token;
use crate::error::Error;
use crate::object::election::Leader;
use crate::object::hold_handle::HoldHandle;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::waiting::Polling;

/// The election of one leader, for threads; see [`lockkeeper::Election`](crate::Election).
///
/// ```
/// use lockkeeper::blocking::Keeper;
///
/// let election = Keeper::embedded().election("scheduler").candidate("node-7");
/// let leadership = election.campaign()?;
/// assert_eq!(election.leader()?.map(|leader| leader.term), Some(leadership.term()));
/// leadership.resign()?;
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is used"]
pub struct Election {
    inner: crate::Election,
}

impl Election {
    pub(super) const fn new(inner: crate::Election) -> Self {
        Self { inner }
    }

    /// Sets the text that is told of this candidate; see [`lockkeeper::Election::candidate`](crate::Election::candidate).
    pub fn candidate(self, text: impl AsRef<str>) -> Self {
        Self::new(self.inner.candidate(text))
    }

    /// Sets the lease; see [`lockkeeper::Election::lease`](crate::Election::lease).
    pub fn lease(self, lease: Lease) -> Self {
        Self::new(self.inner.lease(lease))
    }

    /// Sets how long [`campaign`](Self::campaign) waits; see [`lockkeeper::Election::wait`](crate::Election::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self::new(self.inner.wait(wait))
    }

    /// Sets the time kept back at the end of a lease; see [`lockkeeper::Election::margin`](crate::Election::margin).
    pub fn margin(self, margin: Duration) -> Self {
        Self::new(self.inner.margin(margin))
    }

    /// Sets the longest total time of a term; see [`lockkeeper::Election::longest_hold`](crate::Election::longest_hold).
    pub fn longest_hold(self, longest: Duration) -> Self {
        Self::new(self.inner.longest_hold(longest))
    }

    /// Waits by asking again and again; see [`lockkeeper::Election::polling`](crate::Election::polling).
    pub fn polling(self, polling: Polling) -> Self {
        Self::new(self.inner.polling(polling))
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn campaign(&self) -> Result<Leadership, Error> {
        let guard = block_on(self.inner.core(), self.inner.campaign())??;
        Ok(Leadership { guard })
    }

    /// Leads if nobody does now: exactly one full attempt.
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn try_campaign(&self) -> Result<Leadership, Error> {
        let guard = block_on(self.inner.core(), self.inner.try_campaign())??;
        Ok(Leadership { guard })
    }

    /// Asks the server who leads; `None` if nobody does.
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        block_on(self.inner.core(), self.inner.leader())?
    }

    /// Follows who leads; see [`lockkeeper::Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> Observation {
        Observation {
            inner: self.inner.observe(),
        }
    }

    /// Ends the present term whoever leads; see [`lockkeeper::Election::depose`](crate::Election::depose).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn depose(&self) -> Result<bool, Error> {
        block_on(self.inner.core(), self.inner.depose())?
    }
}

/// A term as its leader has it in hand; see [`lockkeeper::Leadership`](crate::Leadership). It may be given up by any thread.
#[must_use = "a leadership that is not kept ends at once"]
pub struct Leadership {
    guard: crate::Leadership,
}

impl Leadership {
    blocking_hold_methods!();

    /// The number of the term.
    #[must_use]
    pub fn term(&self) -> Token {
        self.guard.term()
    }

    /// Ends the term; the same as [`unlock`](Self::unlock).
    ///
    /// # Errors
    /// Those of [`unlock`](Self::unlock).
    pub fn resign(self) -> Result<Unlocked, Error> {
        self.unlock()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

/// Follows who leads, for threads; see [`lockkeeper::Observation`](crate::Observation).
#[derive(Debug)]
#[must_use = "an observation does nothing until it is asked for a change"]
pub struct Observation {
    inner: crate::Observation,
}

impl Observation {
    /// Waits until somebody else leads than was told last, or nobody does, and tells who.
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn changed(&mut self) -> Result<Option<Leader>, Error> {
        let core = Arc::clone(self.inner.core());
        block_on(&core, self.inner.changed())?
    }
}
