mod guard;
mod reentry;

use std::sync::Arc;
use std::time::Duration;

pub use guard::{RwLockReadGuard, RwLockWriteGuard};
pub(crate) use reentry::{read_inside, write_inside};

use super::options::{Options, hold_options};
use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::Kind;
use crate::error::Error;
use crate::service::core::Core;
use crate::service::turn::Origin;
use crate::service::waiting::Polling;

/// A read-write lock by name, shared by every process that uses the same deployment, and with Java's `RReadWriteLock`: any
/// number of readers, or one writer.
///
/// A handle is cheap to clone; its options are its own. Each reader has a hold and a lease of its own. One that dies keeps a
/// writer out until its own lease ends, whatever the others do, and no holder ever shortens another's lease.
///
/// # Turns
/// Neither side can starve the other, as far as callers of Lockkeeper are concerned:
///
/// - While a writer waits, no new reader comes in, and [`try_read`](Self::try_read) is refused, as with tokio's `RwLock`. The
///   notice that a writer leaves on the server falls two seconds after its process was last heard of.
/// - A reader that has waited for more than a second comes in before all writers once the lock is free. If a writer was faster,
///   the other writers step back, once, for 50 ms when that one has gone, and all readers who have waited for so long come in
///   together.
///
/// So a writer waits for the readers who are in, and at most for one round of those who waited longer. A reader waits for those
/// who are in, and at most for two writers more. Java's callers know nothing of notices: they come in when they can, and
/// Lockkeeper's wait for them as Java's do for each other.
///
/// # What it promises
/// No writer beside anybody else until the guards' deadlines, on the terms of [`Mutex`](crate::Mutex). Writers have a fencing
/// token; readers have none, since they write nothing. On a **failover** to a replica that had not heard of a grant, a writer can
/// come in beside others.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::embedded();
/// let prices = keeper.rwlock("prices");
/// let (one, another) = (prices.read().await?, prices.read().await?);
/// assert!(prices.try_write().await.is_err());
/// one.unlock().await?;
/// another.unlock().await?;
///
/// let writer = prices.write().await?;
/// let fence = writer.token();
/// let reader = writer.downgrade().await?; // nobody else wrote in between
/// # let _ = fence;
/// reader.unlock().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is locked"]
pub struct RwLock {
    core: Arc<Core>,
    options: Options,
    /// Where callers of this process meet, or why the name cannot be used.
    sides: Result<Sides, Error>,
}

/// Where readers and writers of this process meet.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub(crate) reading: Origin,
    pub(crate) writing: Origin,
}

impl RwLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let sides = |name: Name| Sides {
            reading: Origin::Gate(core.gate(Kind::Read, name.clone())),
            writing: Origin::Gate(core.gate(Kind::Write, name)),
        };
        Self {
            core: Arc::clone(core),
            options: Options::default(),
            sides: Name::new(name).map(sides).map_err(Error::from),
        }
    }

    hold_options!();

    /// Comes in as a reader, waiting while a writer is in or waits.
    ///
    /// Ownership belongs to the guard: a second call in the same task is a second reader, and waits if a writer came meanwhile,
    /// for ever if that one waits for the first. In a [scope](crate::Keeper::scope) it shares the first hold instead.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the [wait](Self::wait) ended before a reader could come in ([`Error::Busy`] if the wait is zero);
    /// [`Error::Unreachable`] if the server did not answer within the wait, or, with no wait set, for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is something else, a mutex included; [`Error::Refused`]; and
    /// [`Error::Name`] or [`Error::Lease`], before anything is sent.
    ///
    /// # Cancelling
    /// Dropping the future ends the wait. A grant that comes all the same is given back in the background.
    ///
    /// # Failover
    /// Waiting goes on by looking again; see the type's promise for what a failover does to a hold.
    pub async fn read(&self) -> Result<RwLockReadGuard, Error> {
        let request = self.options.waiting()?;
        Ok(RwLockReadGuard::new(self.sides()?.reading.acquire(&request).await?))
    }

    /// Comes in as a reader if that is possible now: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if a writer is in or waits; else as [`read`](Self::read). An unreachable server is never "busy".
    ///
    /// # Cancelling
    /// A grant that comes all the same is given back in the background.
    pub async fn try_read(&self) -> Result<RwLockReadGuard, Error> {
        let request = self.options.trying()?;
        Ok(RwLockReadGuard::new(self.sides()?.reading.acquire(&request).await?))
    }

    /// Comes in as the writer, waiting for all others to go.
    ///
    /// Writers of one process stand in one line, first come first served; between processes there is no order.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    ///
    /// # Cancelling
    /// Dropping the future leaves the line, and readers who waited for this writer are let in. A grant that comes all the same is
    /// given back in the background.
    ///
    /// # Failover
    /// Waiting goes on by looking again; see the type's promise for what a failover does to a hold.
    pub async fn write(&self) -> Result<RwLockWriteGuard, Error> {
        let request = self.options.waiting()?;
        Ok(RwLockWriteGuard::new(self.sides()?.writing.acquire(&request).await?))
    }

    /// Comes in as the writer if nobody else is in: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody else is in, or if it is the turn of readers who have waited for long; else as
    /// [`write`](Self::write).
    ///
    /// # Cancelling
    /// A grant that comes all the same is given back in the background.
    pub async fn try_write(&self) -> Result<RwLockWriteGuard, Error> {
        let request = self.options.trying()?;
        Ok(RwLockWriteGuard::new(self.sides()?.writing.acquire(&request).await?))
    }

    pub(crate) fn sides(&self) -> Result<&Sides, Error> {
        self.sides.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}
