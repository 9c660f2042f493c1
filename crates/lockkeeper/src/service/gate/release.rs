use std::sync::Arc;

use super::Gate;
use crate::base::name::Name;
use crate::error::{Error, LossReason};
use crate::service::attempt::Attempt;
use crate::service::cleanup::{Closed, Closing, close};
use crate::service::hold::HoldState;
use crate::service::place::Place;
use crate::service::release::{Releasing, Unlocked, loss_of};
use crate::service::turn::Turn;

impl Gate {
    /// Gives the owner text of an attempt to clean-up.
    pub(super) fn close_text(&self, attempt: &Attempt) {
        self.core.meters.clean_ups.increment(1);
        close(&self.core, attempt.closing(&self.core), |_| {});
    }

    /// The same, where something may yet come of the text, or where it stands in a line on the server.
    pub(super) fn settle(&self, attempt: &Attempt) {
        if attempt.is_open() || (attempt.waits() && self.target.kind.keeps_places()) {
            self.close_text(attempt);
        }
    }

    /// Ends a turn: local state changes before any request leaves. Tells how the hold was lost, if it was.
    pub(super) fn end(&self, turn: &Turn) -> Result<(), LossReason> {
        let now = self.core.now();
        turn.record(now);
        let hold = &turn.hold;
        let held = hold.state(now);
        let known = self.lock().holds.remove(&hold.owner).is_some();
        let given_up = hold.give_up();
        self.core.renewal.remove(hold);
        match held {
            HoldState::Lost(reason) => Err(reason),
            _ if known && given_up => Ok(()),
            held => Err(loss_of(held)),
        }
    }

    /// The end of a turn whose guard was dropped: never blocks, and needs no runtime.
    pub(crate) fn end_in_background(self: &Arc<Self>, turn: &Turn) {
        if !turn.hold.is_of_this_process() {
            // A forked child has the memory, not the hold.
            return;
        }
        let closing = Closing::of(&self.core, &turn.hold);
        match self.end(turn) {
            Ok(()) => close(&self.core, closing, self.awaiting()),
            Err(_) => close(&self.core, closing, |_| {}),
        }
    }

    /// Leaves a turn to its caller for good: what it took is the caller's own, and nothing is renewed or given back any more.
    ///
    /// # Errors
    /// [`Error::Closed`] if it was given back meanwhile, because the keeper closed.
    pub(crate) fn forget(&self, turn: &Turn) -> Result<(), Error> {
        if !turn.end() {
            return Err(Error::Closed);
        }
        self.end(turn).map_err(|_| Error::Closed)
    }

    /// Gives a turn up and tells what became of the hold. Dropping the future leaves the release to the background.
    pub(crate) async fn unlock(self: &Arc<Self>, turn: &Turn) -> Result<Unlocked, Error> {
        if !turn.end() {
            return Ok(Unlocked::StillHeld);
        }
        if !turn.hold.is_of_this_process() {
            return Err(Error::Lost(LossReason::Forked));
        }
        match self.end(turn) {
            Ok(()) => Releasing::new(&self.core, &turn.hold, self.awaiting()).send().await,
            Err(reason) => {
                close(&self.core, Closing::of(&self.core, &turn.hold), |_| {});
                Err(Error::Lost(reason))
            }
        }
    }

    /// A release is on its way from now on; the result hears its first answer.
    pub(super) fn awaiting(self: &Arc<Self>) -> impl Fn(Closed) + Clone + Send + 'static {
        self.lock().releasing += 1;
        let gate = Arc::clone(self);
        move |closed| {
            let mut state = gate.lock();
            state.releasing = state.releasing.saturating_sub(1);
            state.unconfirmed = closed == Closed::LeaseOver;
        }
    }
}

impl Place for Gate {
    fn name(&self) -> &Name {
        &self.target.name
    }

    fn dismiss(&self) {
        let entries: Vec<_> = self.lock().entries.drain(..).collect();
        for entry in entries {
            self.depart(&entry);
            entry.waiter.fail(Error::Closed);
        }
    }

    fn close_holds(self: Arc<Self>, reason: LossReason) -> bool {
        let holds: Vec<_> = self.lock().holds.drain().map(|(_, hold)| hold).collect();
        let any = !holds.is_empty();
        for hold in holds {
            hold.lose(reason);
            self.core.renewal.remove(&hold);
            close(&self.core, Closing::of(&self.core, &hold), self.awaiting());
        }
        any
    }

    fn is_attempting(&self) -> bool {
        let state = self.lock();
        state.attempting > 0 || state.serving > 0
    }

    fn is_releasing(&self) -> bool {
        self.lock().releasing > 0
    }

    fn is_unconfirmed(&self) -> bool {
        self.lock().unconfirmed
    }
}
