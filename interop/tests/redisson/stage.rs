use std::sync::LazyLock;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_interop::redisson::{self, Times};
use lockkeeper_interop::{Peer, PeerThread};
use lockkeeper_testkit::{Process, RedisServer, wait_until};
use redis::cmd;

/// Far below any lease here, so that only a message can have been the cause; far above what a message takes.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A lease that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Fails instead of hanging.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("not after {SOON:?}: {what}"),
    }
}

/// One server and one Java process for all tests of this program, each with names of its own.
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) java: Peer,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let server = RedisServer::start();
    let java = redisson::start(&server, Times::default());
    Stage { server, java }
});

pub(crate) fn stage() -> &'static Stage {
    &STAGE
}

impl Stage {
    pub(crate) async fn keeper(&self) -> Keeper {
        Keeper::connect(&self.server.url()).await.expect("a server")
    }

    /// A Java thread that no other test uses.
    pub(crate) fn thread(&self, name: &str) -> PeerThread<'_> {
        self.java.thread(name)
    }

    /// A Java process apart, which can be killed and has a watchdog of three seconds.
    pub(crate) fn another_java(&self) -> Peer {
        redisson::start(
            &self.server,
            Times {
                watchdog: Duration::from_secs(3),
                ..Times::default()
            },
        )
    }

    /// A Rust process apart, which holds an object by a lease of two seconds until it is killed.
    pub(crate) async fn another_rust(&self, kind: &str, name: &str) -> Process {
        let arguments = ["hold", &self.server.url(), kind, name, "2000"];
        let mut process = Process::start(env!("CARGO_BIN_EXE_lockkeeper-interop-worker"), arguments).unwrap();
        process.line_starting_with("held", SOON).await.expect("a hold");
        process
    }

    /// Waits until so many processes listen on a channel, and so wait for the lock.
    pub(crate) async fn listening(&self, channel: &str, count: u64) {
        wait_until(&format!("{count} on {channel}"), SOON, async || {
            let (_, listening): (String, u64) = self.server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
            if listening == count { Ok(()) } else { Err(listening) }
        })
        .await;
    }
}
