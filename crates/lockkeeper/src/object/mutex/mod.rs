mod guard;
mod options;
mod run;

use std::sync::Arc;
use std::time::Duration;

pub use guard::MutexGuard;
pub(crate) use options::Options;
pub use run::Ran;

use crate::base::lease::Lease;
use crate::base::name::Name;
use crate::engine::Layout;
use crate::error::Error;
use crate::service::core::Core;
use crate::service::local_queue::LocalQueue;
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
    layout: Layout,
    options: Options,
    /// The name's queue, or why the name cannot be used: told by the first call, so that making a handle never fails.
    queue: Result<Arc<LocalQueue>, Error>,
}

impl Mutex {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let layout = Layout::default();
        Self {
            core: Arc::clone(core),
            layout,
            options: Options::default(),
            queue: Name::new(name)
                .map(|name| core.queue(layout, name))
                .map_err(Error::from),
        }
    }

    /// Sets the lease; by default 30 seconds, renewed every ten.
    pub const fn lease(mut self, lease: Lease) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets how long [`lock`](Self::lock) waits; by default for ever. Zero means exactly one full attempt.
    ///
    /// The time covers everything, a frozen or dead server included: the call ends on time, with an error that tells
    /// *held by somebody else* from *unreachable*.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the layout on the server, and so with whom the lock is shared. Locks of two layouts do not know each other.
    pub fn layout(mut self, layout: Layout) -> Self {
        if layout != self.layout {
            self.layout = layout;
            self.queue = self
                .queue
                .map(|queue| self.core.queue(layout, queue.target.name.clone()));
        }
        self
    }

    /// Sets the time kept back at the end of a lease, in which work that is being stopped can end before the key expires; by
    /// default a tenth of the lease, at least 20 ms and at most a second.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.options.margin = Some(margin);
        self
    }

    /// Sets the longest total time of a renewed hold, so that hung work does not keep the lock for ever; by default there is
    /// no limit.
    pub const fn longest_hold(mut self, longest: Duration) -> Self {
        self.options.longest_hold = Some(longest);
        self
    }

    /// Waits by asking again and again instead of by signals.
    pub const fn polling(mut self, polling: Polling) -> Self {
        self.options.polling = Some(polling);
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
        Ok(MutexGuard::new(self.queue()?.acquire(&request).await?))
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
        Ok(MutexGuard::new(self.queue()?.acquire(&request).await?))
    }

    pub(crate) fn queue(&self) -> Result<&Arc<LocalQueue>, Error> {
        self.queue.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}
