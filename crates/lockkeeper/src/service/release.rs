use std::pin::pin;
use std::sync::Arc;

use super::cleanup::{Closed, Closing, close};
use super::core::Core;
use super::hold::{Hold, HoldState};
use super::waiting::until;
use crate::base::clock::Moment;
use crate::engine::{Answer, Lane, Reply};
use crate::error::{Error, LossReason};

/// What became of the lock when a guard gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unlocked {
    /// It is free on the server, by this call.
    Freed,
    /// It passed to the next caller in this process without being freed.
    PassedOn,
    /// Its work is over, and nobody holds it, but it stays taken until its [least time](crate::Periodic::at_least) is over.
    Resting,
    /// Another guard of the same hold (re-entry) still has it.
    StillHeld,
}

/// Why a hold that is in this state is not held.
pub(super) fn loss_of(state: HoldState) -> LossReason {
    match state {
        HoldState::Lost(reason) => reason,
        _ => LossReason::GoneOnServer,
    }
}

/// A release that its caller waits for. Dropped before its answer, it goes on in the background. `told` hears the first
/// answer, whoever gets it.
pub(super) struct Releasing<'a, F: Fn(Closed) + Clone + Send + 'static> {
    core: &'a Arc<Core>,
    hold: &'a Arc<Hold>,
    told: F,
    done: bool,
}

impl<'a, F: Fn(Closed) + Clone + Send + 'static> Releasing<'a, F> {
    pub(super) const fn new(core: &'a Arc<Core>, hold: &'a Arc<Hold>, told: F) -> Self {
        Self {
            core,
            hold,
            told,
            done: false,
        }
    }

    pub(super) async fn send(mut self) -> Result<Unlocked, Error> {
        let core = self.core;
        // No longer than the hold has left: after that nobody is kept out any more.
        let over = self.hold.deadline();
        let limit = over.since(core.clock_now()).min(core.settings.response_limit);
        let step = Closing::of(core, self.hold).step();
        let answer = core.engine.perform(Lane::Foreground, step, limit).await;
        match answer {
            Ok(Answer {
                reply: Reply::Released(released),
                server_time,
                ..
            }) => {
                let closed = Closed::from(released);
                self.done = true;
                (self.told)(closed);
                if server_time <= self.hold.copies.open_until() {
                    // An unanswered copy of the acquire may still arrive, and would take the lock for nobody.
                    close(core, Closing::of(core, self.hold), |_| {});
                }
                match closed {
                    Closed::Resting => Ok(Unlocked::Resting),
                    Closed::NotThere => Err(Error::NotHeld),
                    _ => Ok(Unlocked::Freed),
                }
            }
            Ok(_) => {
                self.finish_in_background(over, "an answer of another kind".to_owned())
                    .await
            }
            Err(error) => {
                let detail = error.into_error("releasing", &self.hold.target).to_string();
                self.finish_in_background(over, detail).await
            }
        }
    }

    /// The first copy was not answered: clean-up repeats it, and its word can no longer tell who freed the lock.
    async fn finish_in_background(mut self, over: Moment, detail: String) -> Result<Unlocked, Error> {
        self.done = true;
        let core = self.core;
        let (tell, heard) = tokio::sync::oneshot::channel();
        let told = self.told.clone();
        core.meters.clean_ups.increment(1);
        close(core, Closing::of(core, self.hold), move |first| {
            told(first);
            // Nobody listens any more if the caller has gone.
            let _ = tell.send(first);
        });
        let mut timer = pin!(until(core, over));
        tokio::select! {
            first = heard => match first {
                Ok(Closed::Freed { .. }) => Ok(Unlocked::Freed),
                Ok(Closed::Resting) => Ok(Unlocked::Resting),
                _ => Err(Error::OutcomeUnknown { detail }),
            },
            () = &mut timer => Err(Error::OutcomeUnknown { detail }),
        }
    }
}

impl<F: Fn(Closed) + Clone + Send + 'static> Drop for Releasing<'_, F> {
    fn drop(&mut self) {
        if !self.done {
            close(self.core, Closing::of(self.core, self.hold), self.told.clone());
        }
    }
}
