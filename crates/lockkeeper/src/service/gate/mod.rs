//! The gate: where the callers of one process take an object whose holds do not pass from one to the other. Each caller has
//! an owner text and a hold of its own.
//!
//! Where those who come first go first ([`Kind::is_lined_up`]) only the head of the local line speaks to the server, as in the
//! local queue; elsewhere every waiter speaks for itself, all of them on one subscription.

mod conversion;
mod enter;
mod release;
mod seek;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::attempt::Attempt;
use super::core::Core;
use super::hold::{Grant, Hold, HoldState};
use super::request::{Budget, Request};
use super::turn::{Origin, Turn};
use super::waiter::{Station, Waiter};
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::base::token::Token;
use crate::engine::{StepError, Target};
use crate::error::{Effect, Error};

/// The gate of one name.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) core: Arc<Core>,
    pub(crate) target: Arc<Target>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who waits, in the order of arrival.
    entries: VecDeque<Arc<Entry>>,
    /// Whether the task that speaks for the head of the line is running.
    seeking: bool,
    /// How many of them a task speaks for at present.
    serving: usize,
    holds: HashMap<Owner, Arc<Hold>>,
    /// Callers' own attempts on their way.
    attempting: usize,
    releasing: usize,
    /// The last release was not answered, or refused: the lease has to end the hold.
    unconfirmed: bool,
}

/// One waiting caller, with the owner text under which it asks, and under which its place in a line is kept.
#[derive(Debug)]
struct Entry {
    waiter: Arc<Waiter>,
    attempt: Attempt,
    /// A task speaks for it, and closes its text if the caller goes away.
    served: AtomicBool,
    gone: AtomicBool,
    left: Notify,
    /// When the request on its way was sent, in nanoseconds; 0 if none is.
    asked: AtomicU64,
    /// The last attempt's failure, while none was answered since, and since when it has been so.
    trouble: Mutex<Option<(Moment, StepError)>>,
}

impl Entry {
    fn new(waiter: Arc<Waiter>, attempt: Attempt) -> Arc<Self> {
        Arc::new(Self {
            waiter,
            attempt,
            served: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            left: Notify::new(),
            asked: AtomicU64::new(0),
            trouble: Mutex::new(None),
        })
    }

    fn request(&self) -> &Request {
        &self.waiter.request
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Ends when the caller has gone.
    async fn departure(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.is_gone() {
                return;
            }
            left.await;
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Option<(Moment, StepError)>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt that began at `began` had no answer; tells since when it has been so.
    fn note_trouble(&self, error: StepError, began: Moment) -> Moment {
        let mut trouble = self.trouble();
        let since = trouble.as_ref().map_or(began, |(since, _)| *since);
        *trouble = Some((since, error));
        since
    }
}

impl Gate {
    pub(crate) fn new(core: Arc<Core>, target: Arc<Target>) -> Arc<Self> {
        Arc::new(Self {
            core,
            target,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a grant a hold of this process, with its one turn; `None` if it came so late that it is worth nothing.
    fn install(self: &Arc<Self>, grant: Grant, now: Moment) -> Option<Arc<Turn>> {
        let hold = Arc::new(Hold::new(grant, now, Arc::clone(&self.core.meters)));
        if matches!(hold.state(now), HoldState::Lost(_)) {
            return None;
        }
        {
            let mut state = self.lock();
            state.unconfirmed = false;
            state.holds.insert(hold.owner.clone(), Arc::clone(&hold));
        }
        self.core.renewal.add(&hold);
        let token = Token::new(hold.first_token);
        Some(Turn::new(Origin::Gate(Arc::clone(self)), &hold, token, now))
    }

    /// Nobody waits any more under this entry, which is out of the line: its text is closed.
    fn depart(&self, entry: &Entry) {
        entry.gone.store(true, Ordering::Release);
        if entry.served.load(Ordering::Acquire) {
            entry.left.notify_waiters();
        } else {
            self.settle(&entry.attempt);
        }
    }

    /// How a wait that ran out of time ended: by contention, or because the server was not there.
    fn timed_out(&self, entry: &Entry, waited: Duration, now: Moment) -> Error {
        /// A request without an answer for so long is more than a slow one.
        const SILENCE: Duration = Duration::from_millis(250);
        if let Some((_, error)) = &*entry.trouble() {
            return error.clone().into_error("waiting", &self.target);
        }
        let asked = entry.asked.load(Ordering::Acquire);
        let silent_for = now.since(Moment::from_nanos(asked));
        if asked > 0 && silent_for >= SILENCE {
            return Error::Unreachable {
                doing: "waiting",
                detail: format!("no answer for {silent_for:?}"),
                effect: Effect::Possible,
            };
        }
        match entry.request().budget {
            Budget::Try => self.busy_error(None),
            _ => Error::TimedOut {
                name: self.target.name.to_string(),
                waited,
            },
        }
    }

    fn busy_error(&self, time_left: Option<u64>) -> Error {
        Error::Busy {
            name: self.target.name.to_string(),
            time_left: time_left.map(Duration::from_millis),
        }
    }
}

impl Station for Gate {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn leave(&self, waiter: &Arc<Waiter>) {
        let entry = {
            let mut state = self.lock();
            let place = state
                .entries
                .iter()
                .position(|entry| Arc::ptr_eq(&entry.waiter, waiter));
            let Some(entry) = place.and_then(|place| state.entries.remove(place)) else {
                return;
            };
            entry
        };
        self.depart(&entry);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.core.gates.forget(self.target.kind, self.target.name.text());
    }
}
