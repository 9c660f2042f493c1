//! Virtual time: what is due happens at its due moment and in due order, whenever somebody next looks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use super::EmbeddedEngine;
use crate::base::clock::Moment;

/// Who has something to do at certain moments: the renewal service of a keeper. The engine has no thread, so it runs
/// what is due before it does or tells anything at a later moment.
pub(crate) trait Participant: fmt::Debug + Send + Sync {
    /// The earliest moment at which there is something to do. Whenever it gets earlier, tell the engine by
    /// [`EmbeddedEngine::expect`], after this function already knows.
    fn next_due(&self) -> Option<Moment>;

    /// Does what is due at `at`, or a part of it, using [`EmbeddedEngine::perform_at`] with this moment. It is called
    /// again while [`next_due`](Self::next_due) is not later, though not for ever.
    ///
    /// It runs in whatever thread looked. Take no lock here that may be held while the engine is called.
    fn run_due(&self, at: Moment, engine: &EmbeddedEngine);
}

/// How many due moments are run through in one go. That is months of a single renewed hold; what is left is run through
/// by whoever looks next, and until then the state stays at the moment that was reached.
const MOST_ROUNDS: usize = 1_000_000;

/// How often a participant may be called at one moment before it must wait until somebody looks again.
const MOST_ROUNDS_AT_ONCE: usize = 10_000;

/// How long one thread waits for another that is running what is due. It ends long before in any sound use; the limit
/// turns a forbidden lock order into a delay.
const LONGEST_TURN: Duration = Duration::from_millis(200);

/// The participants, and the next moment at which one of them has something to do.
#[derive(Debug)]
pub(super) struct Timeline {
    participants: Mutex<Vec<Weak<dyn Participant>>>,
    /// In nanoseconds; never later than what is really due, once `expect` has returned.
    next_due: AtomicU64,
    /// How often something became due earlier.
    expectations: AtomicU64,
    running: Mutex<Option<ThreadId>>,
    finished: Condvar,
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self {
            participants: Mutex::default(),
            next_due: AtomicU64::new(u64::MAX),
            expectations: AtomicU64::new(0),
            running: Mutex::new(None),
            finished: Condvar::new(),
        }
    }

    pub(super) fn enroll(&self, participant: Weak<dyn Participant>) {
        let due = participant.upgrade().and_then(|participant| participant.next_due());
        self.participants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(participant);
        self.expect(due.unwrap_or(Moment::FAR));
    }

    pub(super) fn expect(&self, due: Moment) {
        self.expectations.fetch_add(1, Ordering::AcqRel);
        self.next_due.fetch_min(due.as_nanos(), Ordering::AcqRel);
    }

    /// Runs everything due up to `now`, and tells whether that is done: if not, it is being done further up in this very
    /// thread, or by another one that takes long.
    pub(super) fn advance_to(&self, now: Moment, engine: &EmbeddedEngine) -> bool {
        if self.next_due.load(Ordering::Acquire) > now.as_nanos() {
            return true;
        }
        let Some(turn) = self.take_turn() else { return false };
        if self.next_due.load(Ordering::Acquire) > now.as_nanos() {
            return true;
        }
        let mut participants = self.present();
        let (mut moment, mut rounds_at_once) = (None, 0);
        for _ in 0..MOST_ROUNDS {
            let due = participants
                .iter()
                .enumerate()
                .filter_map(|(index, participant)| Some((participant.next_due()?, index)))
                .min();
            let Some((due, index)) = due.filter(|(due, _)| *due <= now) else {
                break;
            };
            let at = engine.reach(due);
            participants[index].run_due(at, engine);
            rounds_at_once = if moment == Some(at) { rounds_at_once + 1 } else { 1 };
            moment = Some(at);
            let still_due = participants[index].next_due().is_some_and(|due| due <= at);
            if still_due && rounds_at_once > MOST_ROUNDS_AT_ONCE {
                // It gets nowhere: others shall not wait for it.
                participants.swap_remove(index);
            }
        }
        let next = self.note_next_due();
        drop(turn);
        next > now
    }

    fn present(&self) -> Vec<Arc<dyn Participant>> {
        let mut participants = self.participants.lock().unwrap_or_else(PoisonError::into_inner);
        participants.retain(|participant| participant.strong_count() > 0);
        participants.iter().filter_map(Weak::upgrade).collect()
    }

    fn note_next_due(&self) -> Moment {
        loop {
            let before = self.expectations.load(Ordering::Acquire);
            let due = self
                .present()
                .iter()
                .filter_map(|participant| participant.next_due())
                .min();
            let due = due.unwrap_or(Moment::FAR);
            self.next_due.store(due.as_nanos(), Ordering::Release);
            // An expectation told meanwhile may just have been overwritten: look again.
            if self.expectations.load(Ordering::Acquire) == before {
                return due;
            }
        }
    }

    /// The right to run what is due; none if this thread has it already, or if another keeps it too long.
    fn take_turn(&self) -> Option<Turn<'_>> {
        let me = std::thread::current().id();
        let running = self.lock_running();
        if *running == Some(me) {
            return None;
        }
        let (mut running, _) = self
            .finished
            .wait_timeout_while(running, LONGEST_TURN, |running| running.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return None;
        }
        *running = Some(me);
        Some(Turn { timeline: self })
    }

    fn lock_running(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Given back on every way out, a panic of a participant included.
struct Turn<'a> {
    timeline: &'a Timeline,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.timeline.lock_running() = None;
        self.timeline.finished.notify_all();
    }
}
