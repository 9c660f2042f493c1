//! The engine on a cluster: each name lives on the master that has its slot.
//!
//! [`map`] says which master that is, [`shards`] keeps an engine for each, and [`signals`] listens where a channel's slot is. A
//! step is sent on where the cluster says, a bounded number of times within its own limit.

mod map;
mod renewal;
mod shards;
mod signals;
mod slot;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use self::shards::Shards;
use self::slot::{slot_of, slot_of_step};
use super::{RedisConfig, RedisEngine};
use crate::base::clock::Clock;
use crate::engine::{Answer, Answering, Cause, Engine, Lane, SignalTable, Step, StepError, Subscription};
use crate::error::{Error, Refusal};

/// How often one step is sent on.
const REDIRECTS: u32 = 8;

/// Keeps the state on a cluster.
pub(crate) struct ClusterEngine {
    shards: Arc<Shards>,
    signals: Arc<SignalTable>,
}

impl ClusterEngine {
    /// Asks the nodes for the map of the cluster, until one answers.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`] or [`Error::Url`].
    pub(crate) async fn connect(
        seeds: Vec<RedisConfig>,
        clock: Arc<dyn Clock>,
        keeper: Handle,
    ) -> Result<Arc<Self>, Error> {
        let shards = Shards::connect(seeds, clock, keeper.clone()).await?;
        Ok(Arc::new(Self {
            signals: signals::start(&shards, &keeper),
            shards,
        }))
    }
}

/// One step on the master of its slot, and on where that one says.
async fn perform_in_slot(
    shards: &Arc<Shards>,
    slot: u16,
    lane: Lane,
    step: Step,
    until: Instant,
) -> Result<Answer, StepError> {
    let mut engine = shards.master_of(slot, until).await?;
    for _ in 0..REDIRECTS {
        let limit = until.saturating_duration_since(Instant::now());
        let error = match engine.perform(lane, step.clone(), limit).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match shards.redirect(&engine, &error)? {
            Some(elsewhere) => engine = elsewhere,
            None => return Err(error),
        }
    }
    Err(sent_on_too_often())
}

fn sent_on_too_often() -> StepError {
    StepError::none(Cause::Refused(
        Refusal::NotReady,
        format!("sent on {REDIRECTS} times from node to node"),
    ))
}

impl Engine for ClusterEngine {
    fn clock(&self) -> &Arc<dyn Clock> {
        self.shards.clock()
    }

    fn perform(&self, lane: Lane, step: Step, limit: Duration) -> Answering<'_> {
        let shards = Arc::clone(&self.shards);
        Box::pin(async move {
            let work = perform(Arc::clone(&shards), lane, step, limit);
            if Handle::try_current().is_ok() {
                return work.await;
            }
            // No runtime drives this future, so the keeper's does the work.
            let work = shards.keeper().spawn(work);
            work.await.unwrap_or_else(|_| Err(super::keeper_ended()))
        })
    }

    fn subscribe(&self, channel: &Arc<str>) -> Subscription {
        self.signals.subscribe(channel)
    }

    fn round_trips(&self) -> u64 {
        self.shards.round_trips()
    }
}

async fn perform(shards: Arc<Shards>, lane: Lane, step: Step, limit: Duration) -> Result<Answer, StepError> {
    let until = Instant::now() + limit;
    match (slot_of_step(&step), step) {
        (Some(slot), step) => perform_in_slot(&shards, slot, lane, step, until).await,
        (None, Step::Renew(entries)) => renewal::renew(&shards, lane, entries, until).await,
        (None, step) => Err(StepError::none(Cause::Refused(
            Refusal::Slot,
            format!("no slot is known for {step:?}"),
        ))),
    }
}

impl fmt::Debug for ClusterEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterEngine").finish_non_exhaustive()
    }
}
