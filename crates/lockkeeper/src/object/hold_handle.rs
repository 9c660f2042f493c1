use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::token::Token;
use crate::error::LossReason;
use crate::service::core::Core;
use crate::service::hold::{Hold, HoldState};
use crate::service::turn::Turn;
use crate::service::waiting::sleep_until;

/// A view of a hold that does not keep it: what work under a lock needs to know about it.
///
/// Cheap to clone and to send elsewhere. None of its answers costs a round trip.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::embedded();
/// let ran = keeper
///     .mutex("report")
///     .run(|hold| async move { (hold.token(), hold.remaining()) })
///     .await?;
/// assert!(ran.value.is_some());
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct HoldHandle {
    turn: Weak<Turn>,
    hold: Arc<Hold>,
    core: Arc<Core>,
    token: Token,
}

impl HoldHandle {
    pub(crate) fn new(turn: &Arc<Turn>) -> Self {
        Self {
            turn: Arc::downgrade(turn),
            hold: Arc::clone(&turn.hold),
            core: Arc::clone(turn.core()),
            token: turn.token,
        }
    }

    /// The fencing token to send along with every write; 0 where holds do not exclude others, as of readers and permits.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// How long the hold may still be believed; zero once it is lost or given up.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_given_up() {
            return Duration::ZERO;
        }
        remaining(&self.hold, &self.core)
    }

    /// Held, doubtful or lost, by the holder's own clock. Lost as well once the lock was given up.
    #[must_use]
    pub fn state(&self) -> HoldState {
        match self.hold.state_here(self.core.now()) {
            // Passed on to the next local caller: for whoever has this view it is as lost as if it had been freed.
            HoldState::Held | HoldState::Doubtful if self.is_given_up() => HoldState::Lost(LossReason::DeadlinePassed),
            state => state,
        }
    }

    fn is_given_up(&self) -> bool {
        self.turn.strong_count() == 0 || self.hold.is_released()
    }

    /// How long after the deadline the key stays on the server at least: the time in which work that is being stopped must
    /// have ended. Zero if the server said that the hold is gone.
    #[must_use]
    pub fn margin(&self) -> Duration {
        match self.state() {
            HoldState::Lost(LossReason::GoneOnServer) => Duration::ZERO,
            _ => self.hold.terms.effective_margin(),
        }
    }

    /// Ends when the hold is lost, with the reason, and no later than the deadline. Stays pending for ever if the lock is
    /// given up in the normal way. Cancel safe: dropping it changes nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let handle = self.clone();
        async move {
            if let Some(reason) = handle.loss().await {
                return reason;
            }
            // Whoever waits for ever must not keep the keeper's thread and connections.
            drop(handle);
            std::future::pending().await
        }
    }

    /// Ends when the hold is lost, with the reason, or without one when the lock was given up.
    async fn loss(&self) -> Option<LossReason> {
        loop {
            let mut changed = pin!(self.hold.changes().notified());
            changed.as_mut().enable();
            if self.is_given_up() {
                return None;
            }
            if let HoldState::Lost(reason) = self.hold.state_here(self.core.now()) {
                return (!self.is_given_up()).then_some(reason);
            }
            tokio::select! {
                () = changed => {}
                // Only a wake-up: the clock decides, above.
                () = sleep_until(&self.core, self.hold.deadline()) => {}
            }
        }
    }
}

impl fmt::Debug for HoldHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHandle")
            .field("name", &self.hold.target.name)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

pub(crate) fn remaining(hold: &Hold, core: &Core) -> Duration {
    let now = core.now();
    match hold.state_here(now) {
        HoldState::Lost(_) => Duration::ZERO,
        _ => hold.deadline().since(now),
    }
}
