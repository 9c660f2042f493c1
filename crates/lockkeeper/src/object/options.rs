use std::sync::Arc;
use std::time::Duration;

use crate::base::lease::Lease;
use crate::error::Error;
use crate::service::request::{Budget, Request};
use crate::service::waiting::Polling;

/// What can be set on the handle of an object that is held. Wait and lease are separate, and neither limits the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) lease: Lease,
    pub(crate) wait: Option<Duration>,
    pub(crate) margin: Option<Duration>,
    pub(crate) longest_hold: Option<Duration>,
    pub(crate) polling: Option<Polling>,
    /// What an election tells others of its leader.
    pub(crate) candidate: Option<Arc<str>>,
}

impl Options {
    /// The request of a waiting call.
    pub(crate) fn waiting(&self) -> Result<Request, Error> {
        self.request(match self.wait {
            None => Budget::Unlimited,
            Some(wait) if wait.is_zero() => Budget::Try,
            Some(wait) => Budget::Within(wait),
        })
    }

    /// The request of a call that does not wait.
    pub(crate) fn trying(&self) -> Result<Request, Error> {
        self.request(Budget::Try)
    }

    fn request(&self, budget: Budget) -> Result<Request, Error> {
        Ok(Request {
            terms: self.lease.terms(self.margin)?,
            longest: self.longest_hold,
            polling: self.polling,
            budget,
            candidate: self.candidate.clone(),
            permits: 1,
        })
    }
}

/// The settings of a lease; what has them needs a field `options`.
macro_rules! lease_options {
    () => {
        /// Sets the lease; by default 30 seconds, renewed every ten.
        pub const fn lease(mut self, lease: Lease) -> Self {
            self.options.lease = lease;
            self
        }

        /// Sets the time kept back at the end of a lease, in which work that is being stopped can end before the key expires; by
        /// default a tenth of the lease, at least 20 ms and at most a second.
        pub const fn margin(mut self, margin: Duration) -> Self {
            self.options.margin = Some(margin);
            self
        }

        /// Sets the longest total time of a renewed hold, so that hung work does not keep the lock for ever; by default there is
        /// no limit.
        pub const fn longest_hold(mut self, longest: Duration) -> Self {
            self.options.longest_hold = Some(longest);
            self
        }
    };
}
pub(crate) use lease_options;

/// The settings that every handle of an object that is held has; it needs a field `options`.
macro_rules! hold_options {
    () => {
        $crate::object::options::lease_options!();

        /// Sets how long a call that waits may take; by default for ever. Zero means exactly one full attempt.
        ///
        /// The time covers everything, a frozen or dead server included: the call ends on time, with an error that tells
        /// *held by somebody else* from *unreachable*.
        pub const fn wait(mut self, wait: Duration) -> Self {
            self.options.wait = Some(wait);
            self
        }

        /// Waits by asking again and again instead of by signals.
        pub const fn polling(mut self, polling: Polling) -> Self {
            self.options.polling = Some(polling);
            self
        }
    };
}
pub(crate) use hold_options;
