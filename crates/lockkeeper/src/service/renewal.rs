use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::hold::{Hold, HoldState};
use super::meters::Meters;
use super::waiting::GLANCE;
use crate::base::clock::Moment;
use crate::engine::embedded::{EmbeddedEngine, Participant};
use crate::engine::{Answer, Engine, Lane, Renew, Renewed, Reply, Step, StepError};
use crate::error::LossReason;

/// The most holds in one request. The engine makes as many scripts of it as it likes.
const BATCH: usize = 1_000;

/// The token record lives ten minutes: refreshing it this often keeps it alive.
const TOKEN_REFRESH: Duration = Duration::from_secs(200);

/// The renewal of all holds of one keeper: a state machine that is told the time and says what is due.
///
/// Two drivers run it: [`drive`](Self::drive) on the keeper's own thread, and the embedded engine's clock, which asks
/// before each step.
#[derive(Debug)]
pub(crate) struct Renewal {
    engine: Arc<dyn Engine>,
    meters: Arc<Meters>,
    response_limit: Duration,
    holds: Mutex<BTreeMap<(u64, u64), Arc<Hold>>>,
    serial: AtomicU64,
    /// When the driver will look next; an earlier due moment must wake it.
    looks_at: AtomicU64,
    sooner: Notify,
    /// The engine whose clock drives this service instead, if it is the embedded one.
    embedded: OnceLock<Weak<EmbeddedEngine>>,
}

impl Renewal {
    pub(crate) fn new(engine: Arc<dyn Engine>, meters: Arc<Meters>, response_limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            engine,
            meters,
            response_limit,
            holds: Mutex::default(),
            serial: AtomicU64::new(1),
            looks_at: AtomicU64::new(0),
            sooner: Notify::new(),
            embedded: OnceLock::new(),
        })
    }

    /// Takes care of a hold from now on. A fixed lease needs none.
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        if hold.terms.lease.is_renewed() {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            hold.renewal_serial.store(serial, Ordering::Release);
            self.schedule(hold, hold.granted.plus(hold.terms.renewal_period()));
        }
    }

    /// Stops taking care of a hold. A renewal that is on its way may still arrive; the server checks its owner.
    pub(crate) fn remove(&self, hold: &Hold) {
        if hold.terms.lease.is_renewed() {
            let mut holds = self.lock();
            let due = hold.renewal_due.swap(0, Ordering::AcqRel);
            holds.remove(&(due, hold.renewal_serial.load(Ordering::Acquire)));
        }
    }

    fn schedule(&self, hold: &Arc<Hold>, due: Moment) {
        let due = due.min(hold.longest_until).as_nanos().max(1);
        {
            let mut holds = self.lock();
            // Under the lock, so that a hold that was given up is never put back: giving up comes before removing.
            if !hold.is_live() {
                return;
            }
            hold.renewal_due.store(due, Ordering::Release);
            holds.insert((due, hold.renewal_serial.load(Ordering::Acquire)), Arc::clone(hold));
        }
        if let Some(engine) = self.embedded.get().and_then(Weak::upgrade) {
            engine.expect(Moment::from_nanos(due));
        } else if due < self.looks_at.load(Ordering::Acquire) {
            self.sooner.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u64, u64), Arc<Hold>>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first_due(&self) -> Option<Moment> {
        self.lock().keys().next().map(|(due, _)| Moment::from_nanos(*due))
    }

    /// Takes out what is due by `now`, and what will be within `slack`.
    fn take_due(&self, now: Moment, slack: Duration) -> Vec<Arc<Hold>> {
        let limit = now.plus(slack).as_nanos();
        let mut holds = self.lock();
        let mut due = Vec::new();
        while due.len() < BATCH {
            let Some(entry) = holds.first_entry() else { break };
            if entry.key().0 > limit {
                break;
            }
            let hold = entry.remove();
            hold.renewal_due.store(0, Ordering::Release);
            due.push(hold);
        }
        due
    }

    /// What is to be asked for the holds that are due; those that must not be renewed are sorted out.
    fn prepare(&self, due: Vec<Arc<Hold>>, now: Moment) -> (Vec<Arc<Hold>>, Vec<Renew>) {
        let mut asking = Vec::with_capacity(due.len());
        let mut entries = Vec::with_capacity(due.len());
        for hold in due {
            if matches!(hold.state(now), HoldState::Lost(_)) {
                continue;
            }
            if !hold.is_claimed() {
                // Nobody has taken this turn yet. If nobody does, it is passed on or given back.
                self.schedule(&hold, now.plus(hold.terms.renewal_period() / 8));
                continue;
            }
            let lease = hold.terms.milliseconds;
            entries.push(Renew {
                target: Arc::clone(&hold.target),
                owner: hold.owner.clone(),
                lease,
                longest: hold.longest_lease(lease),
                refresh_token: hold.token_refresh_is_due(now, TOKEN_REFRESH),
                copies: Arc::clone(&hold.copies),
            });
            asking.push(hold);
        }
        (asking, entries)
    }

    fn confirmed(&self, hold: &Arc<Hold>, renewed: Renewed, sent: Moment, now: Moment) {
        match renewed {
            Renewed::Held => {
                self.meters
                    .renewal_slack
                    .record(hold.deadline().since(now).as_secs_f64());
                hold.confirm(sent, hold.terms.trusted(), now);
                self.schedule(hold, sent.plus(hold.terms.renewal_period()));
            }
            // Taken up again if it is not exchanged after all.
            Renewed::Gone if hold.is_converting() => {}
            Renewed::Gone => {
                hold.lose(LossReason::GoneOnServer);
            }
        }
    }

    /// A renewal without an answer is tried again within the lease; the deadline decides when it is too late.
    fn unanswered(&self, hold: &Arc<Hold>, error: &StepError, now: Moment) {
        tracing::debug!(name = %hold.target.name, owner = %hold.owner, ?error, "repeating a renewal");
        let pause = (hold.terms.renewal_period() / 8).min(Duration::from_millis(500));
        let again = now.plus(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
        // At the deadline the hold is looked at once more, so that its loss is told even if nobody asks.
        self.schedule(hold, again.min(hold.deadline()));
    }

    fn apply(&self, asking: &[Arc<Hold>], answer: Result<Answer, StepError>, now: Moment) {
        match answer {
            Ok(Answer {
                reply: Reply::Renewed(replies),
                sent,
                ..
            }) => {
                for (hold, reply) in asking.iter().zip(replies) {
                    match reply {
                        Ok(renewed) => self.confirmed(hold, renewed, sent, now),
                        Err(error) => self.unanswered(hold, &error, now),
                    }
                }
            }
            Ok(answer) => tracing::error!(?answer, "a renewal got an answer of another kind"),
            Err(error) => {
                for hold in asking {
                    self.unanswered(hold, &error, now);
                }
            }
        }
    }

    /// The driver for engines with a thread of their own. Ends with its task.
    pub(crate) async fn drive(self: Arc<Self>) {
        loop {
            let next = self.first_due();
            let now = self.clock_now();
            let looks_at = next.unwrap_or(Moment::FAR);
            self.looks_at.store(looks_at.as_nanos(), Ordering::Release);
            // What was added between looking and saying so did not know that it had to wake us.
            if self.first_due() != next {
                continue;
            }
            if looks_at > now {
                let longest = if next.is_some() {
                    GLANCE
                } else {
                    Duration::from_secs(3600)
                };
                let sleep = tokio::time::sleep(looks_at.since(now).min(longest));
                tokio::select! {
                    () = sleep => {}
                    () = self.sooner.notified() => {}
                }
                continue;
            }
            self.renew_due(now).await;
        }
    }

    async fn renew_due(self: &Arc<Self>, now: Moment) {
        // Holds that were taken together are renewed together.
        let due = self.take_due(now, Duration::from_millis(20));
        let (asking, entries) = self.prepare(due, now);
        if entries.is_empty() {
            return;
        }
        let renewal = Arc::clone(self);
        // A slow batch must not delay the next one, which may be more urgent.
        drop(tokio::spawn(async move {
            let limit = asking
                .iter()
                .map(|hold| hold.deadline().since(now))
                .min()
                .unwrap_or(renewal.response_limit)
                .clamp(Duration::from_millis(5), renewal.response_limit);
            let answer = renewal
                .engine
                .perform(Lane::Background, Step::Renew(entries), limit)
                .await;
            renewal.apply(&asking, answer, renewal.clock_now());
        }));
    }

    /// Lets the embedded engine's clock drive this service.
    pub(crate) fn join(self: &Arc<Self>, engine: &Arc<EmbeddedEngine>) {
        if self.embedded.set(Arc::downgrade(engine)).is_ok() {
            let participant: Weak<Self> = Arc::downgrade(self);
            engine.enroll(participant);
        }
    }

    fn clock_now(&self) -> Moment {
        Moment::of(&**self.engine.clock())
    }
}

impl Participant for Renewal {
    fn next_due(&self) -> Option<Moment> {
        self.first_due()
    }

    fn run_due(&self, at: Moment, engine: &EmbeddedEngine) {
        let due = self.take_due(at, Duration::ZERO);
        let (asking, entries) = self.prepare(due, at);
        if !entries.is_empty() {
            self.apply(&asking, engine.perform_at(at, Step::Renew(entries)), at);
        }
    }
}
