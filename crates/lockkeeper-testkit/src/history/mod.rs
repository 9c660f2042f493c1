//! Who believed to hold what, and when; and whether that was right.
//!
//! Workers write what they believe with a [`Recorder`], each process to a file of its own that survives its death.
//! Afterwards the test reads all files back as one [`History`] and lets the [`checker`] judge it.
//!
//! A hold is *believed* from the moment the caller had it until the earliest of: calling release, its deadline, and
//! learning of its loss. Only these intervals matter: what the server thinks in between is its own affair.

pub mod checker;
mod line;
mod reader;
mod recorder;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use reader::History;
pub use recorder::{Attempt, RecordedHold, Recorder};

/// Whether others may hold the same object at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Nobody else: a mutex, a writer, an elected leader.
    Exclusive,
    /// Others that share too: a reader, a permit of a semaphore.
    Shared,
}

/// How an attempt to get a hold ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was granted.
    Granted(Grant),
    /// It ended without a hold, for this reason.
    Refused(String),
    /// Its future was dropped.
    Dropped,
    /// Its process ended first.
    ProcessEnded,
}

/// What a granted hold is known by. All times are nanoseconds of [`boot_time_ns`](crate::boot_time_ns).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Owner text on the server.
    pub owner: String,
    /// Fencing token, where the object has them.
    pub token: Option<u64>,
    /// When the caller had it.
    pub returned: u64,
    /// The last deadline known to the holder; `None` without one.
    pub deadline: Option<u64>,
    /// Just before release was called.
    pub release_called: Option<u64>,
    /// When the holder learned that it was lost.
    pub lost: Option<u64>,
    /// When the holder's process was known to have ended.
    pub process_ended: Option<u64>,
}

/// One attempt to get a hold, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the process.
    pub process: String,
    /// Number of the attempt within its process, from 1.
    pub number: u64,
    /// Name of the object.
    pub object: String,
    /// Whether others may hold it too.
    pub sharing: Sharing,
    /// When the call began.
    pub called: u64,
    /// How it ended; `None` while it is still waiting.
    pub ending: Option<Ending>,
}

impl Entry {
    /// The grant, if there was one.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match &self.ending {
            Some(Ending::Granted(grant)) => Some(grant),
            _ => None,
        }
    }

    /// When the hold was believed: from (included) and until (excluded). `None` if never, which is also so for a
    /// hold whose deadline had passed when its caller got it.
    #[must_use]
    pub fn believed(&self) -> Option<(u64, u64)> {
        let grant = self.grant()?;
        let ends = [grant.deadline, grant.release_called, grant.lost, grant.process_ended];
        let until = ends.into_iter().flatten().min().unwrap_or(u64::MAX);
        (grant.returned < until).then_some((grant.returned, until))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} on {}", self.process, self.number, self.object)?;
        match &self.ending {
            Some(Ending::Granted(grant)) => {
                write!(f, " as {}", grant.owner)?;
                if let Some(token) = grant.token {
                    write!(f, " with token {token}")?;
                }
                match self.believed() {
                    Some((from, u64::MAX)) => write!(f, ", believed from {from} on"),
                    Some((from, until)) => write!(f, ", believed {from} to {until}"),
                    None => f.write_str(", never believed"),
                }
            }
            Some(ending) => write!(f, ", {ending:?}"),
            None => write!(f, ", waiting since {}", self.called),
        }
    }
}
