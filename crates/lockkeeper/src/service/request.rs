use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::turn::Turn;
use super::waiting::Polling;
use crate::base::clock::Moment;
use crate::base::lease::Terms;
use crate::engine::Target;
use crate::error::Error;

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) terms: Terms,
    /// The longest total time of the hold, however often it is renewed.
    pub(crate) longest: Option<Duration>,
    pub(crate) polling: Option<Polling>,
    pub(crate) budget: Budget,
    /// What an election tells others of its leader.
    pub(crate) candidate: Option<Arc<str>>,
    /// How many permits, where a hold is of several.
    pub(crate) permits: u32,
}

impl Request {
    /// Until when a call that began at `started` may take; `None` if it has no limit.
    pub(crate) fn deadline(&self, core: &Core, started: Moment) -> Option<Moment> {
        match self.budget {
            // The wait of a try is that for the answer to one attempt.
            Budget::Try => Some(started.plus(core.settings.response_limit)),
            Budget::Within(budget) => Some(started.plus(budget)),
            Budget::Unlimited => None,
        }
    }

    /// How long the copies of one attempt may be repeated: a grant must still be worth something when it comes.
    pub(crate) fn attempt_window(&self, core: &Core) -> Duration {
        let settings = &core.settings;
        (self.terms.trusted() / 4)
            .max(settings.response_limit)
            .min(settings.unreachable_after)
    }

    /// Whether a hold that was granted for `self` may be used for `other` as it is.
    pub(crate) fn agrees_with(&self, terms: &Terms) -> bool {
        self.terms == *terms && self.longest.is_none()
    }
}

/// How long a caller is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// One full attempt.
    Try,
    Within(Duration),
    Unlimited,
}

/// Tells metrics and the log how a call ended.
pub(crate) fn account(
    core: &Core,
    target: &Target,
    request: &Request,
    started: Moment,
    result: &Result<Arc<Turn>, Error>,
) {
    let meters = &core.meters;
    let waited = core.clock_now().since(started);
    match result {
        Ok(turn) => {
            meters.acquired.increment(1);
            meters.waited(waited);
            tracing::debug!(
                name = %target.name, owner = %turn.hold.owner, token = turn.token.get(), ?waited, "lock acquired"
            );
        }
        Err(error) => {
            match error {
                Error::Busy { .. } => meters.busy.increment(1),
                Error::TimedOut { .. } | Error::AttemptsUsedUp { .. } => {
                    meters.timed_out.increment(1);
                    meters.waited(waited);
                }
                _ => meters.failed.increment(1),
            }
            tracing::debug!(name = %target.name, budget = ?request.budget, ?waited, %error, "lock not acquired");
        }
    }
}
