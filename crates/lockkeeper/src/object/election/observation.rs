use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::token::Token;
use crate::engine::{Answer, Busy, ELECTION, Lane, Reply, Step, Target};
use crate::error::Error;
use crate::service::core::Core;
use crate::service::waiting::{Backoff, sleep_until};
use crate::service::watch::Watch;

/// Who leads, as the server told it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What the leader tells of itself. It is anybody's text: `{:?}` escapes control characters.
    pub candidate: String,
    /// The number of its term.
    pub term: Token,
    /// When the term ends unless it is renewed; `None` if the key carries no expiry.
    pub time_left: Option<Duration>,
}

/// A term as it was seen. Terms are told apart by their owner texts.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) leader: Leader,
    owner: String,
}

/// Looks once, and repeats that while the server does not answer, as long as the keeper puts up with it.
pub(super) async fn look(core: &Core, target: &Arc<Target>) -> Result<Option<Seen>, Error> {
    core.check_open()?;
    core.engine.settle();
    let until = core.clock_now().plus(core.settings.unreachable_after);
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));
    loop {
        let left = until.since(core.clock_now()).max(Duration::from_millis(1));
        let limit = left.min(core.settings.response_limit);
        let step = Step::Inspect {
            name: target.name.clone(),
        };
        let error = match core.engine.perform(Lane::Foreground, step, limit).await {
            Ok(Answer {
                reply: Reply::Inspected(found),
                ..
            }) => return seen(target, found),
            Ok(_) => {
                return Err(Error::OutcomeUnknown {
                    detail: "an answer of another kind".to_owned(),
                });
            }
            Err(error) => error,
        };
        let again = core.clock_now().plus(backoff.next());
        if !error.is_transient() || again >= until {
            return Err(error.into_error("asking who leads", target));
        }
        sleep_until(core, again).await;
        core.check_open()?;
    }
}

fn seen(target: &Target, found: crate::engine::Inspection) -> Result<Option<Seen>, Error> {
    match (
        found.kind.as_str(),
        found.candidate,
        found.token,
        found.holders.into_iter().next(),
    ) {
        ("", ..) => Ok(None),
        (ELECTION, Some(candidate), Some(term), Some(holder)) => Ok(Some(Seen {
            leader: Leader {
                candidate,
                term: Token::new(term),
                time_left: holder.time_left.map(Duration::from_millis),
            },
            owner: holder.owner,
        })),
        (other, ..) => Err(Error::WrongKind {
            name: target.name.to_string(),
            wanted: ELECTION,
            found: other.to_owned(),
        }),
    }
}

/// Follows who leads an [`Election`](crate::Election), in the way of a watch: what it tells is always the newest.
///
/// Every change is told at once by a message; if that is lost, at most a [re-check](crate::KeeperBuilder::recheck) later, and
/// the end of a leader that died when its lease is over. A term that began and ended before anybody looked is passed over, but it
/// is never mistaken for another one: a leader that comes back is told again, with its new term.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::embedded();
/// let election = keeper.election("scheduler").candidate("node-7");
/// let mut observation = election.observe();
/// assert!(observation.changed().await?.is_none());
/// let leadership = election.campaign().await?;
/// let leader = observation.changed().await?.expect("somebody leads");
/// assert_eq!(leader.term, leadership.term());
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "an observation does nothing until it is asked for a change"]
pub struct Observation {
    core: Arc<Core>,
    watch: Result<(Watch, Arc<Target>), Error>,
    /// The owner text of the leader that was told last, if one leads; `None` before the first look.
    told: Option<Option<String>>,
}

impl Observation {
    pub(super) fn new(core: &Arc<Core>, target: Result<Arc<Target>, Error>) -> Self {
        Self {
            core: Arc::clone(core),
            watch: target.map(|target| (Watch::new(core, &target, None), target)),
            told: None,
        }
    }

    /// Waits until somebody else leads than was told last, or nobody does, and tells who. The first call tells the present state at
    /// once.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server did not answer for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)): calling again goes on from where it was.
    /// [`Error::WrongKind`] if the key is something else; [`Error::Refused`], [`Error::Name`], and [`Error::Closed`] once the
    /// keeper is closed.
    ///
    /// # Cancelling
    /// Nothing is missed: the next call tells what this one would have.
    pub async fn changed(&mut self) -> Result<Option<Leader>, Error> {
        let (watch, target) = self.watch.as_mut().map_err(|error| error.clone())?;
        loop {
            // Read before the look is sent, so that a message that overtakes its answer counts.
            let heard = watch.heard();
            let seen = look(&self.core, target).await?;
            let owner = seen.as_ref().map(|seen| seen.owner.clone());
            if self.told.as_ref() != Some(&owner) {
                self.told = Some(owner);
                return Ok(seen.map(|seen| seen.leader));
            }
            let left = seen.and_then(|seen| seen.leader.time_left);
            let left = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            watch.pause_while(heard, Busy::until(left)).await?;
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}
