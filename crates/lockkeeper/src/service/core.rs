use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::cleanup::Pending;
use super::executor::Executor;
use super::gate::Gate;
use super::local_queue::LocalQueue;
use super::meters::Meters;
use super::place::Place;
use super::register::Register;
use super::renewal::Renewal;
use crate::base::clock::{Clock, Moment};
use crate::base::name::Name;
use crate::base::owner::OwnerSource;
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::redis::optimistic::Updates;
use crate::engine::{Engine, Kind, Target};
use crate::error::Error;

/// What all handles of one keeper share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) owners: OwnerSource,
    pub(crate) settings: Settings,
    pub(crate) meters: Arc<Meters>,
    pub(crate) renewal: Arc<Renewal>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) executor: Executor,
    pub(super) queues: Register<LocalQueue>,
    pub(super) gates: Register<Gate>,
    closed: AtomicBool,
    /// Told when the keeper closes.
    closing: Notify,
    /// The embedded engine, if it is one: others may share it.
    pub(crate) embedded: Option<Arc<EmbeddedEngine>>,
    /// What Redis offers beside locks, if the engine is on it.
    pub(crate) optimistic: Option<Updates>,
}

/// The limits of a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long one request may take until its outcome counts as unknown.
    pub(crate) response_limit: Duration,
    /// How long a waiting call without a limit of its own puts up with an unreachable server.
    pub(crate) unreachable_after: Duration,
    pub(crate) turn: TurnBudget,
    /// How long a grant lies ready for a caller that nobody polls.
    pub(crate) claim_time: Duration,
    /// How long a fair mutex keeps the place of a waiter that is not heard of.
    pub(crate) fair_grace: Duration,
    /// How long this process leaves a contended lock to others after its turn.
    pub(crate) yield_time: Duration,
    /// The longest sleep of a waiter that can rely on its subscription.
    pub(crate) recheck: Duration,
    /// The longest sleep of a waiter that cannot.
    pub(crate) recheck_unheard: Duration,
    /// The longest sleep in the plain layout, whose peers send no signal.
    pub(crate) recheck_plain: Duration,
}

/// How long one process may keep a lock among its own callers while others may be waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnBudget {
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

impl TurnBudget {
    /// The tokens to set aside for a turn: never more than its microseconds, else tokens would outrun the time floor.
    pub(crate) fn block(&self) -> u32 {
        let microseconds = u32::try_from(self.time.as_micros()).unwrap_or(u32::MAX);
        self.count.min(microseconds).max(1)
    }
}

impl Default for TurnBudget {
    /// Short against the time for which a process gives way after its turn, so that a few processes take turns in a ring.
    fn default() -> Self {
        Self {
            count: 4_000,
            time: Duration::from_micros(1_500),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            response_limit: Duration::from_secs(2),
            unreachable_after: Duration::from_secs(10),
            turn: TurnBudget::default(),
            claim_time: Duration::from_secs(1),
            fair_grace: Duration::from_secs(5),
            yield_time: Duration::from_millis(5),
            recheck: Duration::from_secs(30),
            recheck_unheard: Duration::from_secs(1),
            recheck_plain: Duration::from_millis(100),
        }
    }
}

impl Core {
    pub(crate) fn new(engine: Arc<dyn Engine>, executor: Executor, settings: Settings) -> Arc<Self> {
        let meters = Arc::new(Meters::new());
        Arc::new(Self {
            renewal: Renewal::new(Arc::clone(&engine), Arc::clone(&meters), settings.response_limit),
            owners: OwnerSource::new(),
            settings,
            meters,
            pending: Arc::default(),
            executor,
            queues: Register::default(),
            gates: Register::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            embedded: None,
            optimistic: None,
            engine,
        })
    }

    /// The present moment, with everything settled that was due by then.
    pub(crate) fn now(&self) -> Moment {
        self.engine.settle()
    }

    pub(crate) fn clock_now(&self) -> Moment {
        let clock: &dyn Clock = &**self.engine.clock();
        Moment::of(clock)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    /// Ends when the keeper closes.
    pub(crate) async fn closes(&self) {
        let mut told = std::pin::pin!(self.closing.notified());
        told.as_mut().enable();
        if self.check_open().is_ok() {
            told.await;
        }
    }

    /// The one queue of a name in this process. It lives as long as somebody uses it.
    pub(crate) fn queue(self: &Arc<Self>, kind: Kind, name: Name) -> Arc<LocalQueue> {
        let text = Arc::clone(name.text());
        self.queues.get_or_make(kind, &text, || {
            LocalQueue::new(Arc::clone(self), Arc::new(Target::new(kind, name)))
        })
    }

    /// The one gate of a name in this process. It lives as long as somebody uses it.
    pub(crate) fn gate(self: &Arc<Self>, kind: Kind, name: Name) -> Arc<Gate> {
        let text = Arc::clone(name.text());
        self.gates.get_or_make(kind, &text, || {
            Gate::new(Arc::clone(self), Arc::new(Target::new(kind, name)))
        })
    }

    pub(crate) fn all_places(&self) -> Vec<Arc<dyn Place>> {
        let queues = self.queues.all().into_iter().map(|queue| queue as Arc<dyn Place>);
        let gates = self.gates.all().into_iter().map(|gate| gate as Arc<dyn Place>);
        queues.chain(gates).collect()
    }
}
