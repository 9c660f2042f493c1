use std::time::Duration;

use super::counting_semaphore::CountingSemaphore;
use super::election::Election;
use super::latch::CountDownLatch;
use super::mutex::Mutex;
use super::parking::block_on;
use super::periodic::Periodic;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use crate::error::Error;
use crate::keeper::{CloseReport, Inspection, KeeperBuilder};

/// The client for threads; see [`lockkeeper::Keeper`](crate::Keeper).
#[derive(Clone, Debug)]
pub struct Keeper {
    inner: crate::Keeper,
}

impl Keeper {
    /// A keeper with an engine of its own inside this process; see [`lockkeeper::Keeper::embedded`](crate::Keeper::embedded).
    #[must_use]
    pub fn embedded() -> Self {
        crate::Keeper::embedded().into()
    }

    /// Connects to one server by its URL; see [`lockkeeper::Keeper::connect`](crate::Keeper::connect).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(crate::Keeper::builder(), url)
    }

    /// Connects with settings.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn connect_with(builder: KeeperBuilder, url: &str) -> Result<Self, Error> {
        super::parking::block_on_alone(builder.connect(url))?.map(Self::from)
    }

    /// The lock of this name.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.mutex(name))
    }

    /// The fenced lock of this name; see [`lockkeeper::Keeper::fenced_mutex`](crate::Keeper::fenced_mutex).
    pub fn fenced_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.fenced_mutex(name))
    }

    /// The fair lock of this name; see [`lockkeeper::Keeper::fair_mutex`](crate::Keeper::fair_mutex).
    pub fn fair_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.fair_mutex(name))
    }

    /// The spin lock of this name; see [`lockkeeper::Keeper::spin_mutex`](crate::Keeper::spin_mutex).
    pub fn spin_mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.spin_mutex(name))
    }

    /// The read-write lock of this name; see [`lockkeeper::Keeper::rwlock`](crate::Keeper::rwlock).
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.rwlock(name))
    }

    /// The semaphore of this name, whose permits are leased; see [`lockkeeper::Keeper::semaphore`](crate::Keeper::semaphore).
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.inner.semaphore(name))
    }

    /// The plain semaphore of this name; see [`lockkeeper::Keeper::counting_semaphore`](crate::Keeper::counting_semaphore).
    pub fn counting_semaphore(&self, name: impl AsRef<str>) -> CountingSemaphore {
        CountingSemaphore::new(self.inner.counting_semaphore(name))
    }

    /// The run of this name that is made at most once in a period; see
    /// [`lockkeeper::Keeper::periodic`](crate::Keeper::periodic).
    pub fn periodic(&self, name: impl AsRef<str>) -> Periodic {
        Periodic::new(self.inner.periodic(name))
    }

    /// The latch of this name; see [`lockkeeper::Keeper::latch`](crate::Keeper::latch).
    pub fn latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.inner.latch(name))
    }

    /// The election of this name; see [`lockkeeper::Keeper::election`](crate::Keeper::election).
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.election(name))
    }

    /// Asks the server what it knows of a name; see [`lockkeeper::Keeper::inspect`](crate::Keeper::inspect).
    ///
    /// # Errors
    /// Those of the async form, and [`Error::BlockingInAsync`].
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, Error> {
        block_on(&self.inner.core, self.inner.inspect(name))?
    }

    /// Frees everything that is held and waits, at most for `limit`, until that is confirmed.
    ///
    /// # Errors
    /// [`Error::BlockingInAsync`].
    pub fn close_timeout(&self, limit: Duration) -> Result<CloseReport, Error> {
        self.inner.close_timeout(limit)
    }

    /// The same keeper for async code.
    #[must_use]
    pub fn to_async(&self) -> crate::Keeper {
        self.inner.clone()
    }
}

/// The same keeper for threads. One made by [`embedded`](crate::Keeper::embedded) inside a runtime needs that runtime to
/// be driven while threads wait.
impl From<crate::Keeper> for Keeper {
    fn from(inner: crate::Keeper) -> Self {
        Self { inner }
    }
}
