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

/// One server and one Java process.
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) java: Peer,
}

static SHARED: LazyLock<Stage> = LazyLock::new(Stage::new);

/// For all tests of this program, each with names and Java threads of its own.
pub(crate) fn stage() -> &'static Stage {
    &SHARED
}

impl Stage {
    pub(crate) fn new() -> Self {
        let server = RedisServer::start();
        let java = redisson::start(&server, Times::default());
        Self { server, java }
    }

    pub(crate) async fn keeper(&self) -> Keeper {
        Keeper::connect(&self.server.url()).await.expect("a server")
    }

    /// A Java thread that no other test uses.
    pub(crate) fn thread(&self, name: &str) -> PeerThread<'_> {
        self.java.thread(name)
    }

    /// A Java process apart, which can be killed, and whose two times are three seconds.
    pub(crate) fn another_java(&self) -> Peer {
        let times = Times {
            watchdog: Duration::from_secs(3),
            fair_wait: Duration::from_secs(3),
        };
        redisson::start(&self.server, times)
    }

    /// A Rust process apart, which holds objects by leases of two seconds until it is killed.
    pub(crate) async fn another_rust(&self, objects: &[String]) -> Process {
        let mut process = self.start_rust(objects);
        process.line_starting_with("held", SOON).await.expect("a hold");
        process
    }

    /// As [`another_rust`](Self::another_rust), for a process that has to wait first.
    pub(crate) fn start_rust(&self, objects: &[String]) -> Process {
        let mut arguments = vec!["hold".to_owned(), self.server.url(), "2000".to_owned()];
        arguments.extend_from_slice(objects);
        Process::start(env!("CARGO_BIN_EXE_lockkeeper-interop-worker"), arguments).unwrap()
    }

    /// Waits until so many processes listen on a channel, and so wait for the lock.
    pub(crate) async fn listening(&self, channel: &str, count: u64) {
        wait_until(&format!("{count} on {channel}"), SOON, async || {
            let (_, listening): (String, u64) = self.server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
            if listening == count { Ok(()) } else { Err(listening) }
        })
        .await;
    }

    /// Waits until so many processes wait for an object of this kind.
    pub(crate) async fn waiting(&self, kind: &str, name: &str, count: u64) {
        match kind {
            "mutex" | "fenced" => self.listening(&key("redisson_lock__channel", name), count).await,
            "read" | "write" => self.listening(&key("redisson_rwlock", name), count).await,
            "fair" => self.in_line(name, count).await,
            "spin" => self.asking_again().await,
            other => panic!("no way to see who waits for the kind {other}"),
        }
    }

    /// Waits until the line of a fair lock is so long.
    pub(crate) async fn in_line(&self, name: &str, count: u64) {
        let queue = key("redisson_lock_queue", name);
        wait_until(&format!("{count} in {queue}"), SOON, async || {
            let waiting: u64 = self.server.query(cmd("LLEN").arg(&queue)).await;
            if waiting == count { Ok(()) } else { Err(waiting) }
        })
        .await;
    }

    /// Waits until nobody waits for it any more, so that the next one who does can be seen.
    pub(crate) async fn waiting_is_over(&self, kind: &str, name: &str) {
        if kind != "spin" {
            self.waiting(kind, name, 0).await;
        }
    }

    /// Waits until somebody has asked several times; so nobody else may be at work on this server.
    async fn asking_again(&self) {
        let before = self.server.calls("evalsha").await;
        wait_until("several attempts", SOON, async || {
            self.server.calls("evalsha").await >= before + 3
        })
        .await;
    }
}

/// Redisson's rule for the names of keys and channels beside an object.
pub(crate) fn key(prefix: &str, name: &str) -> String {
    if name.contains('{') {
        format!("{prefix}:{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}
