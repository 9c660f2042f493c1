//! The embedded engine: the specification of every step, in plain Rust, inside one process.
//!
//! [`mutex`], [`token`] and [`inspect`] say what a step does to the [`keyspace`]; the scripts of the Redis engine must
//! agree with them reply by reply. It has no thread and no timer: [`timeline`] brings what is due up to date whenever
//! somebody looks, on the clock of the runtime in which the engine was made, so that it honours tokio's paused clock.

mod answer;
mod clock;
mod election;
mod fair;
mod inspect;
mod keyspace;
mod latch;
mod mutex;
mod permits;
mod post;
mod rest;
mod rwlock;
mod semaphore;
mod timeline;
mod token;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::clock::RuntimeClock;
use self::keyspace::{Keyspace, Now};
use self::post::Post;
use self::timeline::Timeline;
use super::{
    Action, Answer, Answering, Cause, Copies, Engine, Kind, Lane, Operation, Outcome, Renew, Reply, SignalChange,
    SignalTable, Step, StepError, Subscription, Target,
};
use crate::base::clock::{Clock, Moment};

pub(crate) use self::timeline::Participant;

/// Keeps the state in this process. Several keepers may share one, as several processes share a server.
pub(crate) struct EmbeddedEngine {
    clock: Arc<dyn Clock>,
    /// The clock's reading when the engine was made, and what the server's time was then, in microseconds since 1970.
    origin: Moment,
    epoch: u64,
    state: Mutex<State>,
    timeline: Timeline,
    signals: Arc<SignalTable>,
    steps: AtomicU64,
}

struct State {
    keyspace: Keyspace,
    /// The latest moment at which anything was done; the state never goes back behind it.
    reached: Moment,
}

impl EmbeddedEngine {
    /// An empty engine, on the clock of the runtime it is called in; outside of one, on the system's.
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(RuntimeClock::new()))
    }

    /// An empty engine on a clock of the caller's.
    pub(crate) fn on(clock: Arc<dyn Clock>) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::on_since(clock, u64::try_from(epoch.as_micros()).unwrap_or(0))
    }

    /// An empty engine whose server's time is now `epoch`, in microseconds since 1970.
    fn on_since(clock: Arc<dyn Clock>, epoch: u64) -> Self {
        let origin = Moment::of(&*clock);
        Self {
            clock,
            origin,
            epoch,
            state: Mutex::new(State {
                keyspace: Keyspace::default(),
                reached: origin,
            }),
            timeline: Timeline::new(),
            signals: Arc::new(SignalTable::new(|change| {
                // There is no connection that could be slow or cut.
                if let SignalChange::First(channel) = change {
                    channel.set_live(true);
                }
            })),
            steps: AtomicU64::new(0),
        }
    }

    /// Lets a participant take part in virtual time for as long as it lives.
    pub(crate) fn enroll(&self, participant: Weak<dyn Participant>) {
        self.timeline.enroll(participant);
    }

    /// Some participant has something to do at `due`, earlier than it told before.
    pub(crate) fn expect(&self, due: Moment) {
        self.timeline.expect(due);
    }

    /// Performs a step at a due moment: for participants, while they run what is due.
    pub(crate) fn perform_at(&self, at: Moment, step: Step) -> Result<Answer, StepError> {
        self.run(step, |reached| reached.max(at))
    }

    /// Performs a step now, after everything that was due before.
    pub(crate) fn perform_now(&self, step: Step) -> Result<Answer, StepError> {
        let now = Moment::of(&*self.clock);
        if self.timeline.advance_to(now, self) {
            self.run(step, |reached| reached.max(now))
        } else {
            // Something due before is still to be run: the step belongs to the moment that has been reached.
            self.run(step, |reached| reached)
        }
    }

    fn run(&self, step: Step, moment: impl FnOnce(Moment) -> Moment) -> Result<Answer, StepError> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let at = moment(state.reached);
        state.reached = at;
        let now = Now {
            at,
            server_time: self.server_time(at),
        };
        let mut post = Post::new(&self.signals);
        let reply = take(step, &mut state.keyspace, now, &mut post);
        drop(state);
        // Waking may run anything: not under the lock.
        post.send();
        Ok(Answer {
            reply: reply?,
            sent: at,
            server_time: now.server_time,
        })
    }

    /// Moves the state on to a due moment, and tells the moment that is now reached.
    fn reach(&self, due: Moment) -> Moment {
        let mut state = self.state();
        state.reached = state.reached.max(due);
        state.reached
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_time(&self, at: Moment) -> u64 {
        let elapsed = u64::try_from(at.since(self.origin).as_micros()).unwrap_or(u64::MAX);
        self.epoch.saturating_add(elapsed)
    }
}

/// Does what the step says, by the kind of object that it is for.
fn take(step: Step, keyspace: &mut Keyspace, now: Now, post: &mut Post<'_>) -> Result<Reply, StepError> {
    Ok(match step {
        Step::Acquire(acquire) => {
            note_copy(&acquire.copies, now.at);
            Reply::Acquired(match acquire.target.kind {
                Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Periodic(_) => {
                    mutex::acquire(keyspace, now, &acquire)?
                }
                Kind::Fair => fair::acquire(keyspace, now, &acquire, post)?,
                Kind::Read | Kind::Write => rwlock::acquire(keyspace, now, &acquire)?,
                Kind::Permits => permits::acquire(keyspace, now, &acquire, post)?,
                Kind::Counter => semaphore::acquire(keyspace, now, &acquire)?,
                Kind::Election => election::acquire(keyspace, now, &acquire, post)?,
                Kind::Latch => return Err(not_held(&acquire.target)),
            })
        }
        Step::Convert { acquire, from } => {
            note_copy(&acquire.copies, now.at);
            Reply::Acquired(match acquire.target.kind {
                Kind::Read | Kind::Write => rwlock::convert(keyspace, now, &acquire, &from, post)?,
                _ => return Err(not_held(&acquire.target)),
            })
        }
        Step::Renew(entries) => {
            let mut renew = |entry: &Renew| {
                note_copy(&entry.copies, now.at);
                Ok(match entry.target.kind {
                    Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Fair | Kind::Periodic(_) => {
                        mutex::renew(keyspace, now, entry)
                    }
                    Kind::Read | Kind::Write => rwlock::renew(keyspace, now, entry),
                    Kind::Permits => permits::renew(keyspace, now, entry),
                    Kind::Election => election::renew(keyspace, now, entry),
                    Kind::Latch | Kind::Counter => return Err(not_held(&entry.target)),
                })
            };
            Reply::Renewed(entries.iter().map(&mut renew).collect())
        }
        Step::Release { target, owner } => Reply::Released(match target.kind {
            Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Periodic(_) => {
                mutex::release(keyspace, now, &target, &owner, post)?
            }
            Kind::Fair => fair::release(keyspace, now, &target, &owner, post)?,
            Kind::Read | Kind::Write => rwlock::release(keyspace, now, &target, &owner, post)?,
            Kind::Permits => permits::release(keyspace, now, &target, &owner, post)?,
            Kind::Counter => semaphore::give_back(keyspace, now, &target, &owner, post)?,
            Kind::Election => election::release(keyspace, now, &target, &owner, post)?,
            Kind::Latch => return Err(not_held(&target)),
        }),
        Step::Rest { target, owner, rest } => Reply::Released(rest::rest(keyspace, now, &target, &owner, rest, post)?),
        Step::ForceRelease { target } => Reply::ForceReleased(match target.kind {
            Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Periodic(_) => {
                mutex::force_release(keyspace, now, &target, post)?
            }
            Kind::Fair => fair::force_release(keyspace, now, &target, post)?,
            Kind::Read | Kind::Write => rwlock::force_release(keyspace, now, &target, post)?,
            Kind::Election => election::force_release(keyspace, now, &target, post)?,
            Kind::Latch | Kind::Permits | Kind::Counter => return Err(not_held(&target)),
        }),
        Step::Operate(operation) => {
            note_copy(&operation.copies, now.at);
            Reply::Operated(operate(keyspace, now, &operation, post)?)
        }
        Step::Inspect { name } => Reply::Inspected(inspect::inspect(keyspace, now, &name)),
    })
}

/// An operation, whose answer is kept if it changed something.
fn operate(
    keyspace: &mut Keyspace,
    now: Now,
    operation: &Operation,
    post: &mut Post<'_>,
) -> Result<Outcome, StepError> {
    let target = &*operation.target;
    let kept = operation.action.is_change().then(|| target.answer_key(&operation.mark));
    if let Some(key) = &kept
        && let Some(answer) = answer::known(keyspace, now, key)
    {
        return Ok(answer);
    }
    let outcome = match operation.action {
        Action::SetCount(_) | Action::CountDown | Action::Count | Action::AwaitLatch { .. } | Action::RemoveLatch => {
            latch::operate(keyspace, now, target, operation.action, post)?
        }
        Action::TrySetPermits { .. }
        | Action::SetPermits(_)
        | Action::AddPermits { .. }
        | Action::DrainPermits
        | Action::CountPermits
        | Action::RemovePermits => semaphore::operate(keyspace, now, target, operation.action, post)?,
    };
    if let Some(key) = &kept {
        answer::keep(keyspace, now, key, &outcome);
    }
    Ok(outcome)
}

/// The error for an object that is not of the kind that a step is for. The services never ask for one.
fn not_held(target: &Target) -> StepError {
    StepError::none(Cause::WrongKind(target.kind.word().to_owned()))
}

/// A copy that is answered at once: it only tells when the first one was sent.
fn note_copy(copies: &Copies, at: Moment) {
    copies.sending(at, 0).answered();
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedEngine").finish_non_exhaustive()
    }
}

impl Engine for EmbeddedEngine {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Answers at the first poll; the limit cannot be reached.
    fn perform(&self, _lane: Lane, step: Step, _limit: Duration) -> Answering<'_> {
        Box::pin(async move { self.perform_now(step) })
    }

    fn subscribe(&self, channel: &Arc<str>) -> Subscription {
        self.signals.subscribe(channel)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn settle(&self) -> Moment {
        let now = Moment::of(&*self.clock);
        if self.timeline.advance_to(now, self) {
            now
        } else {
            self.state().reached
        }
    }

    fn round_trips(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}
