//! A hold on one side of a read-write lock becomes one on the other, in one step on the server.
//!
//! The new hold has an owner text of its own. Where it stays unclear whether the step was done, both texts are given to
//! clean-up, so that neither is left on the server with nobody to renew it.

use std::sync::Arc;

use super::Gate;
use crate::base::clock::Moment;
use crate::engine::{Cause, Lane, StepError};
use crate::error::{Effect, Error, LossReason};
use crate::service::attempt::{Attempt, Outcome};
use crate::service::cleanup::{Closing, close};
use crate::service::hold::{Hold, HoldState};
use crate::service::turn::Turn;

impl Gate {
    /// Makes the writer's turn a reader's, at the gate `to`. Whatever goes wrong, the write hold is given up.
    pub(crate) async fn downgrade(self: &Arc<Self>, turn: Arc<Turn>, to: &Arc<Self>) -> Result<Arc<Turn>, Error> {
        let Ok(turn) = Arc::try_unwrap(turn) else {
            return Err(self.shared());
        };
        if !turn.hold.is_of_this_process() {
            return Err(Error::Lost(LossReason::Forked));
        }
        let converting = Converting::new(self, to, &turn.hold);
        turn.end();
        // Nothing is renewed any more, and no late renewal can tell that the write hold is gone.
        self.end(&turn).map_err(Error::Lost)?;
        let error = match converting.run(&turn.hold).await {
            Outcome::Granted(grant) => match to.install(grant, to.core.now()) {
                Some(new) => {
                    converting.done();
                    return Ok(new);
                }
                None => return Err(Error::Lost(LossReason::DeadlinePassed)),
            },
            Outcome::Busy(_) => StepError::none(Cause::NotHeld),
            Outcome::Failed(error) => error,
        };
        Err(error.into_error("downgrading", &to.target))
    }

    /// Makes the only reader's turn the writer's, at the gate `to`. If that is refused the turn is as it was; if it stays
    /// unclear, the turn is lost.
    pub(crate) async fn upgrade(
        self: &Arc<Self>,
        turn: Arc<Turn>,
        to: &Arc<Self>,
    ) -> Result<Arc<Turn>, (Arc<Turn>, Error)> {
        if let HoldState::Lost(reason) = turn.state() {
            return Err((turn, Error::Lost(reason)));
        }
        if Arc::strong_count(&turn) > 1 {
            return Err((turn, self.shared()));
        }
        let hold = Arc::clone(&turn.hold);
        hold.set_converting(true);
        let converting = Converting::new(self, to, &hold);
        let outcome = converting.run(&hold).await;
        let unclear = converting.attempt.is_open();
        let (error, lost) = match outcome {
            Outcome::Granted(grant) => match to.install(grant, to.core.now()) {
                Some(new) => {
                    converting.done();
                    turn.end();
                    // What became of the old hold does not matter any more.
                    let _ = self.end(&turn);
                    return Ok(new);
                }
                None => {
                    let reason = LossReason::DeadlinePassed;
                    (Error::Lost(reason), Some(reason))
                }
            },
            Outcome::Busy(_) => {
                let name = self.target.name.to_string();
                (
                    Error::OtherReaders { name },
                    unclear.then_some(LossReason::GoneOnServer),
                )
            }
            Outcome::Failed(error) => {
                let reason = LossReason::GoneOnServer;
                if matches!(error.cause, Cause::NotHeld) {
                    (Error::Lost(reason), Some(reason))
                } else {
                    let unclear = unclear || error.effect == Effect::Possible;
                    (error.into_error("upgrading", &to.target), unclear.then_some(reason))
                }
            }
        };
        match lost {
            Some(reason) => {
                hold.lose(reason);
            }
            None => {
                converting.refused();
                // A renewal may have been passed over meanwhile.
                hold.set_converting(false);
                self.core.renewal.remove(&hold);
                self.core.renewal.add(&hold);
            }
        }
        Err((turn, error))
    }

    fn shared(&self) -> Error {
        Error::SharedHold {
            name: self.target.name.to_string(),
        }
    }
}

/// A conversion on its way. Dropped before its end, it gives both owner texts to clean-up.
struct Converting<'a> {
    gate: &'a Arc<Gate>,
    to: &'a Arc<Gate>,
    old: Closing,
    attempt: Attempt,
    open: bool,
}

impl<'a> Converting<'a> {
    fn new(gate: &'a Arc<Gate>, to: &'a Arc<Gate>, hold: &Hold) -> Self {
        to.lock().attempting += 1;
        Self {
            gate,
            to,
            old: Closing::of(&gate.core, hold),
            attempt: Attempt::converting(&to.target, hold, gate.core.clock_now()),
            open: true,
        }
    }

    /// Repeats the step until it is answered, no longer than the hold may be believed.
    async fn run(&self, hold: &Hold) -> Outcome {
        let core = &self.gate.core;
        let patience = core.clock_now().plus(core.settings.unreachable_after);
        let until: Moment = hold.deadline().min(patience);
        self.attempt.run(core, Lane::Foreground, until).await
    }

    /// It was done. An unanswered copy of the old hold's requests could yet take the lock again, for nobody.
    fn done(mut self) {
        self.open = false;
        if self.old.copies.open_until() > 0 {
            close(&self.gate.core, self.old.clone(), |_| {});
        }
    }

    /// It was not done, and will not be.
    fn refused(mut self) {
        self.open = false;
    }
}

impl Drop for Converting<'_> {
    fn drop(&mut self) {
        self.to.lock().attempting -= 1;
        if self.open {
            self.to.close_text(&self.attempt);
            close(&self.gate.core, self.old.clone(), self.gate.awaiting());
        }
    }
}
