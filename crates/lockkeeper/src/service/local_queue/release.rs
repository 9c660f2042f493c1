use std::sync::Arc;

use super::{LocalQueue, Phase, State, Turn, Yielding};
use crate::base::clock::Moment;
use crate::error::{Error, LossReason};
use crate::service::attempt::Attempt;
use crate::service::cleanup::{Closed, Closing, close};
use crate::service::core::TurnBudget;
use crate::service::hold::{Hold, HoldState};
use crate::service::release::{Releasing, Unlocked, loss_of};
use crate::service::waiter::Waiter;

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
            return Ended::Lost(loss_of(held));
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
    pub(crate) fn end_in_background(self: &Arc<Self>, turn: &Turn) {
        if !turn.hold.is_of_this_process() {
            // A forked child has the memory, not the lock.
            return;
        }
        match self.end(turn) {
            Ended::PassedOn => {}
            Ended::Lost(_) => {
                self.core.renewal.remove(&turn.hold);
                self.close(Closing::of(&self.core, &turn.hold), None);
            }
            Ended::Release(serial) => self.close(Closing::of(&self.core, &turn.hold), Some(serial)),
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
                self.close(Closing::of(&self.core, &turn.hold), None);
                Err(Error::Lost(reason))
            }
            Ended::Release(serial) => {
                Releasing::new(&self.core, &turn.hold, self.awaiting(Some(serial)))
                    .send()
                    .await
            }
        }
    }

    /// Frees what this process holds, in the background; its guards turn lost. True if there was something to free.
    pub(super) fn close_hold(self: &Arc<Self>, reason: LossReason) -> bool {
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
        self.close(Closing::of(&self.core, &hold), Some(serial));
        true
    }

    /// Gives the owner text of an attempt to clean-up.
    pub(super) fn close_text(self: &Arc<Self>, attempt: &Attempt, serial: Option<u64>) {
        self.core.meters.clean_ups.increment(1);
        self.close(attempt.closing(&self.core), serial);
    }

    /// Closes an owner text. With a `serial` the queue's phase waits for the first answer.
    fn close(self: &Arc<Self>, closing: Closing, serial: Option<u64>) {
        close(&self.core, closing, self.awaiting(serial));
    }

    /// Who hears the first answer to a release.
    fn awaiting(self: &Arc<Self>, serial: Option<u64>) -> impl Fn(Closed) + Clone + Send + 'static {
        let queue = Arc::clone(self);
        move |closed| {
            if let Some(serial) = serial {
                queue.released(serial, closed);
            }
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
