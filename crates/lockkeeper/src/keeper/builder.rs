use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use crate::base::clock::{Clock, SystemClock};
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::redis::cluster::ClusterEngine;
use crate::engine::redis::{RedisConfig, RedisEngine};
use crate::error::Error;
use crate::service::core::{Core, Settings, TurnBudget};
use crate::service::executor::Executor;

/// The settings of a [`Keeper`].
///
/// ```
/// use std::time::Duration;
///
/// let keeper = lockkeeper::Keeper::builder()
///     .response_limit(Duration::from_millis(500))
///     .hand_over(false)
///     .embedded();
/// # let _ = keeper;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct KeeperBuilder {
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    flush: Option<Duration>,
    password: Option<Secret>,
}

/// Keeps a secret out of every log.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl KeeperBuilder {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings::default(),
            clock: None,
            flush: None,
            password: None,
        }
    }

    /// How long one request may take until its outcome counts as unknown and it is repeated; at most, and by default, 2
    /// seconds. A request also carries this limit to the server, which refuses a copy that arrives later.
    pub const fn response_limit(mut self, limit: Duration) -> Self {
        self.settings.response_limit = limit;
        self
    }

    /// How long a waiting call that has no [wait](crate::Mutex::wait) of its own puts up with a server that does not
    /// answer; by default 10 seconds.
    pub const fn unreachable_after(mut self, limit: Duration) -> Self {
        self.settings.unreachable_after = limit;
        self
    }

    /// The longest time and the most hand-overs for which this process may keep a lock among its own callers before it
    /// gives other processes their chance; by default 1.5 ms and 4000. More is faster on a hot name, and less fair. The time is
    /// a second at most: a longer one would only keep others out.
    pub fn turn_budget(mut self, time: Duration, hand_overs: u32) -> Self {
        self.settings.turn = TurnBudget {
            count: hand_overs,
            time: time.min(Duration::from_secs(1)),
        };
        self
    }

    /// Switches local hand-over off: every unlock then frees the lock on the server.
    pub fn hand_over(mut self, on: bool) -> Self {
        self.settings.turn = if on {
            TurnBudget::default()
        } else {
            TurnBudget {
                count: 1,
                time: Duration::ZERO,
            }
        };
        self
    }

    /// The longest sleep of a waiter between two looks at the lock while its subscription works; by default 30 seconds. While it
    /// does not, a waiter looks every second.
    pub const fn recheck(mut self, longest: Duration) -> Self {
        self.settings.recheck = longest;
        self
    }

    /// How long a [fair mutex](crate::Keeper::fair_mutex) keeps the place of a waiter that is not heard of; by default 5 seconds,
    /// and at least 2. A waiter that died holds up those behind it for no longer than this.
    pub const fn fair_grace(mut self, grace: Duration) -> Self {
        self.settings.fair_grace = if grace.as_secs() < 2 {
            Duration::from_secs(2)
        } else {
            grace
        };
        self
    }

    /// The clock for deadlines, instead of the system's; for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// When the last handle of this keeper is dropped, block for up to `limit` until pending releases are sent. Without it,
    /// a lock whose guard was dropped right before the process ends may stay until its lease is over.
    pub const fn flush_on_drop(mut self, limit: Duration) -> Self {
        self.flush = Some(limit);
        self
    }

    /// The password, instead of one in the URL, which may be seen where URLs are logged.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Secret(password.into()));
        self
    }

    /// A keeper on an embedded engine; see [`Keeper::embedded`].
    #[must_use]
    pub fn embedded(self) -> Keeper {
        let engine = match self.clock {
            Some(clock) => EmbeddedEngine::on(clock),
            None => EmbeddedEngine::new(),
        };
        Keeper::on_embedded(Arc::new(engine), self.settings, self.flush)
    }

    /// Connects; see [`Keeper::connect`].
    ///
    /// # Errors
    /// Those of [`Keeper::connect`], and [`Error::Url`] for a limit that is zero or too long.
    ///
    /// # Cancelling
    /// Nothing is left behind.
    pub async fn connect(self, url: &str) -> Result<Keeper, Error> {
        if url.starts_with("redis+cluster://") || url.starts_with("rediss+cluster://") {
            return self.connect_cluster(RedisConfig::from_cluster_url(url)?).await;
        }
        self.connect_with(RedisConfig::from_url(url)?).await
    }

    /// Connects to a cluster by some of its nodes, which tell of the others. All of them are used with the same credentials
    /// and limits, those of the first.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), if none of the nodes answers.
    ///
    /// # Cancelling
    /// Nothing is left behind.
    pub async fn connect_cluster(self, nodes: Vec<RedisConfig>) -> Result<Keeper, Error> {
        let nodes = nodes.into_iter().map(|node| self.with_settings(node));
        let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
        let executor = keeper_thread()?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let engine = ClusterEngine::connect(nodes, clock, executor.handle().clone()).await?;
        let core = Core::new(engine, executor, self.settings);
        core.executor.spawn(Arc::clone(&core.renewal).drive());
        Ok(Keeper::on(core, self.flush))
    }

    /// A node's configuration with what was set here.
    fn with_settings(&self, mut config: RedisConfig) -> Result<RedisConfig, Error> {
        if let Some(Secret(password)) = &self.password {
            config = config.password(password);
        }
        Ok(config.response_limit(self.settings.response_limit)?)
    }

    /// Connects with settings that are Redis' own: heartbeat, connect limit, client name.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    ///
    /// # Cancelling
    /// Nothing is left behind.
    pub async fn connect_with(self, config: RedisConfig) -> Result<Keeper, Error> {
        let config = self.with_settings(config)?;
        self.open(config).await
    }

    /// Connects with the address and the credentials of a client of your own.
    ///
    /// # Errors
    /// Those of [`Keeper::connect`].
    #[cfg(feature = "redis-client")]
    pub async fn connect_client(self, client: &::redis::Client) -> Result<Keeper, Error> {
        let config = RedisConfig::from_client_info(client.get_connection_info().clone())?;
        self.connect_with(config).await
    }

    async fn open(self, config: RedisConfig) -> Result<Keeper, Error> {
        let executor = keeper_thread()?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let engine = RedisEngine::connect(config, clock, executor.handle().clone()).await?;
        let optimistic = engine.updates().clone();
        let mut core = Core::new(engine, executor, self.settings);
        if let Some(core) = Arc::get_mut(&mut core) {
            core.optimistic = Some(optimistic);
        }
        core.executor.spawn(Arc::clone(&core.renewal).drive());
        Ok(Keeper::on(core, self.flush))
    }
}

fn keeper_thread() -> Result<Executor, Error> {
    Executor::thread().map_err(|error| Error::Unreachable {
        doing: "starting the keeper's thread",
        detail: error.to_string(),
        effect: crate::error::Effect::None,
    })
}
