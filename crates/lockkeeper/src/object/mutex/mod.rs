mod guard;
mod run;

use std::sync::Arc;
use std::time::Duration;

pub use guard::MutexGuard;
pub use run::Ran;
pub(crate) use run::run_under;

use super::options::{Options, hold_options};
use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::{Kind, Layout};
use crate::error::Error;
use crate::service::core::Core;
use crate::service::turn::Origin;
use crate::service::waiting::Polling;

/// A lock by name, shared by every process that uses the same deployment and layout.
///
/// A handle is cheap to clone; its options are its own. Callers of one process stand in one line, first come first
/// served, and a hold passes from one to the next without asking the server as long as the turn budget allows.
///
/// # What it promises
/// Nobody else holds the lock until the guard's deadline, as long as the server neither loses data nor steps its clock,
/// and the deployment is one server. After the deadline somebody else may hold it: code that can be paused must send
/// the guard's [token](MutexGuard::token) along, and what it writes to must check it. On a **failover** to a replica that
/// had not heard of the grant, the lock can be granted twice.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, Lease};
/// use std::time::Duration;
///
/// let keeper = Keeper::embedded();
/// let mutex = keeper.mutex("order:1001").lease(Lease::fixed(Duration::from_secs(10))).wait(Duration::from_secs(5));
/// let guard = mutex.lock().await?;
/// assert!(mutex.try_lock().await.is_err());
/// guard.unlock().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is locked"]
pub struct Mutex {
    core: Arc<Core>,
    kind: Kind,
    options: Options,
    /// Where callers of this process meet, or why the name cannot be used: told by the first call, so that making a handle
    /// never fails.
    origin: Result<Origin, Error>,
}

impl Mutex {
    pub(crate) fn new(core: &Arc<Core>, kind: Kind, name: &str) -> Self {
        Self {
            core: Arc::clone(core),
            kind,
            options: Options {
                polling: (kind == Kind::Spin).then_some(SPINNING),
                ..Options::default()
            },
            origin: Name::new(name)
                .map(|name| origin(core, kind, name))
                .map_err(Error::from),
        }
    }

    hold_options!();

    /// Sets the layout on the server, and so with whom the lock is shared. Locks of two layouts do not know each other.
    ///
    /// Only the plain mutex has a layout beside Redisson's: of another kind the first call tells [`Error::NoSuchLayout`].
    pub fn layout(mut self, layout: Layout) -> Self {
        let kind = Kind::Mutex(layout);
        if kind == self.kind {
            return self;
        }
        self.origin = match (self.kind, self.origin) {
            (Kind::Mutex(_), Ok(known)) => Ok(origin(&self.core, kind, known.target().name.clone())),
            (other, Ok(_)) if layout != Layout::Redisson => Err(Error::NoSuchLayout { kind: other.word() }),
            (_, origin) => origin,
        };
        if matches!(self.kind, Kind::Mutex(_)) {
            self.kind = kind;
        }
        self
    }

    /// Acquires the lock, waiting for it if need be.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the [wait](Self::wait) ended while somebody else held it ([`Error::Busy`] if the wait is zero);
    /// [`Error::Unreachable`] if the server did not answer within the wait, or, with no wait set, for ten seconds
    /// ([`KeeperBuilder::unreachable_after`](crate::KeeperBuilder::unreachable_after)); [`Error::WrongKind`] if the key is something else; [`Error::Refused`]; and
    /// [`Error::Name`] or [`Error::Lease`], before anything is sent.
    ///
    /// # Cancelling
    /// Dropping the future leaves the line. A grant that comes all the same is given back in the background.
    ///
    /// # Failover
    /// Waiting goes on by looking again; see the type's promise for what a failover does to a hold.
    pub async fn lock(&self) -> Result<MutexGuard, Error> {
        let request = self.options.waiting()?;
        Ok(MutexGuard::new(self.origin()?.acquire(&request).await?))
    }

    /// Acquires the lock if it is free now: exactly one full attempt.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody else holds it; else as [`lock`](Self::lock). An unreachable server is never "busy".
    ///
    /// # Cancelling
    /// A grant that comes all the same is given back in the background.
    pub async fn try_lock(&self) -> Result<MutexGuard, Error> {
        let request = self.options.trying()?;
        Ok(MutexGuard::new(self.origin()?.acquire(&request).await?))
    }

    pub(crate) fn origin(&self) -> Result<&Origin, Error> {
        self.origin.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}

/// How a spin mutex waits: 1 ms, twice as long each time, at most 128 ms, as Redisson's does.
const SPINNING: Polling = Polling::every(Duration::from_millis(1)).growing(2.0, Duration::from_millis(128));

/// Where callers of one process meet for this name.
pub(crate) fn origin(core: &Arc<Core>, kind: Kind, name: Name) -> Origin {
    if kind.is_queued() {
        Origin::Queue(core.queue(kind, name))
    } else {
        Origin::Gate(core.gate(kind, name))
    }
}
