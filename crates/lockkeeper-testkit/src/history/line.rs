//! The form of a history on disk: one JSON line per event.

use serde::{Deserialize, Serialize};

use super::Sharing;

/// One event of attempt `number` of `process`, at `at` nanoseconds of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) process: String,
    pub(super) number: u64,
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    Called {
        object: String,
        sharing: Sharing,
    },
    Granted {
        owner: String,
        token: Option<u64>,
        deadline: Option<u64>,
    },
    Refused {
        reason: String,
    },
    Dropped,
    Renewed {
        deadline: u64,
    },
    ReleaseCalled,
    Lost,
}
