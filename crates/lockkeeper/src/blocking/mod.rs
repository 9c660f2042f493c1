//! The same API for threads: the same names without `.await`, and re-entry by thread.
//!
//! A thread that holds a lock may lock it again; other threads wait. Guards stay on their thread, except those made movable
//! by [`MutexGuard::into_movable`]. Calling any of this on a thread that drives async tasks is
//! [`Error::BlockingInAsync`](crate::Error::BlockingInAsync); tokio's `spawn_blocking` is the place for it.
//!
//! ```
//! use lockkeeper::blocking::Keeper;
//!
//! let keeper = Keeper::embedded();
//! let mutex = keeper.mutex("account:7");
//! let outer = mutex.lock()?;
//! let inner = mutex.lock()?; // the same thread: no waiting, no round trip
//! assert_eq!(outer.token(), inner.token());
//! # Ok::<(), lockkeeper::Error>(())
//! ```

mod counting_semaphore;
mod election;
mod guard;
mod holding;
mod keeper;
mod latch;
mod mutex;
mod parking;
mod periodic;
mod rwlock;
mod semaphore;

pub use counting_semaphore::CountingSemaphore;
pub use election::{Election, Leadership, Observation};
pub use guard::{MovableMutexGuard, MutexGuard};
pub use keeper::Keeper;
pub use latch::CountDownLatch;
pub use mutex::Mutex;
pub(crate) use parking::block_on;
pub use periodic::{Periodic, PeriodicGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Semaphore, SemaphorePermit};
