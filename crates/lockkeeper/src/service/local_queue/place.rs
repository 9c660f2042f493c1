use std::sync::Arc;

use super::{LocalQueue, Phase};
use crate::base::name::Name;
use crate::error::{Error, LossReason};
use crate::service::core::Core;
use crate::service::place::Place;
use crate::service::waiter::{Station, Waiter};

impl Station for LocalQueue {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Takes a caller that went away out of the line.
    fn leave(&self, waiter: &Arc<Waiter>) {
        let mut state = self.lock();
        let was_head = state.waiters.front().is_some_and(|head| Arc::ptr_eq(head, waiter));
        state.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        state.tries.retain(|other| !Arc::ptr_eq(other, waiter));
        if was_head {
            state.regrouped = true;
            state.takeover = None;
        }
        let tell = state.pumping && (was_head || state.is_deserted());
        drop(state);
        if tell {
            self.moved.notify_one();
        }
    }
}

impl Place for LocalQueue {
    fn name(&self) -> &Name {
        &self.target.name
    }

    fn dismiss(&self) {
        let mut state = self.lock();
        let waiters: Vec<_> = state.waiters.drain(..).collect();
        let tries: Vec<_> = state.tries.drain(..).collect();
        drop(state);
        self.moved.notify_one();
        for waiter in waiters.into_iter().chain(tries) {
            waiter.fail(Error::Closed);
        }
    }

    fn close_holds(self: Arc<Self>, reason: LossReason) -> bool {
        self.close_hold(reason)
    }

    fn is_attempting(&self) -> bool {
        matches!(self.lock().phase, Phase::Attempting { .. })
    }

    fn is_releasing(&self) -> bool {
        matches!(self.lock().phase, Phase::Releasing { .. })
    }

    fn is_unconfirmed(&self) -> bool {
        self.lock().unconfirmed
    }
}
