use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Clock, Keeper, Layout, Mutex};
use lockkeeper_testkit::proxy::Request;

use crate::scripts::is_renewal;
use lockkeeper_testkit::{Proxy, RedisServer, boot_time_ns, wait_until};
use redis::{FromRedisValue, cmd};

/// Long enough for anything that is to happen, short enough to fail a hung test.
pub(super) const SOON: Duration = Duration::from_secs(15);

pub(super) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Fails instead of hanging.
pub(super) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}

/// A server, a network that can misbehave, and a layout.
pub(super) struct Stage {
    pub(super) server: RedisServer,
    pub(super) proxy: Proxy,
    pub(super) layout: Layout,
}

impl Stage {
    pub(super) fn new(layout: Layout) -> Self {
        Self::on(RedisServer::start(), layout)
    }

    /// Keeps an append-only file, which tells afterwards what really ran.
    pub(super) fn with_record(layout: Layout) -> Self {
        Self::on(RedisServer::builder().append_only().start(), layout)
    }

    fn on(server: RedisServer, layout: Layout) -> Self {
        let proxy = Proxy::start(server.address());
        Self { server, proxy, layout }
    }

    /// A keeper straight to the server.
    pub(super) async fn keeper(&self) -> Keeper {
        Keeper::connect(&self.server.url()).await.expect("a running server")
    }

    /// A keeper through the proxy, whose requests and connection attempts count as lost after `limit`.
    pub(super) async fn far_keeper(&self, limit: Duration) -> Keeper {
        let config = RedisConfig::from_url(&self.proxy.url()).and_then(|config| config.connect_limit(limit));
        let builder = Keeper::builder().response_limit(limit);
        builder.connect_with(config.unwrap()).await.expect("a running server")
    }

    pub(super) fn mutex(&self, keeper: &Keeper, name: &str) -> Mutex {
        keeper.mutex(name).layout(self.layout)
    }

    pub(super) async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut request = cmd(command[0]);
        for argument in &command[1..] {
            request.arg(*argument);
        }
        self.server.query(&request).await
    }

    /// Milliseconds that a key has left, as the server tells: -1 without expiry, -2 without a key.
    pub(super) async fn left(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    pub(super) async fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).await
    }

    /// Who holds a lock by the server's own record.
    pub(super) async fn holder(&self, name: &str) -> Option<String> {
        match self.layout {
            Layout::Plain => self.ask(&["GET", name]).await,
            _ => self.ask::<Vec<String>>(&["HKEYS", name]).await.into_iter().next(),
        }
    }

    /// All keys but the token records, which live on for minutes by design.
    pub(super) async fn lock_keys(&self) -> Vec<String> {
        let mut keys = self.server.keys().await;
        keys.retain(|key| !key.starts_with("lockkeeper_token:"));
        keys
    }

    /// Waits until no lock and no subscription is left.
    pub(super) async fn nothing_left(&self) {
        wait_until("an empty server", SOON, async || {
            let left = (self.lock_keys().await, self.server.pubsub_channels().await);
            if left.0.is_empty() && left.1.is_empty() {
                Ok(())
            } else {
                Err(left)
            }
        })
        .await;
    }

    /// The renewals that went through the proxy for this owner.
    pub(super) fn renewals_of(&self, owner: &str) -> Vec<Arc<Request>> {
        let mut log = self.proxy.log();
        log.retain(|request| is_renewal(request) && request.contains(owner));
        log
    }
}

/// The arguments of a script call behind its keys, split into those that are owner texts and the others.
pub(super) fn owners_and_numbers(request: &Request) -> (Vec<String>, Vec<String>) {
    let keys: usize = request.argument(1).parse().expect("a number of keys");
    let behind = 2 + keys..request.arguments.len();
    behind
        .map(|index| request.argument(index).into_owned())
        .partition(|text| text.len() > 36 && text.as_bytes()[36] == b':')
}

/// A deadline clock in the test's hand: it runs with the machine's until it is stopped, and can be put forward.
#[derive(Clone, Debug)]
pub(super) struct SteeredClock(Arc<Steering>);

#[derive(Debug)]
struct Steering {
    ahead: AtomicU64,
    /// Nanoseconds at which it stands; 0 while it runs.
    stands_at: AtomicU64,
    /// How far it gets in a million nanoseconds.
    pace: u64,
    origin: u64,
}

impl SteeredClock {
    pub(super) fn running() -> Self {
        Self::with_pace(1_000_000)
    }

    /// A clock that runs slow or fast, in millionths.
    pub(super) fn with_pace(pace: u64) -> Self {
        Self(Arc::new(Steering {
            ahead: AtomicU64::new(0),
            stands_at: AtomicU64::new(0),
            pace,
            origin: boot_time_ns(),
        }))
    }

    pub(super) fn put_forward(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap();
        if self.0.stands_at.load(Ordering::SeqCst) == 0 {
            self.0.ahead.fetch_add(by, Ordering::SeqCst);
        } else {
            self.0.stands_at.fetch_add(by, Ordering::SeqCst);
        }
    }

    pub(super) fn stop(&self) {
        let now = self.now();
        self.0
            .stands_at
            .store(u64::try_from(now.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    /// Goes on from where it stood, as the clock of a machine that was restored does.
    pub(super) fn go_on(&self) {
        let stood_at = self.0.stands_at.load(Ordering::SeqCst);
        let running = self.0.paced();
        self.0.ahead.store(stood_at.wrapping_sub(running), Ordering::SeqCst);
        self.0.stands_at.store(0, Ordering::SeqCst);
    }
}

impl Steering {
    fn paced(&self) -> u64 {
        let passed = u128::from(boot_time_ns() - self.origin);
        let paced = passed * u128::from(self.pace) / 1_000_000;
        self.origin + u64::try_from(paced).unwrap()
    }
}

impl Clock for SteeredClock {
    fn now(&self) -> Duration {
        let steering = &*self.0;
        let stands_at = steering.stands_at.load(Ordering::SeqCst);
        if stands_at != 0 {
            return Duration::from_nanos(stands_at);
        }
        Duration::from_nanos(steering.paced().wrapping_add(steering.ahead.load(Ordering::SeqCst)))
    }
}
