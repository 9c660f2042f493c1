use std::collections::BTreeMap;
use std::time::Duration;

use super::Keeper;
use crate::base::name::Name;
use crate::base::token::Token;
use crate::engine::{self, Answer, Lane, Layout, Reply, Step, Target};
use crate::error::Error;
use crate::object::mutex::Mutex;
use crate::object::rwlock::RwLock;
use crate::service::core::Core;
use crate::service::turn::Origin;
use std::sync::Arc;

/// What the server knows of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name that was asked for.
    pub name: String,
    /// What it is: `mutex` for a lock of either layout, `fair` for one with a line beside it, `rwlock`, `permits` for a semaphore
    /// whose permits are leased, `semaphore` for a plain one, `latch`, else a word for what the key holds; `None` if there is no
    /// such key.
    ///
    /// A fair mutex for which nobody waits cannot be told from a plain one. Semaphores and latches are numbers that look alike on
    /// the server: which one it is, is known if Lockkeeper set it within the last day, or if leased permits are held. Otherwise
    /// a number is called `counter`.
    pub kind: Option<String>,
    /// The layout of a lock.
    pub layout: Option<Layout>,
    /// Who holds it; of a semaphore with leased permits, one holder for each permit, under its id.
    pub holders: Vec<Holder>,
    /// How long a name that nobody holds still stays taken; see [`Periodic`](crate::Periodic).
    pub resting: Option<Duration>,
    /// Who waits in a line on the server, head first: of a fair mutex; and which writers wait for a read-write lock, one for each
    /// process, in no order. Of other kinds the server knows no waiters.
    pub waiting: Vec<InLine>,
    /// Numbers that belong to its kind: `available` and `acquired` permits of a semaphore, the `count` of a latch.
    pub counts: BTreeMap<&'static str, i64>,
    /// What the leader of an election tells of itself.
    pub candidate: Option<String>,
    /// The last fencing token on record; of an election with a leader the present term.
    pub token: Option<Token>,
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The text that marks the hold. Whoever knows it can free the lock: keep it out of logs.
    pub owner: String,
    /// How often it is held; more than once only by a peer that counts re-entry on the server.
    pub holds: u64,
    /// When the hold ends unless it is renewed; `None` if the key carries no expiry. Zero for a reader that died and is still
    /// listed: it keeps no writer of ours out.
    pub time_left: Option<Duration>,
    /// Whether it is the writer of a read-write lock.
    pub writes: bool,
}

/// One that waits in a line on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InLine {
    /// The text that marks the waiter, and will mark its hold: keep it out of logs.
    pub owner: String,
    /// When it counts as dead unless it is heard of; `None` if that is not on record.
    pub time_left: Option<Duration>,
}

impl Inspection {
    /// Whether anybody holds it.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    fn new(name: &Name, found: engine::Inspection) -> Self {
        let holder = |holder: engine::Holder| Holder {
            owner: holder.owner,
            holds: holder.holds,
            time_left: holder.time_left.map(Duration::from_millis),
            writes: holder.writes,
        };
        let waiter = |waiter: engine::InLine| InLine {
            owner: waiter.owner,
            time_left: waiter.time_left.map(Duration::from_millis),
        };
        Self {
            name: name.as_str().to_owned(),
            kind: Some(found.kind).filter(|kind| !kind.is_empty()),
            layout: found.layout,
            holders: found.holders.into_iter().map(holder).collect(),
            resting: found.resting.map(Duration::from_millis),
            waiting: found.waiting.into_iter().map(waiter).collect(),
            counts: found.counts,
            candidate: found.candidate,
            token: found.token.map(Token::new),
        }
    }
}

impl Keeper {
    /// Asks the server what it knows of a name, of whatever kind it is. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Unreachable`], [`Error::Refused`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let guard = keeper.mutex("job").lock().await?;
    /// let found = keeper.inspect("job").await?;
    /// assert_eq!(found.holders[0].owner, guard.owner());
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, Error> {
        let name = Name::new(name.as_ref())?;
        match self
            .perform(Step::Inspect { name: name.clone() }, "inspecting", &name, "")
            .await?
        {
            Reply::Inspected(found) => Ok(Inspection::new(&name, found)),
            _ => Err(other_kind_of_answer()),
        }
    }

    async fn perform(
        &self,
        step: Step,
        doing: &'static str,
        name: &Name,
        wanted: &'static str,
    ) -> Result<Reply, Error> {
        self.core.check_open()?;
        self.core.engine.settle();
        let limit = self.core.settings.response_limit;
        match self.core.engine.perform(Lane::Foreground, step, limit).await {
            Ok(Answer { reply, .. }) => Ok(reply),
            Err(error) => Err(error.into_error_of(doing, name, wanted)),
        }
    }

    async fn force_release(&self, target: Arc<Target>) -> Result<bool, Error> {
        let (name, wanted) = (target.name.clone(), target.kind.word());
        match self
            .perform(Step::ForceRelease { target }, "freeing by force", &name, wanted)
            .await?
        {
            Reply::ForceReleased(freed) => Ok(freed),
            _ => Err(other_kind_of_answer()),
        }
    }
}

/// Frees an object whoever holds it.
pub(crate) async fn force_release(core: &Arc<Core>, target: Arc<Target>) -> Result<bool, Error> {
    let keeper = Keeper {
        core: Arc::clone(core),
        _flush: None,
    };
    keeper.force_release(target).await
}

fn other_kind_of_answer() -> Error {
    Error::OutcomeUnknown {
        detail: "an answer of another kind".to_owned(),
    }
}

impl Mutex {
    /// Frees the lock whoever holds it, and wakes who waits for it. Tells whether it was held.
    ///
    /// The holder learns of it at its next renewal, at the latest at its deadline; until then two may act at once, and only
    /// the [fencing token](Token) tells them apart. For an operator, not for a program.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the key is something else, which is left alone; [`Error::Name`], [`Error::Unreachable`],
    /// [`Error::Refused`].
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        force_unlock(self.core(), self.origin()?).await
    }
}

async fn force_unlock(core: &Arc<Core>, origin: &Origin) -> Result<bool, Error> {
    let target = Arc::clone(origin.target());
    tracing::warn!(name = %target.name, "freeing a lock by force");
    force_release(core, target).await
}

impl RwLock {
    /// Frees the lock of all its readers, whoever they are, and wakes who waits. Tells whether there were any; a writer is left
    /// alone.
    ///
    /// What [`Mutex::force_unlock`] says of holders holds here too. For an operator, not for a program.
    ///
    /// # Errors
    /// Those of [`Mutex::force_unlock`].
    pub async fn force_unlock_read(&self) -> Result<bool, Error> {
        force_unlock(self.core(), &self.sides()?.reading).await
    }

    /// Frees the lock of its writer, whoever that is, and wakes who waits. Tells whether there was one; readers are left alone.
    ///
    /// What [`Mutex::force_unlock`] says of holders holds here too. For an operator, not for a program.
    ///
    /// # Errors
    /// Those of [`Mutex::force_unlock`].
    pub async fn force_unlock_write(&self) -> Result<bool, Error> {
        force_unlock(self.core(), &self.sides()?.writing).await
    }
}
