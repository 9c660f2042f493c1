//! What can go wrong with a sale as a whole.

use crate::exit::Exit;
use serde::{Deserialize, Serialize};

/// Why a step failed. Travels between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(super) enum Trouble {
    /// No answer: the same step may work later.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// An answer that will not change by asking again.
    #[error("{0}")]
    Refused(String),
    /// The stock is not where it was put.
    #[error("the stock is gone: the server lost its data, or somebody removed the key")]
    Gone,
    /// A child process ended or spoke nonsense.
    #[error("a process of buyers failed: {0}")]
    Process(String),
    /// The user has had enough.
    #[error("interrupted")]
    Interrupted,
}

impl Trouble {
    /// Whether the same step may work later.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// How the program ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Unreachable(_) => Exit::Unreachable,
            Self::Interrupted => Exit::Signalled(2),
            Self::Refused(_) | Self::Gone | Self::Process(_) => Exit::Failure,
        }
    }
}

impl From<lockkeeper::Error> for Trouble {
    fn from(error: lockkeeper::Error) -> Self {
        use lockkeeper::Error;
        match error {
            Error::Lost(_) | Error::NotHeld | Error::OutcomeUnknown { .. } => Self::Unreachable(error.to_string()),
            error if error.is_unreachable() || error.is_retryable() => Self::Unreachable(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}
