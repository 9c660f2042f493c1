//! The contenders behind one face, without any cost of its own: each measurement is compiled once for each of them.

mod bare_scripts;
mod bare_set;
mod driver;
mod lockkeeper;
mod rslock;
mod tokio;

use std::time::Duration;

pub(crate) use self::bare_scripts::BareScripts;
pub(crate) use self::bare_set::BareSet;
pub(crate) use self::driver::{connection, connection_with_messages};
pub(crate) use self::lockkeeper::Lockkeeper;
pub(crate) use self::rslock::Rslock;
pub(crate) use self::tokio::Tokio;

/// The lease of every lock that is taken: Lockkeeper's own default.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A client with its connection.
pub(crate) trait Client: Send + Sync + 'static {
    type Lock: Lock;

    fn lock_named(&self, name: &str) -> Self::Lock;
}

/// A lock by name. Anything that goes wrong ends the benchmark: a figure beside a failure means nothing.
pub(crate) trait Lock: Clone + Send + Sync + 'static {
    type Held: Send;

    fn take(&self) -> impl Future<Output = Self::Held> + Send;

    fn give_back(&self, held: Self::Held) -> impl Future<Output = ()> + Send;
}
