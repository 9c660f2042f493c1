use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::token::Token;
use crate::error::{Error, LossReason};
use crate::object::hold_handle::{HoldHandle, remaining};
use crate::object::holding::hold_methods;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;

/// A term of an [`Election`](crate::Election) as its leader has it in hand. Giving it up ends the term.
///
/// **Dropping** it never blocks, never panics and needs no runtime: the term is ended in the background. Where the next leader is
/// to come at once, call [`resign`](Self::resign).
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{HoldState, Keeper};
///
/// let election = Keeper::embedded().election("scheduler");
/// let first = election.campaign().await?;
/// assert_eq!(first.state(), HoldState::Held);
/// let term = first.term();
/// first.resign().await?;
/// assert!(election.campaign().await?.term() > term);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a leadership that is not kept ends at once"]
pub struct Leadership {
    pub(crate) turn: Arc<Turn>,
}

impl Leadership {
    pub(crate) fn new(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    hold_methods!();

    /// The number of the term, which is higher than that of every term before: send it along with every write.
    #[must_use]
    pub fn term(&self) -> Token {
        self.turn.token
    }

    /// Ends the term, so that somebody else can lead at once; the same as [`unlock`](Self::unlock).
    ///
    /// # Errors
    /// Those of [`unlock`](Self::unlock).
    ///
    /// # Cancelling
    /// The term is ended in the background.
    pub async fn resign(self) -> Result<Unlocked, Error> {
        self.unlock().await
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("name", &self.turn.hold.target.name)
            .field("term", &self.turn.token)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
