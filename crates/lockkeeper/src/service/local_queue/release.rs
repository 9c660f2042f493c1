use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::waiter::Waiter;
use super::{LocalQueue, Phase, State, Turn, Yielding};
use crate::base::clock::Moment;
use crate::engine::{Answer, Lane, Released, Reply, Step};
use crate::error::{Error, LossReason};
use crate::service::attempt::Attempt;
use crate::service::cleanup::{Closed, Closing, lease_over};
use crate::service::core::TurnBudget;
use crate::service::hold::{Hold, HoldState};
use crate::service::waiting::until;

/// What became of the lock when a guard gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unlocked {
    /// It is free on the server, by this call.
    Freed,
    /// It passed to the next caller in this process without being freed.
    PassedOn,
    /// Another guard of the same hold (re-entry) still has it.
    StillHeld,
}

/// What a turn's end asks for.
enum Ended {
    PassedOn,
    Lost(LossReason),
    Release(u64),
}

impl LocalQueue {
    /// Ends a turn: passes the hold on, or makes it ready to be released. Local state changes before any request leaves.
    fn end(self: &Arc<Self>, turn: &Turn) -> Ended {
        let now = self.core.now();
        turn.record(now);
        let hold = &turn.hold;
        let held = hold.state(now);
        let mut guard = self.lock();
        let state = &mut *guard;
        if !matches!(&state.phase, Phase::Held { hold: present, .. } if Arc::ptr_eq(present, hold)) {
            // The hold was dissolved, and its place may be taken by a new one.
            drop(guard);
            hold.give_up();
            return Ended::Lost(reason(held));
        }
        if let HoldState::Lost(reason) = held {
            state.phase = Phase::Idle;
            state.unclaimed = None;
            let waiting = !state.is_deserted();
            drop(guard);
            if waiting {
                self.moved.notify_one();
            }
            return Ended::Lost(reason);
        }
        while held == HoldState::Held
            && let Some((next, turn)) = self.next_in_line(state, hold, now)
        {
            hold.set_claimed(false);
            match next.grant(turn) {
                Ok(waker) => {
                    state.unclaimed = Some((next, now));
                    state.count_grant(now);
                    drop(guard);
                    self.core.meters.handed_over.increment(1);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    return Ended::PassedOn;
                }
                // That caller has just gone; its turn was never taken.
                Err(turn) => {
                    turn.end();
                }
            }
        }
        let serial = state.next_serial();
        state.release_from(serial, now);
        drop(guard);
        hold.give_up();
        self.core.renewal.remove(hold);
        Ended::Release(serial)
    }

    /// Takes the next local caller out of the line, with its turn, if the hold may pass on to it.
    fn next_in_line(
        self: &Arc<Self>,
        state: &mut State,
        hold: &Arc<Hold>,
        now: Moment,
    ) -> Option<(Arc<Waiter>, Arc<Turn>)> {
        let Phase::Held { turns, .. } = state.phase else {
            return None;
        };
        let suits = state.waiters.front()?.request.agrees_with(&hold.terms);
        if !suits || !self.may_pass_on(hold, turns, now) {
            return None;
        }
        let next = state.waiters.pop_front()?;
        Some((next, self.next_turn(state, now)?))
    }

    /// The end of a turn whose guard was dropped: never blocks, and needs no runtime.
    pub(super) fn end_in_background(self: &Arc<Self>, turn: &Turn) {
        if !turn.hold.is_of_this_process() {
            // A forked child has the memory, not the lock.
            return;
        }
        match self.end(turn) {
            Ended::PassedOn => {}
            Ended::Lost(_) => {
                self.core.renewal.remove(&turn.hold);
                self.close(self.closing_of(&turn.hold), None);
            }
            Ended::Release(serial) => self.close(self.closing_of(&turn.hold), Some(serial)),
        }
    }

    /// Gives a turn up and tells what became of the lock. Dropping the future leaves the release to the background.
    pub(crate) async fn unlock(self: &Arc<Self>, turn: &Turn) -> Result<Unlocked, Error> {
        if !turn.end() {
            return Ok(Unlocked::StillHeld);
        }
        if !turn.hold.is_of_this_process() {
            return Err(Error::Lost(LossReason::Forked));
        }
        match self.end(turn) {
            Ended::PassedOn => Ok(Unlocked::PassedOn),
            Ended::Lost(reason) => {
                self.core.renewal.remove(&turn.hold);
                self.close(self.closing_of(&turn.hold), None);
                Err(Error::Lost(reason))
            }
            Ended::Release(serial) => {
                let releasing = Releasing {
                    queue: self,
                    hold: &turn.hold,
                    serial,
                    done: false,
                };
                releasing.send().await
            }
        }
    }

    /// Frees what this process holds, in the background; its guards turn lost. True if there was something to free.
    pub(crate) fn close_hold(self: &Arc<Self>, reason: LossReason) -> bool {
        let now = self.core.clock_now();
        let (hold, serial) = {
            let mut guard = self.lock();
            let state = &mut *guard;
            let Phase::Held { hold, .. } = &state.phase else {
                return false;
            };
            let hold = Arc::clone(hold);
            let serial = state.next_serial();
            state.release_from(serial, now);
            (hold, serial)
        };
        hold.lose(reason);
        self.core.renewal.remove(&hold);
        self.close(self.closing_of(&hold), Some(serial));
        true
    }

    /// Whether the last release was refused, or could not be sent before the lease was over.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.lock().unconfirmed
    }

    /// Whether an attempt is on its way, which may yet be granted.
    pub(crate) fn is_attempting(&self) -> bool {
        matches!(self.lock().phase, Phase::Attempting { .. })
    }

    /// Whether a release is on its way.
    pub(crate) fn is_releasing(&self) -> bool {
        matches!(self.lock().phase, Phase::Releasing { .. })
    }

    fn closing_of(&self, hold: &Hold) -> Closing {
        Closing {
            target: Arc::clone(&hold.target),
            owner: hold.owner.clone(),
            copies: Arc::clone(&hold.copies),
            lease_over: lease_over(&self.core, hold.longest_lease(0)),
        }
    }

    /// Gives the owner text of an attempt to clean-up.
    pub(super) fn close_text(self: &Arc<Self>, attempt: &Attempt, serial: Option<u64>) {
        self.core.meters.clean_ups.increment(1);
        self.close(
            Closing {
                target: Arc::clone(attempt.target()),
                owner: attempt.owner.clone(),
                copies: Arc::clone(&attempt.copies),
                lease_over: lease_over(&self.core, attempt.asked()),
            },
            serial,
        );
    }

    /// Closes an owner text. With a `serial` the queue's phase waits for the first answer.
    fn close(self: &Arc<Self>, closing: Closing, serial: Option<u64>) {
        let queue = Arc::clone(self);
        let pending = self.core.pending.begin();
        let work = async move {
            closing
                .run(&queue.core, |first| {
                    if let Some(serial) = serial {
                        queue.released(serial, first);
                    }
                })
                .await;
            drop(pending);
        };
        if self.core.engine.is_immediate() {
            // Every step answers at once, so the work is done within one poll, and needs no runtime for it.
            let mut work = Box::pin(work);
            if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                self.core.executor.spawn(work);
            }
        } else {
            self.core.executor.spawn(work);
        }
    }

    /// A release was answered, or its lease is over: whoever is ordered behind it may go on.
    fn released(&self, serial: u64, closed: Closed) {
        let now = self.core.clock_now();
        let mut guard = self.lock();
        let state = &mut *guard;
        if !matches!(state.phase, Phase::Releasing { serial: present, .. } if present == serial) {
            return;
        }
        state.phase = Phase::Idle;
        state.unconfirmed = closed == Closed::LeaseOver;
        if let Closed::Freed { receivers } = closed {
            self.give_way(state, receivers, now);
        }
        let waiting = !state.is_deserted();
        if !waiting {
            state.contended = false;
        }
        drop(guard);
        if waiting {
            self.moved.notify_one();
        }
    }

    /// After a turn that used up its budget, others who heard of the release get a moment to come first. Turns that
    /// alternate with those of others never use it up, since being told "busy" begins a new account.
    fn give_way(&self, state: &mut State, receivers: u64, now: Moment) {
        let settings = &self.core.settings;
        let Some(run) = state.run else { return };
        let least = TurnBudget::default();
        if run.grants < settings.turn.count.max(least.count)
            && now.since(run.started) <= settings.turn.time.max(least.time)
        {
            return;
        }
        state.run = None;
        let ours = u64::from(state.listening.is_some());
        let others = receivers.saturating_sub(ours);
        if others > 0 {
            state.yielding = Some(Yielding {
                until: now.plus(settings.yield_time),
                // Our own release, then one of each of the others.
                signals: state.heard + ours + others,
            });
        }
    }
}

fn reason(state: HoldState) -> LossReason {
    match state {
        HoldState::Lost(reason) => reason,
        _ => LossReason::GoneOnServer,
    }
}

/// A release that its caller waits for. Dropped before its answer, it goes on in the background.
struct Releasing<'a> {
    queue: &'a Arc<LocalQueue>,
    hold: &'a Arc<Hold>,
    serial: u64,
    done: bool,
}

impl Releasing<'_> {
    async fn send(mut self) -> Result<Unlocked, Error> {
        let core = &self.queue.core;
        // No longer than the hold has left: after that nobody is kept out any more.
        let over = self.hold.deadline();
        let limit = over.since(core.clock_now()).min(core.settings.response_limit);
        let step = Step::Release {
            target: Arc::clone(&self.hold.target),
            owner: self.hold.owner.clone(),
        };
        let answer = core.engine.perform(Lane::Foreground, step, limit).await;
        match answer {
            Ok(Answer {
                reply: Reply::Released(released),
                server_time,
                ..
            }) => {
                let closed = match released {
                    Released::Freed { receivers } => Closed::Freed { receivers },
                    Released::NotThere => Closed::NotThere,
                };
                self.done = true;
                self.queue.released(self.serial, closed);
                if server_time <= self.hold.copies.open_until() {
                    // An unanswered copy of the acquire may still arrive, and would take the lock for nobody.
                    self.queue.close(self.queue.closing_of(self.hold), None);
                }
                if closed == Closed::NotThere {
                    return Err(Error::NotHeld);
                }
                Ok(Unlocked::Freed)
            }
            Ok(_) => {
                self.finish_in_background(over, "an answer of another kind".to_owned())
                    .await
            }
            Err(error) => {
                let detail = error.into_error("releasing", &self.hold.target.name).to_string();
                self.finish_in_background(over, detail).await
            }
        }
    }

    /// The first copy was not answered: clean-up repeats it, and its word can no longer tell who freed the lock.
    async fn finish_in_background(mut self, over: Moment, detail: String) -> Result<Unlocked, Error> {
        self.done = true;
        let (tell, told) = tokio::sync::oneshot::channel();
        let queue = Arc::clone(self.queue);
        let closing = queue.closing_of(self.hold);
        let pending = queue.core.pending.begin();
        let serial = self.serial;
        queue.core.meters.clean_ups.increment(1);
        let background = Arc::clone(&queue);
        queue.core.executor.spawn(async move {
            let mut tell = Some(tell);
            closing
                .run(&background.core, |first| {
                    background.released(serial, first);
                    if let Some(tell) = tell.take() {
                        // Nobody listens any more if the caller has gone.
                        let _ = tell.send(first);
                    }
                })
                .await;
            drop(pending);
        });
        let mut timer = pin!(until(&queue.core, over));
        tokio::select! {
            first = told => match first {
                Ok(Closed::Freed { .. }) => Ok(Unlocked::Freed),
                _ => Err(Error::OutcomeUnknown { detail }),
            },
            () = &mut timer => Err(Error::OutcomeUnknown { detail }),
        }
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.queue.close(self.queue.closing_of(self.hold), Some(self.serial));
        }
    }
}
