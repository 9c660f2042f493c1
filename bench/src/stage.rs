//! What all measurements share: the server, and how much is to be measured.

use std::time::Duration;

use lockkeeper_testkit::{Process, RedisServer};
use tokio::runtime::{Builder, Runtime};

use crate::work::Role;

/// How long a child process may take for any one thing it is asked for.
pub(crate) const CHILD_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) quick: bool,
    rounds: Option<u16>,
}

impl Stage {
    pub(crate) fn new(server: RedisServer, quick: bool, rounds: Option<u16>) -> Self {
        Self { server, quick, rounds }
    }

    /// The number of rounds: what was asked for, else `full`, or 3 in a quick run.
    pub(crate) fn rounds(&self, full: u16) -> u16 {
        self.rounds.unwrap_or(if self.quick { full.min(3) } else { full })
    }

    /// One of two values.
    pub(crate) fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Starts this program again in another role. Dropping the process kills it.
    pub(crate) fn child(role: &Role) -> Process {
        let program = std::env::current_exe().expect("this program knows its own path");
        let mut arguments = vec!["child".to_owned()];
        arguments.extend(role.arguments());
        Process::start(program, arguments).expect("this program can be started again")
    }

    /// Starts these roles, and returns when each has said that it is ready.
    pub(crate) async fn ready_children(roles: impl IntoIterator<Item = Role>) -> Vec<Process> {
        let mut children: Vec<Process> = roles.into_iter().map(|role| Self::child(&role)).collect();
        for child in &mut children {
            child
                .line_starting_with("ready", CHILD_LIMIT)
                .await
                .expect("a child gets ready");
        }
        children
    }
}

/// The runtime that services have.
pub(crate) fn two_workers() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// The runtime that costs least.
pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made")
}
