use std::sync::Arc;
use std::time::Duration;

use super::enter::Alone;
use super::{LocalQueue, Takeover};
use crate::base::clock::Moment;
use crate::engine::StepError;
use crate::error::Error;
use crate::service::request::Request;
use crate::service::waiter::Waiter;

/// What follows when an attempt was refused or had no answer.
impl LocalQueue {
    /// Puts a lone caller at the head of the line after its attempt.
    pub(super) fn line_up(
        self: &Arc<Self>,
        state: &mut super::State,
        request: &Request,
        takeover: Option<Takeover>,
    ) -> Result<Alone, Error> {
        let attempts = 1;
        // A pump that others started is watching for the end of this attempt, whatever becomes of its caller.
        self.moved.notify_one();
        self.core.check_open()?;
        if let Some(limit) = request.polling.and_then(|polling| polling.limit())
            && attempts >= limit
        {
            return Err(Error::AttemptsUsedUp {
                name: self.target.name.to_string(),
                attempts,
            });
        }
        let waiter = Waiter::new(request.clone(), attempts);
        state.waiters.push_front(Arc::clone(&waiter));
        state.takeover = takeover;
        self.ensure_pump(state);
        Ok(Alone::Queued(waiter))
    }

    pub(super) fn note_busy(&self, state: &mut super::State, time_left: Option<u64>, now: Moment) {
        let ends = time_left.map(|left| now.plus(Duration::from_millis(left)));
        state.trouble = None;
        state.run = None;
        state.busy = Some(super::Busy {
            // Between two looks of the head, everybody shares what it was told.
            counts_until: ends
                .unwrap_or(Moment::FAR)
                .min(now.plus(self.core.settings.recheck_plain)),
            ends,
        });
        state.fail_tries(|| self.busy_error(time_left.map(Duration::from_millis)));
    }

    /// An attempt that began at `began` had no answer.
    pub(super) fn note_trouble(&self, state: &mut super::State, error: StepError, began: Moment) {
        let since = state.trouble.as_ref().map_or(began, |(since, _)| *since);
        state.fail_tries(|| error.clone().into_error("trying the lock", &self.target));
        state.trouble = Some((since, error));
    }
}
