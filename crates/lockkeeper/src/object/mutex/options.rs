use std::time::Duration;

use crate::base::lease::Lease;
use crate::error::Error;
use crate::service::local_queue::{Budget, Request};
use crate::service::waiting::Polling;

/// What can be set on a handle. Wait and lease are separate, and neither limits the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) lease: Lease,
    pub(crate) wait: Option<Duration>,
    pub(crate) margin: Option<Duration>,
    pub(crate) longest_hold: Option<Duration>,
    pub(crate) polling: Option<Polling>,
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
        })
    }
}
