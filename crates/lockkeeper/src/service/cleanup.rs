use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::core::Core;
use super::hold::Hold;
use super::waiting::{Backoff, sleep_until};
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::engine::{Answer, Cause, Copies, Lane, Released, Reply, Rest, Step, StepError, Target};
use crate::error::Refusal;

/// How many clean-ups are under way, and a way to wait until none is.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    count: AtomicUsize,
    none: Notify,
    /// For threads that wait without a runtime.
    gate: Mutex<()>,
    none_left: Condvar,
}

impl Pending {
    pub(crate) fn begin(self: &Arc<Self>) -> PendingOne {
        self.count.fetch_add(1, Ordering::AcqRel);
        PendingOne(Arc::clone(self))
    }

    /// Blocks the thread until no clean-up is under way, at most for `limit`.
    pub(crate) fn wait_blocking(&self, limit: Duration) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let some_left = |(): &mut ()| self.count.load(Ordering::Acquire) > 0;
        drop(self.none_left.wait_timeout_while(gate, limit, some_left));
    }

    /// Ends when no clean-up is under way.
    pub(crate) async fn settled(&self) {
        loop {
            let notified = self.none.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// One clean-up under way.
#[derive(Debug)]
pub(crate) struct PendingOne(Arc<Pending>);

impl Drop for PendingOne {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
            let _gate = self.0.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.none_left.notify_all();
        }
    }
}

/// An owner text that is to be closed: whatever was granted under it is given back, and nothing more can come of it.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: Owner,
    pub(crate) copies: Arc<Copies>,
    /// Until when the name stays taken afterwards, if it does.
    pub(crate) rest: Option<Rest>,
    /// When the key is over even if no release ever arrives.
    pub(crate) lease_over: Moment,
}

/// What is known when a text is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// A release freed the lock; so many subscribers were told.
    Freed { receivers: u64 },
    /// The name rests, held by nobody.
    Resting,
    /// The server has no such hold.
    NotThere,
    /// The server could not be asked before the lease was over.
    LeaseOver,
}

impl From<Released> for Closed {
    fn from(released: Released) -> Self {
        match released {
            Released::Freed { receivers } => Self::Freed { receivers },
            Released::Resting { .. } => Self::Resting,
            Released::NotThere => Self::NotThere,
        }
    }
}

impl Closing {
    /// The text of a hold that was given up or lost.
    pub(crate) fn of(core: &Core, hold: &Hold) -> Self {
        Self {
            target: Arc::clone(&hold.target),
            owner: hold.owner.clone(),
            copies: Arc::clone(&hold.copies),
            rest: hold.rest(),
            lease_over: lease_over(core, hold.longest_lease(0)),
        }
    }

    /// The step that ends the hold.
    pub(crate) fn step(&self) -> Step {
        let (target, owner) = (Arc::clone(&self.target), self.owner.clone());
        match self.rest {
            Some(rest) => Step::Rest { target, owner, rest },
            None => Step::Release { target, owner },
        }
    }

    /// Releases again and again until a release was answered at a server time later than the use-by of every unanswered
    /// copy: an earlier "not there" may only mean "not yet". `first` hears the first answer.
    pub(crate) async fn run(&self, core: &Core, first: impl FnOnce(Closed)) -> Closed {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        let mut first = Some(first);
        let mut freed = None;
        let outcome = loop {
            let answer = core
                .engine
                .perform(Lane::Background, self.step(), core.settings.response_limit)
                .await;
            let pause = match answer {
                Ok(Answer {
                    reply: Reply::Released(released),
                    server_time,
                    ..
                }) => {
                    let closed = Closed::from(released);
                    if closed != Closed::NotThere {
                        freed = Some(closed);
                    }
                    if let Some(first) = first.take() {
                        first(closed);
                    }
                    let open_until = self.copies.open_until();
                    if server_time > open_until {
                        break freed.unwrap_or(closed);
                    }
                    let rest = Duration::from_micros(open_until - server_time) + Duration::from_millis(1);
                    // A late copy mostly comes soon: look early and often, then once when it can come no more.
                    rest.min(backoff.next())
                }
                Ok(_) | Err(_) => {
                    if let Err(error) = answer {
                        tracing::debug!(name = %self.target.name, owner = %self.owner, ?error, "repeating a release");
                        if is_final(&error) {
                            tracing::warn!(
                                name = %self.target.name, owner = %self.owner, ?error,
                                "the server refuses a release; the lease will end the hold"
                            );
                            break Closed::LeaseOver;
                        }
                    }
                    backoff.next()
                }
            };
            let again = core.clock_now().plus(pause);
            if again >= self.lease_over {
                break freed.unwrap_or(Closed::LeaseOver);
            }
            sleep_until(core, again).await;
        };
        if let Some(first) = first.take() {
            first(outcome);
        }
        outcome
    }
}

/// Closes an owner text in the background; `first` hears the first answer.
pub(crate) fn close(core: &Arc<Core>, closing: Closing, first: impl FnOnce(Closed) + Send + 'static) {
    let pending = core.pending.begin();
    let working = Arc::clone(core);
    let work = async move {
        closing.run(&working, first).await;
        drop(pending);
    };
    if core.engine.is_immediate() {
        // Every step answers at once, so the work is done within one poll, and needs no runtime for it.
        let mut work = Box::pin(work);
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            core.executor.spawn(work);
        }
    } else {
        core.executor.spawn(work);
    }
}

/// Whether a repeat of the release is in vain. A server that cannot persist or replicate just now refuses to free as well,
/// but may be well again long before the lease is over.
fn is_final(error: &StepError) -> bool {
    !error.is_transient() && !matches!(error.cause, Cause::Refused(Refusal::Durability, _))
}

/// When the key of a hold is over for certain: its life counted from the last moment at which a copy could still run.
pub(crate) fn lease_over(core: &Core, asked: u64) -> Moment {
    // An unanswered copy runs at the latest at its use-by, one response limit after it was sent.
    core.clock_now()
        .plus(core.settings.response_limit)
        .plus(Duration::from_millis(asked))
}
