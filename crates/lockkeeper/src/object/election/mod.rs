mod leadership;
mod observation;

use std::sync::Arc;
use std::time::Duration;

pub use leadership::Leadership;
pub use observation::{Leader, Observation};

use super::options::{Options, hold_options};
use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::{Kind, Target};
use crate::error::{CandidateError, Error};
use crate::service::core::Core;
use crate::service::gate::Gate;
use crate::service::waiting::Polling;

/// The longest text of a candidate, in bytes.
const LONGEST_CANDIDATE: usize = 1024;

/// The election of one leader among the processes of a fleet.
///
/// Who wants to lead [campaigns](Self::campaign), and leads as long as it keeps the [`Leadership`] and the deadline has not
/// passed. Each term has a number that rises; anybody can ask who leads ([`leader`](Self::leader)) or be told of every change
/// ([`observe`](Self::observe)).
///
/// # What it promises
/// At most one process believes that it leads, as long as the server neither loses data nor steps its clock; after its deadline
/// somebody else may lead, so what a leader writes should carry its [term](Leadership::term), and be refused by whoever saw a
/// higher one. After a leader that resigns the next one leads at once; after one that dies, once its lease (by default 30
/// seconds, renewed) is over. A candidate that heard of neither looks again within the
/// [re-check](crate::KeeperBuilder::recheck). On a **failover** to a replica that had not heard of the term, another leader can
/// be elected before the first one notices.
///
/// Candidates of one process stand in one line, first come first served; between processes there is no order.
///
/// An election is Lockkeeper's own and shares its name with nothing: a lock of the same name is refused with
/// [`Error::WrongKind`], and an election is where a lock is.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::embedded();
/// let election = keeper.election("scheduler").candidate("node-7");
/// let leadership = election.campaign().await?;
/// let leader = election.leader().await?.expect("we lead");
/// assert_eq!((leader.candidate.as_str(), leader.term), ("node-7", leadership.term()));
/// // ... work as the leader, until leadership.lost() ends ...
/// leadership.resign().await?;
/// assert!(election.leader().await?.is_none());
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is used"]
pub struct Election {
    core: Arc<Core>,
    options: Options,
    /// Where callers of this process meet, or why the name cannot be used: told by the first call.
    gate: Result<Arc<Gate>, Error>,
}

impl Election {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        Self {
            core: Arc::clone(core),
            options: Options::default(),
            gate: Name::new(name)
                .map(|name| core.gate(Kind::Election, name))
                .map_err(Error::from),
        }
    }

    /// Sets the text that is told of this candidate while it leads, such as the name of its machine; by default it is empty. At
    /// most 1024 bytes; a longer one is told by the first call. Everybody who may read the server's keys can read it.
    pub fn candidate(mut self, text: impl AsRef<str>) -> Self {
        self.options.candidate = Some(text.as_ref().into());
        self
    }

    hold_options!();

    /// Waits until this candidate leads.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the [wait](Self::wait) ended while somebody else led ([`Error::Busy`] if the wait is zero);
    /// [`Error::Unreachable`] if the server did not answer within the wait, or, with no wait set, for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is
    /// something else; [`Error::Refused`]; and [`Error::Name`], [`Error::Candidate`] or [`Error::Lease`], before anything is sent.
    ///
    /// # Cancelling
    /// Dropping the future withdraws the candidate. A term that begins all the same is ended in the background.
    ///
    /// # Failover
    /// Waiting goes on by looking again; see the type's promise for what a failover does to a term.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let request = self.options.waiting()?;
        Ok(Leadership::new(self.checked_gate()?.acquire(&request).await?))
    }

    /// Leads if nobody does now: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody else leads; else as [`campaign`](Self::campaign). An unreachable server is never "busy".
    ///
    /// # Cancelling
    /// A term that begins all the same is ended in the background.
    pub async fn try_campaign(&self) -> Result<Leadership, Error> {
        let request = self.options.trying()?;
        Ok(Leadership::new(self.checked_gate()?.acquire(&request).await?))
    }

    /// Asks the server who leads; `None` if nobody does.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the key is something else; [`Error::Unreachable`], [`Error::Refused`], [`Error::Name`].
    ///
    /// # Cancelling
    /// Changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let seen = observation::look(&self.core, self.target()?).await?;
        Ok(seen.map(|seen| seen.leader))
    }

    /// Follows who leads: the present state first, and then each change. It costs nothing until the first
    /// [`changed`](Observation::changed); a bad name is told there.
    pub fn observe(&self) -> Observation {
        Observation::new(&self.core, self.target().cloned())
    }

    /// Ends the present term whoever leads; tells whether there was one.
    ///
    /// The leader learns of it at its next renewal, at the latest at its deadline; until then two may lead, and only the
    /// [term](Leadership::term) tells them apart. For an operator, not for a program.
    ///
    /// # Errors
    /// Those of [`leader`](Self::leader).
    pub async fn depose(&self) -> Result<bool, Error> {
        let target = Arc::clone(self.target()?);
        tracing::warn!(name = %target.name, "ending a term by force");
        crate::keeper::force_release(&self.core, target).await
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn target(&self) -> Result<&Arc<Target>, Error> {
        self.gate.as_ref().map(|gate| &gate.target).map_err(Clone::clone)
    }

    fn checked_gate(&self) -> Result<&Arc<Gate>, Error> {
        let length = self.options.candidate.as_ref().map_or(0, |text| text.len());
        if length > LONGEST_CANDIDATE {
            return Err(Error::Candidate(CandidateError::TooLong {
                length,
                longest: LONGEST_CANDIDATE,
            }));
        }
        self.gate.as_ref().map_err(Clone::clone)
    }
}
