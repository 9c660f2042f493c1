//! The engine against real servers.

mod connecting;
mod lanes;
mod late;
mod layout;
mod optimistic;
mod permissions;
mod refusals;
mod renewal;
mod rwlock;
mod scripts;
mod semaphores;
mod signals;
mod tokens;
mod unknown;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_testkit::RedisServer;
use redis::FromRedisValue;
use tokio::runtime::{Builder, Runtime};

use super::{RedisConfig, RedisEngine};
use crate::base::clock::SystemClock;
use crate::base::name::Name;
use crate::base::owner::Owner;
use crate::engine::{
    Acquire, Acquired, Answer, Copies, Engine, Inspection, Lane, Layout, Released, Renew, Renewed, Reply, Step,
    StepError, Target,
};
use crate::error::Error;

const BOTH: [Layout; 2] = [Layout::Redisson, Layout::Plain];

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The response limit, unless a test is about it.
const LIMIT: Duration = Duration::from_secs(2);

/// What a keeper has: a thread of its own.
struct Keeper(Option<Runtime>);

impl Keeper {
    fn start() -> Self {
        Self(Some(
            Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
        ))
    }

    fn handle(&self) -> &tokio::runtime::Handle {
        self.0.as_ref().unwrap().handle()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Dropping it would wait, which is not allowed in async code.
            runtime.shutdown_background();
        }
    }
}

/// A server and an engine on it.
struct Stage {
    engine: Arc<RedisEngine>,
    keeper: Keeper,
    server: RedisServer,
}

impl Stage {
    async fn new() -> Self {
        Self::on(RedisServer::start(), |config| config).await
    }

    async fn on(server: RedisServer, adjust: impl FnOnce(RedisConfig) -> RedisConfig) -> Self {
        let url = server.url();
        Self::through(server, &url, adjust).await
    }

    async fn through(server: RedisServer, url: &str, adjust: impl FnOnce(RedisConfig) -> RedisConfig) -> Self {
        let keeper = Keeper::start();
        let config = adjust(RedisConfig::from_url(url).unwrap());
        let engine = RedisEngine::connect(config, Arc::new(SystemClock), keeper.handle().clone())
            .await
            .unwrap();
        Self { engine, keeper, server }
    }

    /// Runs one command on a connection of the test's own.
    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        self.server.query(&command).await
    }

    async fn acquire(&self, acquire: &Acquire) -> Result<Acquired, StepError> {
        self.acquire_on(Lane::Foreground, acquire.clone()).await
    }

    async fn acquire_on(&self, lane: Lane, acquire: Acquire) -> Result<Acquired, StepError> {
        let answer = self.engine.perform(lane, Step::Acquire(acquire), LIMIT).await?;
        match answer.reply {
            Reply::Acquired(acquired) => Ok(acquired),
            other => panic!("{other:?}"),
        }
    }

    async fn granted(&self, acquire: &Acquire) -> (u64, u32) {
        match self.acquire(acquire).await {
            Ok(Acquired::Granted { first_token, block }) => (first_token, block),
            other => panic!("{other:?}"),
        }
    }

    /// How long somebody else would be told to wait.
    async fn busy(&self, target: &Arc<Target>) -> Option<u64> {
        match self.acquire(&asking(target, &owner())).await {
            Ok(Acquired::Busy(busy)) => busy.time_left,
            other => panic!("{other:?}"),
        }
    }

    /// The same for a caller with an owner text of its own.
    async fn busy_as(&self, target: &Arc<Target>, owner: &Owner) -> Option<u64> {
        match self.acquire(&asking(target, owner)).await {
            Ok(Acquired::Busy(busy)) => busy.time_left,
            other => panic!("{other:?}"),
        }
    }

    async fn release(&self, target: &Arc<Target>, owner: &Owner) -> Result<Released, StepError> {
        let step = Step::Release {
            target: Arc::clone(target),
            owner: owner.clone(),
        };
        match self.perform(step).await?.reply {
            Reply::Released(released) => Ok(released),
            other => panic!("{other:?}"),
        }
    }

    async fn force_release(&self, target: &Arc<Target>) -> Result<bool, StepError> {
        let step = Step::ForceRelease {
            target: Arc::clone(target),
        };
        match self.perform(step).await?.reply {
            Reply::ForceReleased(freed) => Ok(freed),
            other => panic!("{other:?}"),
        }
    }

    async fn renew(&self, entries: Vec<Renew>) -> Result<Vec<Result<Renewed, StepError>>, StepError> {
        match self.perform(Step::Renew(entries)).await?.reply {
            Reply::Renewed(renewed) => Ok(renewed),
            other => panic!("{other:?}"),
        }
    }

    async fn inspect(&self, target: &Target) -> Inspection {
        let step = Step::Inspect {
            name: target.name.clone(),
        };
        match self.perform(step).await.unwrap().reply {
            Reply::Inspected(inspection) => inspection,
            other => panic!("{other:?}"),
        }
    }

    async fn perform(&self, step: Step) -> Result<Answer, StepError> {
        self.engine.perform(Lane::Foreground, step, LIMIT).await
    }
}

fn target(layout: Layout, name: &str) -> Arc<Target> {
    Arc::new(Target::new(layout, Name::new(name).unwrap()))
}

fn owner() -> Owner {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Owner::from_text(&format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// An acquire with a lease of 30 s and a block of one token.
fn asking(target: &Arc<Target>, owner: &Owner) -> Acquire {
    Acquire {
        target: Arc::clone(target),
        owner: owner.clone(),
        lease: 30_000,
        block: 1,
        permits: 1,
        waiting: None,
        candidate: None,
        copies: Arc::new(Copies::new()),
    }
}

/// A renewal of a hold that was taken with [`asking`].
fn renewing(target: &Arc<Target>, owner: &Owner) -> Renew {
    Renew {
        target: Arc::clone(target),
        owner: owner.clone(),
        lease: 30_000,
        longest: 30_000,
        refresh_token: false,
        copies: Arc::new(Copies::new()),
    }
}

async fn connecting(url: &str, keeper: &Keeper) -> Result<Arc<RedisEngine>, Error> {
    let config = RedisConfig::from_url(url).unwrap();
    RedisEngine::connect(config, Arc::new(SystemClock), keeper.handle().clone()).await
}
