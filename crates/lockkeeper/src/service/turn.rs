use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::core::Core;
use super::gate::Gate;
use super::hold::{Hold, HoldState};
use super::local_queue::LocalQueue;
use super::release::Unlocked;
use super::request::Request;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::Target;
use crate::error::Error;

/// Where a turn came from, and where it is given up.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A queue in which holds pass from one local caller to the next.
    Queue(Arc<LocalQueue>),
    /// A gate, where each caller has a hold of its own.
    Gate(Arc<Gate>),
}

impl Origin {
    pub(crate) fn core(&self) -> &Arc<Core> {
        match self {
            Self::Queue(queue) => &queue.core,
            Self::Gate(gate) => &gate.core,
        }
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        match self {
            Self::Queue(queue) => &queue.target,
            Self::Gate(gate) => &gate.target,
        }
    }

    /// Gets a turn, within the request's budget.
    pub(crate) async fn acquire(&self, request: &Request) -> Result<Arc<Turn>, Error> {
        match self {
            Self::Queue(queue) => queue.acquire(request).await,
            Self::Gate(gate) => gate.acquire(request).await,
        }
    }

    /// Whether both are the very same place: one name, one kind, one keeper.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Queue(one), Self::Queue(other)) => Arc::ptr_eq(one, other),
            (Self::Gate(one), Self::Gate(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// One local holder's turn under a hold. Dropping it passes the hold on, or frees it in the background.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) origin: Origin,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: Token,
    started: Moment,
    ended: AtomicBool,
}

impl Turn {
    pub(super) fn new(origin: Origin, hold: &Arc<Hold>, token: Token, started: Moment) -> Arc<Self> {
        Arc::new(Self {
            origin,
            hold: Arc::clone(hold),
            token,
            started,
            ended: AtomicBool::new(false),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.origin.core()
    }

    /// The state of the hold at this moment.
    pub(crate) fn state(&self) -> HoldState {
        self.hold.state_here(self.core().now())
    }

    /// Gives the turn up and tells what became of the hold. Dropping the future leaves the release to the background.
    pub(crate) async fn unlock(&self) -> Result<Unlocked, Error> {
        match &self.origin {
            Origin::Queue(queue) => queue.unlock(self).await,
            Origin::Gate(gate) => gate.unlock(self).await,
        }
    }

    /// Marks the turn as over; true the first time. What follows from it is the caller's to do.
    pub(super) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Tells metrics and the log how long the turn was.
    pub(super) fn record(&self, now: Moment) {
        let held = now.since(self.started);
        self.core().meters.hold.record(held.as_secs_f64());
        tracing::debug!(
            name = %self.hold.target.name, owner = %self.hold.owner, token = self.token.get(), ?held, "lock given up"
        );
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.end() {
            return;
        }
        match &self.origin {
            Origin::Queue(queue) => queue.end_in_background(self),
            Origin::Gate(gate) => gate.end_in_background(self),
        }
    }
}
