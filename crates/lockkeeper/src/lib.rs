//! Distributed locks and synchronizers on Redis and Valkey: many processes on many machines take turns.
//!
//! A lock here is the same lock that Java services hold with Redisson, or, in the plain layout, the one that services in Python,
//! Go or Node hold with `SET name value NX PX`. With no server at all, everything runs on an embedded engine inside one process.
//!
//! ```
//! use lockkeeper::{Error, Keeper};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let keeper = Keeper::embedded(); // or Keeper::connect("redis://127.0.0.1:6379").await?
//! let mutex = keeper.mutex("order:1001").wait(Duration::from_secs(5));
//!
//! let guard = mutex.lock().await?;
//! // Nobody else is here until the guard's deadline, which is renewed in the background.
//! let fence = guard.token().get(); // to be checked by what is written to
//! assert!(guard.remaining() > Duration::ZERO);
//! # let _ = fence;
//!
//! // Somebody else's attempt says what is the matter, and never calls a dead server "busy".
//! match mutex.try_lock().await {
//!     Ok(_) => unreachable!("it is held"),
//!     Err(error) => assert!(error.is_contention()),
//! }
//!
//! guard.unlock().await?; // or drop it: then it is freed in the background
//! # Ok(()) }
//! ```
//!
//! # What there is
//!
//! | object | made by | in one line |
//! |---|---|---|
//! | [`Mutex`] | [`Keeper::mutex`] | one at a time; a hold passes between local callers without asking the server |
//! | | [`Keeper::fair_mutex`] | first come, first served across all processes |
//! | | [`Keeper::fenced_mutex`] | tokens on Redisson's own key |
//! | | [`Keeper::spin_mutex`] | waits without pub/sub |
//! | [`RwLock`] | [`Keeper::rwlock`] | many readers or one writer |
//! | [`Semaphore`] | [`Keeper::semaphore`] | leased permits, back after a crash |
//! | [`CountingSemaphore`] | [`Keeper::counting_semaphore`] | Redisson's plain counter |
//! | [`CountDownLatch`] | [`Keeper::latch`] | wait until so many things have happened |
//! | [`Election`] | [`Keeper::election`] | at most one leader, with a rising term |
//! | [`Periodic`] | [`Keeper::periodic`] | at most one run in a period |
//!
//! # What it promises
//!
//! - **Nobody else holds the lock until the guard's deadline**, as long as the server neither loses data nor steps its clock,
//!   and clocks run apart by no more than a hundredth. The deadline lies before the end of the lease on the server, and is counted
//!   on a clock that goes on while the machine sleeps (on Linux).
//! - **A loss is told**, by the holder's own clock and no later than the deadline: [`MutexGuard::state`], [`MutexGuard::lost`], and
//!   [`Mutex::run`], which cancels the work.
//! - **Each guard has a [fencing token](Token)** that rises from grant to grant.
//! - **Dropping any future or guard at any point leaves nothing behind** but, at worst, a lease that runs out.
//! - **A call ends within its [wait](Mutex::wait)**, a frozen or dead server included.
//! - **Errors are never merged.** Busy, unreachable, refused and lost are different [errors](Error), and each says whether the
//!   call may have taken effect.
//!
//! # What it does not promise
//!
//! - A lock on a server is a lease. A holder that is paused past its deadline, or whose write is slow on the network, can still do
//!   harm: only a resource that [checks the token](guide::fencing) is safe against that.
//! - If the server loses the lock (a restart without persistence, an eviction, a flush, a **failover** to a replica that had not
//!   heard of the grant), it can be granted twice. A renewed hold learns of it at its next renewal.
//! - There is no order between processes, except of the [fair mutex](Keeper::fair_mutex). Inside a process a mutex is first come, first
//!   served.
//! - A keeper speaks to one server. It knows nothing of Sentinel, of a cluster, or of several independent masters.
//!
//! The server must be Redis 6.2, Valkey 7.2, or later.
//!
//! # The guide
//!
//! - [Choosing](guide::choosing): lease, wait, layout, re-entry, and what to set when.
//! - [Reading](guide::reading): many readers or one writer, and whose turn it is.
//! - [Fencing](guide::fencing): paused holders, and how to write safely.
//! - [Cancellation](guide::cancellation): dropped futures and guards, the end of the process, unknown outcomes.
//! - [Observing](guide::observing): all events and metrics, and asking the server.
//!
//! For threads without async there is [`blocking`].
//!
//! # Features
//!
//! - `tls`: `rediss://` URLs, with [verified certificates](redis::RedisConfig::from_url).
//! - `redis-client`: a keeper may take address and credentials from a `redis::Client` of your own. It is the only place where a
//!   dependency's type is in the API.

pub mod blocking;
pub mod guide;
pub mod redis;

mod base;
mod engine;
mod error;
mod keeper;
mod object;
mod service;

pub use base::clock::Clock;
pub use base::lease::Lease;
pub use base::token::Token;
pub use engine::Layout;
pub use error::{
    CandidateError, Effect, Error, LeaseError, LossReason, NameError, PermitsError, Refusal, TlsFault, UrlError,
};
pub use keeper::{CloseReport, Holder, InLine, Inspection, Keeper, KeeperBuilder};
pub use object::election::{Election, Leader, Leadership, Observation};
pub use object::hold_handle::HoldHandle;
pub use object::latch::{CountDownLatch, LatchEnd};
pub use object::mutex::{Mutex, MutexGuard, Ran};
pub use object::periodic::{Periodic, PeriodicGuard};
pub use object::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use object::scope::{Scope, ScopedGuard};
pub use object::semaphore::{CountingSemaphore, Semaphore, SemaphorePermit};
pub use service::hold::HoldState;
pub use service::release::Unlocked;
pub use service::waiting::Polling;
