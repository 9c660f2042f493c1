use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::LocalQueue;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::service::hold::{Hold, HoldState};

/// One local holder's turn under a hold. Dropping it passes the hold on, or frees the lock in the background.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: Token,
    started: Moment,
    ended: AtomicBool,
}

impl Turn {
    pub(super) fn new(queue: &Arc<LocalQueue>, hold: &Arc<Hold>, token: Token, started: Moment) -> Arc<Self> {
        Arc::new(Self {
            queue: Arc::clone(queue),
            hold: Arc::clone(hold),
            token,
            started,
            ended: AtomicBool::new(false),
        })
    }

    /// The state of the hold at this moment.
    pub(crate) fn state(&self) -> HoldState {
        self.hold.state_here(self.queue.core.now())
    }

    /// Marks the turn as over; true the first time. What follows from it is the caller's to do.
    pub(super) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Tells metrics and the log how long the turn was.
    pub(super) fn record(&self, now: Moment) {
        let held = now.since(self.started);
        self.queue.core.meters.hold.record(held.as_secs_f64());
        tracing::debug!(
            name = %self.hold.target.name, owner = %self.hold.owner, token = self.token.get(), ?held, "lock given up"
        );
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.end() {
            self.queue.end_in_background(self);
        }
    }
}
