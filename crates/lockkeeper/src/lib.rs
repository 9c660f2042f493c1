//! Distributed locks and synchronizers on Redis and Valkey.

pub mod blocking;
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
pub use error::{Effect, Error, LeaseError, LossReason, NameError, Refusal, UrlError};
pub use keeper::{CloseReport, Holder, Inspection, Keeper, KeeperBuilder};
pub use object::hold_handle::HoldHandle;
pub use object::mutex::{Mutex, MutexGuard, Ran};
pub use object::scope::{Scope, ScopedGuard};
pub use service::hold::HoldState;
pub use service::local_queue::Unlocked;
pub use service::waiting::Polling;
