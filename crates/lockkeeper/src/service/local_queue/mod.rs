//! The local queue: callers of one process that want the same lock stand in one line, and only its head speaks to the
//! server. A hold passes from one local caller to the next without asking, as long as the turn budget allows.
//!
//! A rule in here: a [`Turn`] is never dropped while the state is locked, since its end locks the state.

mod enter;
mod job;
mod place;
mod pump;
mod refused;
mod release;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::core::Core;
use super::hold::{Grant, Hold, HoldState};
use super::request::Budget;
use super::turn::{Origin, Turn};
use super::waiter::Waiter;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::{Channel, StepError, Target};
use crate::error::Error;

/// The queue of one name.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    pub(crate) core: Arc<Core>,
    pub(crate) target: Arc<Target>,
    state: Mutex<State>,
    /// Tells the pump that there is something new to look at.
    moved: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    waiters: VecDeque<Arc<Waiter>>,
    /// Callers that only want to know the outcome of the next attempt.
    tries: Vec<Arc<Waiter>>,
    /// Whether the task that speaks to the server for the head is running. It is whenever somebody waits.
    pumping: bool,
    /// The channel, while the pump is subscribed: our own releases are heard by ourselves too.
    listening: Option<Arc<Channel>>,
    /// The count of signals when the release on its way was decided on.
    heard: u64,
    /// Somebody waited for a hold of this process since the queue was last empty: hand-over is worth tokens.
    contended: bool,
    serial: u64,
    run: Option<Run>,
    yielding: Option<Yielding>,
    /// The server's last "busy": until when it counts, and when the hold it told of ends.
    busy: Option<Busy>,
    /// The last attempt's failure, while none was answered since, and since when it has been so.
    trouble: Option<(Moment, StepError)>,
    unclaimed: Option<(Arc<Waiter>, Moment)>,
    /// The head left: what the pump waits for was its wish.
    regrouped: bool,
    /// What a lone caller's attempt tells the pump that takes over from it.
    takeover: Option<Takeover>,
    /// The last release was not answered, or refused: the lease has to end the hold.
    unconfirmed: bool,
    /// Whose wait has ended with an error: told as soon as the state is unlocked.
    told: Vec<(Arc<Waiter>, Error)>,
}

/// The locked state.
///
/// Waking a caller may run anything, even the end of its task and with it of a guard of this very queue. So whoever is to
/// be told something is told after the state is unlocked.
struct Locked<'a> {
    // The order matters: unlocked first, then told.
    state: MutexGuard<'a, State>,
    told: Told,
}

struct Told(Vec<(Arc<Waiter>, Error)>);

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.told.0 = std::mem::take(&mut self.state.told);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        for (waiter, error) in self.0.drain(..) {
            waiter.fail(error);
        }
    }
}

/// A lone caller was told that the lock is busy and went to the head of the line.
#[derive(Clone, Copy, Debug)]
enum Takeover {
    /// Subscribe before the next attempt.
    Subscribe,
    /// The caller polls: pause first.
    PauseUntil(Moment),
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// An attempt is on its way: a caller's own, or the pump's.
    Attempting {
        serial: u64,
        since: Moment,
    },
    /// This process holds the lock and a local caller has its turn.
    Held {
        hold: Arc<Hold>,
        turns: u32,
    },
    /// A release is on its way; what follows is ordered behind it.
    Releasing {
        serial: u64,
        since: Moment,
    },
}

/// Consecutive grants to this process.
#[derive(Clone, Copy, Debug)]
struct Run {
    started: Moment,
    grants: u32,
}

/// A time in which others get their chance: until each of those who heard of the release can have had its turn.
#[derive(Clone, Copy, Debug)]
struct Yielding {
    until: Moment,
    /// The count of signals at which it is over, if we hear them.
    signals: u64,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    counts_until: Moment,
    ends: Option<Moment>,
}

impl State {
    fn is_deserted(&self) -> bool {
        self.waiters.is_empty() && self.tries.is_empty()
    }

    /// Ends the wait of all tries.
    fn fail_tries(&mut self, error: impl Fn() -> Error) {
        let failed = self.tries.drain(..).map(|waiter| (waiter, error()));
        self.told.extend(failed);
    }

    /// Ends the wait of those that set no limit, when the server was silent for too long; the others wait until theirs.
    fn fail_unlimited(&mut self, error: impl Fn() -> Error) {
        let limited = |waiter: &Arc<Waiter>| matches!(waiter.request.budget, Budget::Within(_));
        let (stay, go): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(limited);
        self.waiters = stay.into();
        self.told.extend(go.into_iter().map(|waiter| (waiter, error())));
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A lost hold is nobody's business any more: the next caller goes to the server under a new owner text.
    fn dissolve_lost(&mut self, now: Moment) {
        if let Phase::Held { hold, .. } = &self.phase
            && matches!(hold.state(now), HoldState::Lost(_))
        {
            self.phase = Phase::Idle;
            self.unclaimed = None;
        }
    }

    fn count_grant(&mut self, now: Moment) {
        let run = self.run.get_or_insert(Run {
            started: now,
            grants: 0,
        });
        run.grants = run.grants.saturating_add(1);
    }

    fn yields_at(&mut self, now: Moment) -> Option<Moment> {
        let yielding = self.yielding?;
        let heard = self.listening.as_ref().map_or(0, |channel| channel.count());
        if now < yielding.until && heard < yielding.signals {
            return Some(yielding.until);
        }
        self.yielding = None;
        None
    }

    /// A release is on its way from now on.
    fn release_from(&mut self, serial: u64, now: Moment) {
        self.heard = self.listening.as_ref().map_or(0, |channel| channel.count());
        self.phase = Phase::Releasing { serial, since: now };
        self.unclaimed = None;
    }
}

impl LocalQueue {
    pub(crate) fn new(core: Arc<Core>, target: Arc<Target>) -> Arc<Self> {
        Arc::new(Self {
            core,
            target,
            state: Mutex::new(State {
                phase: Phase::Idle,
                waiters: VecDeque::new(),
                tries: Vec::new(),
                pumping: false,
                listening: None,
                heard: 0,
                contended: false,
                serial: 0,
                run: None,
                yielding: None,
                busy: None,
                trouble: None,
                unclaimed: None,
                regrouped: false,
                takeover: None,
                unconfirmed: false,
                told: Vec::new(),
            }),
            moved: Notify::new(),
        })
    }

    fn lock(&self) -> Locked<'_> {
        Locked {
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner),
            told: Told(Vec::new()),
        }
    }

    /// The state, with the present hold's loss told if its deadline has passed: that wakes too.
    fn lock_at(&self, now: Moment) -> Locked<'_> {
        loop {
            let state = self.lock();
            let Phase::Held { hold, .. } = &state.phase else {
                return state;
            };
            if !hold.is_live() || now < hold.deadline() {
                return state;
            }
            let hold = Arc::clone(hold);
            drop(state);
            hold.state(now);
        }
    }

    fn ensure_pump(self: &Arc<Self>, state: &mut State) {
        if !state.pumping {
            state.pumping = true;
            self.core.executor.spawn(pump::run(Arc::clone(self)));
        }
    }

    /// Makes a grant this process's hold.
    fn install(&self, state: &mut State, grant: Grant, now: Moment) -> Arc<Hold> {
        let hold = Arc::new(Hold::new(grant, now, Arc::clone(&self.core.meters)));
        self.core.renewal.add(&hold);
        state.phase = Phase::Held {
            hold: Arc::clone(&hold),
            turns: 0,
        };
        state.busy = None;
        state.trouble = None;
        state.unclaimed = None;
        state.unconfirmed = false;
        state.count_grant(now);
        hold
    }

    /// The next turn under the present hold.
    fn next_turn(self: &Arc<Self>, state: &mut State, now: Moment) -> Option<Arc<Turn>> {
        let Phase::Held { hold, turns } = &mut state.phase else {
            return None;
        };
        let token = Token::new(hold.first_token + u64::from(*turns));
        *turns += 1;
        Some(Turn::new(Origin::Queue(Arc::clone(self)), hold, token, now))
    }

    /// Whether the turn budget of this process lets it pass its hold on locally.
    fn may_pass_on(&self, hold: &Hold, turns: u32, now: Moment) -> bool {
        turns < hold.block && now.since(hold.turns_from) <= self.core.settings.turn.time
    }

    /// How a wait that ran out of time ended: by contention, or because the server was not there.
    fn timed_out(&self, waited: Duration, now: Moment) -> Error {
        /// A request without an answer for so long is more than a slow one.
        const SILENCE: Duration = Duration::from_millis(250);
        let state = self.lock_at(now);
        let silent_since = match &state.phase {
            Phase::Attempting { since, .. } | Phase::Releasing { since, .. } => Some(*since),
            Phase::Held { hold, .. } if hold.state(now) == HoldState::Doubtful => Some(hold.granted),
            _ => None,
        };
        if let Some((_, error)) = &state.trouble {
            return error.clone().into_error("waiting for the lock", &self.target);
        }
        match silent_since {
            Some(since) if now.since(since) >= SILENCE => Error::Unreachable {
                doing: "waiting for the lock",
                detail: format!("no answer for {:?}", now.since(since)),
                effect: crate::error::Effect::Possible,
            },
            _ => Error::TimedOut {
                name: self.target.name.to_string(),
                waited,
            },
        }
    }

    fn busy_error(&self, time_left: Option<Duration>) -> Error {
        Error::Busy {
            name: self.target.name.to_string(),
            time_left,
        }
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        self.core.queues.forget(self.target.kind, self.target.name.text());
    }
}
