use std::sync::Arc;
use std::time::Duration;

use crate::base::lease::Lease;
use crate::engine::{Answer, Lane, Renew, Renewed, Reply, Step};
use crate::error::{Error, LossReason};
use crate::object::hold_handle::remaining;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;
use crate::service::waiting::{Backoff, sleep_until};

/// Lengthens the hold so that it ends no sooner than `duration` from now.
pub(crate) async fn extend(turn: &Turn, duration: Duration) -> Result<(), Error> {
    let hold = &turn.hold;
    let core = turn.core();
    let terms = Lease::fixed(duration).terms(hold.terms.margin)?;
    let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
    loop {
        if let HoldState::Lost(reason) = turn.state() {
            return Err(Error::Lost(reason));
        }
        let limit = remaining(hold, core).min(core.settings.response_limit);
        let step = Step::Renew(vec![Renew {
            target: Arc::clone(&hold.target),
            owner: hold.owner.clone(),
            lease: terms.milliseconds,
            longest: hold.longest_lease(terms.milliseconds),
            refresh_token: true,
            copies: Arc::clone(&hold.copies),
        }]);
        let error = match core.engine.perform(Lane::Foreground, step, limit).await {
            Ok(Answer {
                reply: Reply::Renewed(mut replies),
                sent,
                ..
            }) => match replies.pop() {
                Some(Ok(Renewed::Held)) => {
                    hold.confirm(sent, terms.trusted(), core.now());
                    return match turn.state() {
                        HoldState::Lost(reason) => Err(Error::Lost(reason)),
                        _ => Ok(()),
                    };
                }
                Some(Err(error)) => error,
                Some(Ok(Renewed::Gone)) | None => {
                    hold.lose(LossReason::GoneOnServer);
                    return Err(Error::Lost(LossReason::GoneOnServer));
                }
            },
            Ok(_) => {
                return Err(Error::OutcomeUnknown {
                    detail: "an answer of another kind".to_owned(),
                });
            }
            Err(error) => error,
        };
        let again = core.clock_now().plus(backoff.next());
        if !error.is_transient() || again >= hold.deadline() {
            return Err(error.into_error("extending the hold", &hold.target));
        }
        sleep_until(core, again).await;
    }
}

/// Gives a turn up, and tells what became of the hold.
pub(crate) async fn unlock(turn: Arc<Turn>) -> Result<Unlocked, Error> {
    match Arc::try_unwrap(turn) {
        Ok(turn) => turn.unlock().await,
        Err(_) => Ok(Unlocked::StillHeld),
    }
}

/// What every guard offers; it needs a field `turn`.
macro_rules! hold_methods {
    () => {
        /// The name of the object.
        #[must_use]
        pub fn name(&self) -> &str {
            self.turn.hold.target.name.as_str()
        }

        /// The text that marks the hold on the server. Whoever knows it can free the lock: keep it out of logs.
        #[must_use]
        pub fn owner(&self) -> &str {
            self.turn.hold.owner.as_str()
        }

        /// How long the hold may still be believed by this process's clock, renewals to come aside; zero once it is lost.
        #[must_use]
        pub fn remaining(&self) -> Duration {
            remaining(&self.turn.hold, self.turn.core())
        }

        /// Held, doubtful or lost, without asking anybody. Once lost, always lost.
        ///
        /// A fixed lease learns of a forced unlock only by [`extend`](Self::extend), [`unlock`](Self::unlock) or its deadline.
        #[must_use]
        pub fn state(&self) -> HoldState {
            self.turn.state()
        }

        /// Ends when the hold is lost, with the reason, and no later than the deadline.
        ///
        /// Cancel safe: dropping the future changes nothing. It borrows nothing, so it can go into another task.
        pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
            self.handle().lost()
        }

        /// A view of the hold for others, which does not keep it.
        #[must_use]
        pub fn handle(&self) -> HoldHandle {
            HoldHandle::new(&self.turn)
        }

        /// Lengthens the lease so that it ends no sooner than `duration` from now. Never shortens it. May be called any number of
        /// times; the guard stays the same.
        ///
        /// As with any lease, the deadline lies before its end by drift and margin, and a
        /// longest hold ends it all the same: [`remaining`](Self::remaining) tells what it came to.
        ///
        /// # Errors
        /// [`Error::Lease`] for a duration that is no lease, before anything is sent; [`Error::Lost`] if the hold is or turns out to be
        /// lost; [`Error::Unreachable`] or [`Error::Refused`] if the server did not confirm in time: the hold then lives on as long
        /// as it had.
        ///
        /// # Cancelling
        /// The hold may or may not have been lengthened on the server; the guard does not count on it.
        pub async fn extend(&self, duration: Duration) -> Result<(), Error> {
            $crate::object::holding::extend(&self.turn, duration).await
        }

        /// Gives the lock up and tells what became of it.
        ///
        /// # Errors
        /// [`Error::Lost`] if the hold had been lost before; [`Error::NotHeld`] if the server has no record of it (it was freed by
        /// force, or the server lost its data); [`Error::OutcomeUnknown`] if no answer came while the hold lasted: the release is
        /// then repeated in the background until it is confirmed or the lease is over.
        ///
        /// # Cancelling
        /// The release goes on in the background.
        pub async fn unlock(self) -> Result<Unlocked, Error> {
            $crate::object::holding::unlock(self.turn).await
        }
    };
}
pub(crate) use hold_methods;
