//! Faults in force: which, for what, how often, and whether they have struck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::journal::Request;
use super::matcher::{Matcher, Sight};
use crate::real_time;

/// How long [`Rule::fired`] waits.
const FIRE_LIMIT: Duration = Duration::from_secs(10);

/// One way through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Requests,
    Replies,
}

/// The ways that a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    Only(Way),
    Both,
}

impl Ways {
    fn include(self, way: Way) -> bool {
        match self {
            Self::Only(only) => only == way,
            Self::Both => true,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Delay { ways: Ways, by: Duration, jitter: Duration },
    Hold { ways: Ways },
    Drip { ways: Ways, bytes: usize, pause: Duration },
    BlackHole,
    SwallowReplyThenReset,
    CutAfterRequest,
    RepeatRequest,
}

impl Fault {
    fn concerns(self, way: Way, request: Option<&Request>) -> bool {
        match self {
            Self::Delay { ways, .. } | Self::Hold { ways } | Self::Drip { ways, .. } => ways.include(way),
            Self::BlackHole => true,
            Self::SwallowReplyThenReset => way == Way::Replies && request.is_some(),
            Self::CutAfterRequest | Self::RepeatRequest => way == Way::Requests && request.is_some(),
        }
    }
}

/// From which match on the rule strikes, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    pub(super) first: u64,
    pub(super) count: Option<u64>,
}

#[derive(Debug)]
pub(super) struct RuleState {
    pub(super) matcher: Matcher,
    pub(super) fault: Fault,
    pub(super) turns: Turns,
    seen: AtomicU64,
    /// Strikes begun, for those who look after they felt one.
    struck: AtomicU64,
    /// Strikes whose effect is there, for those who wait.
    fired: watch::Sender<u64>,
    over: watch::Sender<bool>,
}

impl RuleState {
    /// Counts a match; `true` if it is one to strike at.
    fn is_due(&self) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let count = self.turns.count;
        let due = seen >= self.turns.first && count.is_none_or(|count| seen - self.turns.first < count);
        if due {
            self.struck.fetch_add(1, Ordering::SeqCst);
        }
        due
    }

    pub(super) fn note_fired(&self) {
        self.fired.send_modify(|times| *times += 1);
    }

    /// Ends when the rule is taken away.
    pub(super) async fn ended(&self) {
        // The sender lives in self: this only ends by the value.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// All rules in force, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct RuleBook {
    rules: Mutex<Vec<Arc<RuleState>>>,
}

impl RuleBook {
    /// The rules among `wanted` kinds that strike at this piece of traffic. Counts it for each that matches.
    pub(super) fn due(
        &self,
        way: Way,
        sight: Sight,
        request: Option<&Request>,
        wanted: impl Fn(Fault) -> bool,
    ) -> Vec<Arc<RuleState>> {
        self.rules()
            .iter()
            .filter(|rule| wanted(rule.fault) && rule.fault.concerns(way, request))
            .filter(|rule| rule.matcher.chooses(sight, request) && rule.is_due())
            .cloned()
            .collect()
    }

    pub(super) fn add(book: &Arc<Self>, matcher: Matcher, fault: Fault, turns: Turns) -> Rule {
        let state = Arc::new(RuleState {
            matcher,
            fault,
            turns,
            seen: AtomicU64::new(0),
            struck: AtomicU64::new(0),
            fired: watch::Sender::new(0),
            over: watch::Sender::new(false),
        });
        book.rules().push(Arc::clone(&state));
        Rule {
            state,
            book: Arc::clone(book),
        }
    }

    pub(super) fn remove_all(&self) {
        for rule in self.rules().drain(..) {
            rule.over.send_replace(true);
        }
    }

    fn remove(&self, rule: &Arc<RuleState>) {
        self.rules().retain(|other| !Arc::ptr_eq(other, rule));
        rule.over.send_replace(true);
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<RuleState>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fault in force. Dropping this value does not end the fault: use [`remove`](Rule::remove), or
/// [`Proxy::clear`](super::Proxy::clear) for all.
#[derive(Debug, Clone)]
pub struct Rule {
    state: Arc<RuleState>,
    book: Arc<RuleBook>,
}

impl Rule {
    /// Waits until the fault has struck at least once: the reply is gone, the request is held, the connection is
    /// cut. Ends at once if it has already.
    ///
    /// # Panics
    ///
    /// If it has not after ten seconds of real time.
    pub async fn fired(&self) {
        self.fired_times(1, FIRE_LIMIT).await;
    }

    /// Waits until the fault has struck at least `times` times, for at most `limit` of real time.
    ///
    /// # Panics
    ///
    /// If it has not by then.
    pub async fn fired_times(&self, times: u64, limit: Duration) {
        let mut fired = self.state.fired.subscribe();
        let reached = real_time::timeout(limit, fired.wait_for(|count| *count >= times))
            .await
            .is_ok();
        assert!(
            reached,
            "waited {limit:?} for {:?} on {:?} to strike {times} times; it struck {} times, matched {}",
            self.state.fault,
            self.state.matcher,
            self.times_fired(),
            self.state.seen.load(Ordering::Relaxed),
        );
    }

    /// How often it has struck so far. Counted before the effect: whoever saw the effect sees the count.
    #[must_use]
    pub fn times_fired(&self) -> u64 {
        self.state.struck.load(Ordering::SeqCst)
    }

    /// Lets go what a hold keeps back, in order, and ends the rule. The same as [`remove`](Self::remove).
    pub fn release(&self) {
        self.remove();
    }

    /// Ends the rule. A connection in a black hole stays there; nothing else is left of it.
    pub fn remove(&self) {
        self.book.remove(&self.state);
    }
}
