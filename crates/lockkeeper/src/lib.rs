//! Distributed locks and synchronizers on Redis and Valkey.

mod base;
mod engine;
mod error;
mod service;

pub use base::clock::Clock;
pub use base::lease::Lease;
pub use base::token::Token;
pub use engine::Layout;
pub use error::{Effect, Error, LeaseError, LossReason, NameError, Refusal, UrlError};
