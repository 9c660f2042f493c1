//! The Redis engine: one server, reached by three connections.
//!
//! [`node`] is one server; [`session`] one connection to it and [`link`] one that is made again when it is over;
//! [`lanes`] says which link a call takes. [`hold`], [`renewal`] and [`inspect`] turn steps into calls of the scripts
//! in `scripts/`. [`signals`] listens.

mod access;
mod backoff;
pub(crate) mod cluster;
mod config;
mod election;
mod fair;
mod hold;
mod inspect;
mod lanes;
mod latch;
mod link;
mod mutex;
mod node;
mod offset;
mod operation;
pub(crate) mod optimistic;
mod parameters;
mod refusal;
mod renewal;
mod reply;
mod rwlock;
mod script;
mod semaphore;
mod session;
mod signals;
#[cfg(feature = "tls")]
mod tls;
mod version;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

pub use self::config::RedisConfig;
use self::lanes::Lanes;
use self::link::Link;
use self::node::Node;
use super::{Answer, Answering, Cause, Engine, Lane, SignalTable, Step, StepError, Subscription};
use crate::base::clock::Clock;
use crate::error::Error;

/// Keeps the state on one Redis or Valkey server.
pub(crate) struct RedisEngine {
    node: Arc<Node>,
    lanes: Arc<Lanes>,
    signals: Arc<SignalTable>,
    updates: optimistic::Updates,
}

impl RedisEngine {
    /// Connects at once, so that a bad URL, a server that is down and a wrong password are told here. Connections that
    /// outlive the caller's runtime, and whatever is done with them, live on the runtime `keeper`.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Tls`], [`Error::Refused`] or [`Error::Url`].
    pub(crate) async fn connect(
        config: RedisConfig,
        clock: Arc<dyn Clock>,
        keeper: Handle,
    ) -> Result<Arc<Self>, Error> {
        let limit = config.connect_limit;
        let engine = Self::new(config, clock, keeper.clone())?;
        let link = Arc::clone(engine.lanes.background());
        // The caller may be on no runtime of tokio's; the keeper's always has a timer.
        let connecting = keeper.spawn(async move { link.session(Instant::now() + limit * 2).await });
        match connecting.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(connecting_error(error)),
            Err(_) => return Err(connecting_error(keeper_ended())),
        }
        Ok(engine)
    }

    /// Connects when something is asked for.
    fn new(config: RedisConfig, clock: Arc<dyn Clock>, keeper: Handle) -> Result<Arc<Self>, Error> {
        let node = Arc::new(Node::new(config, clock)?);
        let lanes = Arc::new(Lanes::new(&node, keeper.clone()));
        Ok(Arc::new(Self {
            signals: signals::start(&node, &keeper),
            updates: optimistic::Updates::new(&node, &keeper),
            node,
            lanes,
        }))
    }

    /// Asks something about the deployment, on the background connection.
    async fn ask(&self, command: &::redis::Cmd, until: Instant) -> Result<::redis::Value, StepError> {
        let session = self.lanes.background().session(until).await?;
        session.request(command, until).await.map_err(|failure| failure.error)
    }

    /// Optimistic updates on this server.
    pub(crate) fn updates(&self) -> &optimistic::Updates {
        &self.updates
    }
}

/// Performs one step on a link, within `limit`.
async fn perform(link: &Arc<Link>, step: Step, limit: Duration) -> Result<Answer, StepError> {
    let until = Instant::now() + limit;
    match step {
        Step::Acquire(acquire) => hold::acquire(link, &acquire, until).await,
        Step::Convert { acquire, from } => hold::convert(link, &acquire, &from, until).await,
        Step::Renew(entries) => renewal::renew(link, &entries, until).await,
        Step::Release { target, owner } => hold::release(link, &target, &owner, until).await,
        Step::Rest { target, owner, rest } => hold::rest(link, &target, &owner, rest, until).await,
        Step::ForceRelease { target } => hold::force_release(link, &target, until).await,
        Step::Operate(operation) => operation::operate(link, &operation, until).await,
        Step::Inspect { name } => inspect::inspect(link, name, until).await,
    }
}

fn connecting_error(error: StepError) -> Error {
    let effect = error.effect;
    match error.cause {
        Cause::Tls(fault, detail) => Error::Tls { fault, detail },
        Cause::Refused(refusal, detail) => Error::Refused {
            refusal,
            detail,
            effect,
        },
        Cause::Unreachable(detail) | Cause::WrongKind(detail) => Error::Unreachable {
            doing: "connecting",
            detail,
            effect,
        },
        Cause::NotHeld => Error::NotHeld,
        Cause::Late => Error::Unreachable {
            doing: "connecting",
            detail: "too slow".to_owned(),
            effect,
        },
    }
}

fn keeper_ended() -> StepError {
    StepError::possible(Cause::Unreachable("the keeper's runtime has ended".to_owned()))
}

impl Engine for RedisEngine {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.node.clock
    }

    fn perform(&self, lane: Lane, step: Step, limit: Duration) -> Answering<'_> {
        Box::pin(async move {
            if let Ok(current) = Handle::try_current() {
                let link = self.lanes.choose(lane, &current);
                return perform(&link, step, limit).await;
            }
            // No runtime drives this future, so the keeper's does the work.
            let link = Arc::clone(self.lanes.background());
            let work = self
                .lanes
                .keeper()
                .spawn(async move { perform(&link, step, limit).await });
            work.await.unwrap_or_else(|_| Err(keeper_ended()))
        })
    }

    fn subscribe(&self, channel: &Arc<str>) -> Subscription {
        self.signals.subscribe(channel)
    }

    fn round_trips(&self) -> u64 {
        self.node.round_trips()
    }
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
