mod builder;
mod closing;
mod inspection;

use std::sync::Arc;

pub use builder::KeeperBuilder;
pub use closing::CloseReport;
pub(crate) use inspection::force_release;
pub use inspection::{Holder, InLine, Inspection};

use crate::engine::embedded::EmbeddedEngine;
use crate::engine::redis::optimistic::Updates;
use crate::engine::{Kind, Layout};
use crate::error::Error;
use crate::object::election::Election;
use crate::object::latch::CountDownLatch;
use crate::object::mutex::Mutex;
use crate::object::periodic::Periodic;
use crate::object::rwlock::RwLock;
use crate::object::scope::Scope;
use crate::object::semaphore::{CountingSemaphore, Semaphore};
use crate::service::core::{Core, Settings};
use crate::service::executor::Executor;
use closing::FlushOnDrop;

/// The client: one per process and deployment, cheap to clone, the one way in.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::embedded();
/// let guard = keeper.mutex("order:1001").lock().await?;
/// // ... what must not happen twice at once ...
/// guard.unlock().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Keeper {
    pub(crate) core: Arc<Core>,
    _flush: Option<Arc<FlushOnDrop>>,
}

impl Keeper {
    /// A keeper with an engine of its own inside this process: no server, the same behaviour.
    ///
    /// It runs on the clock of the runtime in which it is made, so a test under tokio's paused clock moves its leases by
    /// hand. Such a keeper belongs to that one runtime. Outside of a runtime it uses the system's clock.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let guard = keeper.mutex("seat:12").try_lock().await?;
    /// assert!(keeper.mutex("seat:12").try_lock().await.is_err());
    /// # drop(guard); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn embedded() -> Self {
        Self::builder().embedded()
    }

    /// Connects to one server by its URL: `redis://user:password@host:port/database`, `rediss://` for TLS, or `unix:///path?db=1`;
    /// [`RedisConfig::from_url`](crate::redis::RedisConfig::from_url) has all of it.
    ///
    /// The server must be Redis 6.2, Valkey 7.2, or later. See [`KeeperBuilder`] for limits and other settings.
    ///
    /// # Errors
    /// [`Error::Url`] for a URL that cannot be used, [`Error::Unreachable`] if no server answers, [`Error::Tls`] if one of the
    /// sides does not trust the other, [`Error::Refused`] for wrong credentials or a server that is too old.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// let keeper = lockkeeper::Keeper::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Settings first.
    pub fn builder() -> KeeperBuilder {
        KeeperBuilder::new()
    }

    /// Another keeper on the same embedded engine, as a second process would be on the same server; `None` if this
    /// keeper's engine is not the embedded one. For tests of code that runs in several processes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let first = lockkeeper::Keeper::embedded();
    /// let second = first.embedded_peer().unwrap();
    /// let guard = first.mutex("seat:12").lock().await?;
    /// assert!(second.mutex("seat:12").try_lock().await.is_err());
    /// # drop(guard); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn embedded_peer(&self) -> Option<Self> {
        let engine = self.core.embedded.clone()?;
        Some(Self::on_embedded(engine, self.core.settings.clone(), None))
    }

    pub(crate) fn on_embedded(
        engine: Arc<EmbeddedEngine>,
        settings: Settings,
        flush: Option<std::time::Duration>,
    ) -> Self {
        let executor = match tokio::runtime::Handle::try_current() {
            Ok(handle) => Executor::shared(handle),
            Err(_) => Executor::thread_or_panic(),
        };
        let mut core = Core::new(Arc::<EmbeddedEngine>::clone(&engine), executor, settings);
        core.renewal.join(&engine);
        if let Some(core) = Arc::get_mut(&mut core) {
            core.embedded = Some(engine);
        }
        Self::on(core, flush)
    }

    pub(crate) fn on(core: Arc<Core>, flush: Option<std::time::Duration>) -> Self {
        let flush = flush.map(|limit| Arc::new(FlushOnDrop::new(&core, limit)));
        Self { core, _flush: flush }
    }

    /// The lock of this name. Making the handle costs nothing and asks nobody; a name that cannot be used is told by the
    /// first call on it.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(&self.core, Kind::Mutex(Layout::default()), name.as_ref())
    }

    /// The lock of this name whose fencing tokens are on Redisson's own token key: Java's fenced lock reads them, and we read
    /// Java's.
    ///
    /// Its token key never expires, so tokens rise whoever takes the lock, and however long it rested. Every grant asks the
    /// server: a hold never passes from one local caller to the next.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let guard = keeper.fenced_mutex("ledger").lock().await?;
    /// assert_eq!(keeper.inspect("ledger").await?.token, Some(guard.token()));
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn fenced_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(&self.core, Kind::Fenced, name.as_ref())
    }

    /// The lock of this name that serves callers of all processes in the order in which they came, Java's fair lock included.
    ///
    /// A waiter keeps its place however long it waits. One that died, or whose process stands still, holds up the others for
    /// one grace ([`KeeperBuilder::fair_grace`]), not for more. [`Mutex::try_lock`] overtakes nobody. Each unlock asks the
    /// server: a hold never passes from one local caller to the next.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let counter = keeper.fair_mutex("counter:3");
    /// let guard = counter.lock().await?;
    /// guard.unlock().await?;
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn fair_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(&self.core, Kind::Fair, name.as_ref())
    }

    /// The lock of this name that is waited for by asking again, with pauses that grow from 1 ms to 128 ms, a little of them at
    /// random, and without any message. [`Mutex::polling`] sets other pauses.
    ///
    /// For deployments without pub/sub, and for Java's spin lock. Who waits for a signal, as a plain mutex of the same name
    /// does, is not woken by its release.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let guard = keeper.spin_mutex("seat:12").lock().await?;
    /// assert!(keeper.spin_mutex("seat:12").try_lock().await.is_err());
    /// # drop(guard); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn spin_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(&self.core, Kind::Spin, name.as_ref())
    }

    /// The read-write lock of this name: any number of readers, or one writer.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let reader = keeper.rwlock("prices").read().await?;
    /// assert!(keeper.rwlock("prices").try_write().await.is_err());
    /// # drop(reader); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(&self.core, name.as_ref())
    }

    /// The semaphore of this name, whose permits are leased: renewed while they are held, and back after a crash.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let semaphore = keeper.semaphore("workers");
    /// assert!(semaphore.try_set_permits(1).await?);
    /// let permit = semaphore.acquire().await?;
    /// assert!(semaphore.try_acquire().await.is_err());
    /// # drop(permit); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(&self.core, name.as_ref())
    }

    /// The plain semaphore of this name, which only counts: what a process took and did not release before it died is gone.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let semaphore = keeper.counting_semaphore("slots");
    /// assert!(semaphore.try_set_permits(2).await?);
    /// semaphore.acquire(2).await?;
    /// semaphore.release(1).await?;
    /// assert_eq!(semaphore.available_permits().await?, 1);
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        CountingSemaphore::new(&self.core, name.as_ref())
    }

    /// The run of this name that is made at most once in a period, however many processes try: a scheduled job of a fleet.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    ///
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let nightly = keeper.periodic("nightly-report").at_least(Duration::from_secs(20 * 3600));
    /// assert!(nightly.run(|_| async { "written" }).await?.is_some());
    /// assert!(nightly.run(|_| async { "twice" }).await?.is_none());
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn periodic(&self, name: impl AsRef<str>) -> Periodic {
        Periodic::new(&self.core, name.as_ref())
    }

    /// The count-down latch of this name, for any number of waiters.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let latch = keeper.latch("started");
    /// assert!(latch.try_set_count(3).await?);
    /// assert_eq!(latch.count_down().await?, 2);
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(&self.core, name.as_ref())
    }

    /// The election of this name, in which at most one process leads.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let election = keeper.election("scheduler").candidate("node-7");
    /// let leadership = election.campaign().await?;
    /// assert!(keeper.election("scheduler").try_campaign().await.is_err());
    /// leadership.resign().await?;
    /// # Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(&self.core, name.as_ref())
    }

    /// Runs `work` as one logical caller: what it locks by the [`Scope`] it is given, it may lock again.
    ///
    /// Guards taken in a scope borrow it and so cannot leave it, except by [`ScopedGuard::into_owned`](crate::ScopedGuard::into_owned).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let account = keeper.mutex("account:7");
    /// keeper
    ///     .scope(async |scope| {
    ///         let outer = scope.lock(&account).await?;
    ///         let inner = scope.lock(&account).await?; // no round trip
    ///         assert_eq!(outer.token(), inner.token());
    ///         Ok::<(), lockkeeper::Error>(())
    ///     })
    ///     .await
    /// # }).unwrap();
    /// ```
    pub async fn scope<T>(&self, work: impl AsyncFnOnce(&Scope) -> T) -> T {
        work(&Scope::new()).await
    }

    /// Optimistic updates of keys on this keeper's server; `None` on the embedded engine, which keeps nothing but locks.
    #[must_use]
    pub fn optimistic(&self) -> Option<Updates> {
        self.core.optimistic.clone()
    }

    /// How many requests this keeper has sent to its server so far, or steps to its embedded engine.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.core.engine.round_trips()
    }
}
