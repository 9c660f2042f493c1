use std::time::{Duration, Instant};

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Error, Keeper, KeeperBuilder, Layout, Mutex, MutexGuard, Unlocked};
use lockkeeper_testkit::proxy::Request;

use crate::scripts::{is_acquire, is_release, is_renewal};
use lockkeeper_testkit::{Matcher, Proxy, RedisServer, real_time, wait_until};
use redis::{Cmd, FromRedisValue, cmd};
use tokio::task::JoinHandle;

/// Long enough for anything that is to happen, short enough to fail a hung test.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// A server, a proxy in front of it, and the layout in which a case runs.
pub(super) struct Bed {
    pub(super) server: RedisServer,
    pub(super) proxy: Proxy,
    pub(super) layout: Layout,
}

impl Bed {
    pub(super) fn new(layout: Layout) -> Self {
        Self::on(RedisServer::start(), layout)
    }

    /// With an append-only file, which tells afterwards what was really written.
    pub(super) fn recorded(layout: Layout) -> Self {
        // With a sync under way in the background, any other policy puts writes to the file off.
        let builder = RedisServer::builder().append_only().config("appendfsync", "no");
        Self::on(builder.start(), layout)
    }

    pub(super) fn on(server: RedisServer, layout: Layout) -> Self {
        let proxy = Proxy::start(server.address());
        Self { server, proxy, layout }
    }

    /// A process that reaches the server through the proxy. All of its connections and scripts are ready, so that a
    /// rule meets the request that it is meant for.
    pub(super) async fn behind_proxy(&self) -> Keeper {
        self.behind_proxy_with(Keeper::builder()).await
    }

    pub(super) async fn behind_proxy_with(&self, builder: KeeperBuilder) -> Keeper {
        let keeper = builder.connect(&self.proxy.url()).await.expect("a running server");
        self.warm(&keeper).await;
        keeper
    }

    /// As [`behind_proxy`](Self::behind_proxy), with a probe of the signal connection every `heartbeat`.
    pub(super) async fn behind_proxy_beating(&self, heartbeat: Duration) -> Keeper {
        let config = RedisConfig::from_url(&self.proxy.url()).unwrap();
        let config = config.heartbeat(heartbeat).unwrap().client_name("beating");
        let keeper = Keeper::builder().connect_with(config).await.unwrap();
        self.warm(&keeper).await;
        keeper
    }

    /// Another process, with a path of its own to the server.
    pub(super) async fn direct(&self) -> Keeper {
        let keeper = Keeper::connect(&self.server.url()).await.expect("a running server");
        self.warm(&keeper).await;
        keeper
    }

    async fn warm(&self, keeper: &Keeper) {
        let guard = self.mutex(keeper, "warm").lock().await.unwrap();
        guard.extend(Duration::from_secs(5)).await.unwrap();
        guard.unlock().await.unwrap();
    }

    pub(super) fn mutex(&self, keeper: &Keeper, name: &str) -> Mutex {
        keeper.mutex(name).layout(self.layout)
    }

    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.server.query(command).await
    }

    /// Remaining life of a key in milliseconds: -2 if there is none, -1 if it never ends.
    pub(super) async fn life(&self, key: &str) -> i64 {
        self.ask(cmd("PTTL").arg(key)).await
    }

    pub(super) async fn is_locked(&self, name: &str) -> bool {
        self.life(name).await != -2
    }

    /// Waits until `name` is free, nobody listens, and whatever is left carries an expiry.
    pub(super) async fn nothing_is_left_of(&self, name: &str) {
        wait_until("a free lock", SOON, async || !self.is_locked(name).await).await;
        self.nobody_listens().await;
        self.every_key_ends().await;
    }

    pub(super) async fn nobody_listens(&self) {
        wait_until("no channel", SOON, async || {
            let channels = self.server.pubsub_channels().await;
            if channels.is_empty() { Ok(()) } else { Err(channels) }
        })
        .await;
    }

    /// Every key carries an expiry, so that nothing outlives its purpose.
    pub(super) async fn every_key_ends(&self) {
        for key in self.server.keys().await {
            assert_ne!(self.life(&key).await, -1, "{key} never ends");
        }
    }

    /// Waits until somebody listens on the channel of `name`, which a waiter does once it was told that it is busy.
    pub(super) async fn somebody_listens(&self, name: &str) {
        wait_until("a subscription", SOON, async || {
            let channels = self.server.pubsub_channels().await;
            let found = channels.iter().any(|channel| channel.contains(name));
            if found { Ok(()) } else { Err(channels) }
        })
        .await;
    }

    /// The writes of the append-only file that name `key`, by command in capitals.
    pub(super) fn writes(&self, key: &str, command: &str) -> usize {
        let commands = self.server.append_only_commands().expect("an append-only file");
        let hits = commands.iter().filter(|words| {
            words.first().is_some_and(|word| word.eq_ignore_ascii_case(command))
                && words.get(1).is_some_and(|word| word == key)
        });
        hits.count()
    }

    /// How often a grant of `name` was written.
    pub(super) fn grants(&self, name: &str) -> usize {
        match self.layout {
            Layout::Plain => self.writes(name, "SET"),
            _ => self.writes(name, "HSET"),
        }
    }
}

/// The key with the record of the last token.
pub(super) fn token_key(name: &str) -> String {
    format!("lockkeeper_token:{{{name}}}")
}

/// Requests that take the lock `name`.
pub(super) fn acquires(name: &str) -> Matcher {
    calls(name, is_acquire)
}

/// Requests that free the lock `name`.
pub(super) fn releases(name: &str) -> Matcher {
    calls(name, is_release)
}

/// Requests that lengthen the hold on the lock `name`.
pub(super) fn renewals(name: &str) -> Matcher {
    calls(name, is_renewal)
}

fn calls(name: &str, wanted: fn(&Request) -> bool) -> Matcher {
    Matcher::scripts().containing(name).when(wanted)
}

/// How many acquires, releases and renewals of `name` the proxy has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) acquires: usize,
    pub(super) releases: usize,
    pub(super) renewals: usize,
}

pub(super) fn traffic(proxy: &Proxy, name: &str) -> Traffic {
    let log = proxy.log();
    let count = |wanted: fn(&Request) -> bool| {
        let hits = log.iter().filter(|request| request.command == "EVALSHA");
        hits.filter(|request| request.contains(name) && wanted(request)).count()
    };
    Traffic {
        acquires: count(is_acquire),
        releases: count(is_release),
        renewals: count(is_renewal),
    }
}

/// Fails instead of hanging.
pub(super) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match real_time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}

/// Locks in a task of its own, and tells when it had the lock.
pub(super) fn locking(mutex: &Mutex) -> JoinHandle<Result<(MutexGuard, Instant), Error>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.lock().await.map(|guard| (guard, Instant::now())) })
}

/// Locks and unlocks in a task of its own.
pub(super) fn taking_a_turn(mutex: &Mutex) -> JoinHandle<Result<Unlocked, Error>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.lock().await?.unlock().await })
}

/// The call ends when its budget does, whatever is broken: not before, and at most a moment later.
pub(super) async fn ends_on_time<T: std::fmt::Debug>(
    budget: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Error {
    // The machine may be busy: half a second is not the library's.
    let slack = Duration::from_millis(500);
    let started = Instant::now();
    let error = soon("the end of a wait", call).await.unwrap_err();
    let took = started.elapsed();
    assert!(took <= budget + slack, "{took:?} for a wait of {budget:?}: {error}");
    error
}

/// The server cannot be reached, and nobody says that somebody else has the lock.
pub(super) fn assert_unreachable(error: &Error) {
    assert!(error.is_unreachable() && !error.is_contention(), "{error:?}");
}
