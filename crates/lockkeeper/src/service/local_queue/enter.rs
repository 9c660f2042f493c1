use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::{LocalQueue, Phase, Takeover, Turn};
use crate::base::clock::Moment;
use crate::engine::{Busy, Lane};
use crate::error::Error;
use crate::service::attempt::{Attempt, Outcome};
use crate::service::hold::{Hold, HoldState};
use crate::service::request::{Budget, Request, account};
use crate::service::waiter::{Wait, Waited, Waiter};

/// What a caller finds on arrival.
enum Entry {
    /// Nobody else is here: the caller makes its attempt itself, on its own connection and task.
    Alone(u64),
    /// In line behind others.
    Queued(Arc<Waiter>),
    /// The keeper was closed meanwhile.
    Closed,
    /// Held, and the caller does not wait.
    Busy(Option<Duration>),
    /// This process's own hold is in doubt, which is neither free nor busy: the server must be asked.
    InDoubt(Arc<Hold>),
}

impl LocalQueue {
    /// Gets a turn, within the request's budget.
    pub(crate) async fn acquire(self: &Arc<Self>, request: &Request) -> Result<Arc<Turn>, Error> {
        self.core.check_open()?;
        let started = self.core.now();
        let span = tracing::debug_span!("lock", name = %self.target.name);
        let mut result = self.acquire_from(request, started).instrument(span).await;
        if let Err(closed) = self.core.check_open() {
            // What was granted while the keeper closed is given back by dropping it.
            result = Err(closed);
        }
        account(&self.core, &self.target, request, started, &result);
        result
    }

    async fn acquire_from(self: &Arc<Self>, request: &Request, started: Moment) -> Result<Arc<Turn>, Error> {
        let deadline = request.deadline(&self.core, started);
        let mut now = started;
        loop {
            let waiter = match self.enter(request, now) {
                Entry::Closed => return Err(Error::Closed),
                Entry::Busy(time_left) => return Err(self.busy_error(time_left)),
                Entry::InDoubt(hold) => return self.attempt_in_doubt(request, &hold, started).await,
                Entry::Alone(serial) => match self.attempt_alone(request, serial, deadline).await? {
                    Alone::Granted(turn) => return Ok(turn),
                    Alone::Queued(waiter) => waiter,
                    Alone::Overtaken => {
                        now = self.queue_anew(request, started, deadline)?;
                        continue;
                    }
                },
                Entry::Queued(waiter) => waiter,
            };
            match Wait::new(&**self, waiter, deadline).await {
                // It lay in the slot until its lease was over, as nobody polled.
                Waited::Granted(turn) if matches!(turn.state(), HoldState::Lost(_)) => {
                    drop(turn);
                    now = self.queue_anew(request, started, deadline)?;
                }
                Waited::Granted(turn) => return Ok(turn),
                Waited::Failed(error) => return Err(error),
                Waited::Evicted => now = self.queue_anew(request, started, deadline)?,
                Waited::TimedOut => return Err(self.out_of_time(request, started, self.core.now())),
            }
        }
    }

    /// The moment from which the caller goes on, if its budget allows that.
    fn queue_anew(&self, request: &Request, started: Moment, deadline: Option<Moment>) -> Result<Moment, Error> {
        self.core.check_open()?;
        let now = self.core.now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(self.out_of_time(request, started, now));
        }
        Ok(now)
    }

    fn out_of_time(&self, request: &Request, started: Moment, now: Moment) -> Error {
        match self.timed_out(now.since(started), now) {
            Error::TimedOut { .. } if request.budget == Budget::Try => self.busy_error(None),
            error => error,
        }
    }

    fn enter(self: &Arc<Self>, request: &Request, now: Moment) -> Entry {
        let is_try = request.budget == Budget::Try;
        let mut guard = self.lock_at(now);
        if self.core.check_open().is_err() {
            // Those in line were dismissed before; nobody would tell this one.
            return Entry::Closed;
        }
        let state = &mut *guard;
        state.dissolve_lost(now);
        if state.is_deserted() && !state.pumping {
            // What earlier callers went through is over.
            state.trouble = None;
        }
        let free_to_go = state.yields_at(now).is_none();
        match &state.phase {
            Phase::Held { hold, .. } if is_try => {
                return match hold.state(now) {
                    HoldState::Held => Entry::Busy(Some(hold.deadline().since(now))),
                    _ => Entry::InDoubt(Arc::clone(hold)),
                };
            }
            Phase::Idle if state.is_deserted() && !state.pumping && free_to_go => {
                let serial = state.next_serial();
                state.phase = Phase::Attempting { serial, since: now };
                return Entry::Alone(serial);
            }
            Phase::Idle if is_try => {
                if let Some(busy) = state.busy.filter(|busy| now < busy.counts_until) {
                    return Entry::Busy(busy.ends.map(|ends| ends.since(now)));
                }
            }
            Phase::Held { .. } | Phase::Releasing { .. } => state.contended = true,
            _ => {}
        }
        let waiter = Waiter::new(request.clone(), 0);
        if is_try {
            state.tries.push(Arc::clone(&waiter));
        } else {
            state.waiters.push_back(Arc::clone(&waiter));
        }
        self.ensure_pump(state);
        drop(guard);
        if is_try {
            // The pump may be asleep until a signal; a try wants its attempt now.
            self.moved.notify_one();
        }
        Entry::Queued(waiter)
    }

    /// The attempt of a caller that found the queue empty, made in its own task.
    async fn attempt_alone(
        self: &Arc<Self>,
        request: &Request,
        serial: u64,
        deadline: Option<Moment>,
    ) -> Result<Alone, Error> {
        let attempt = Attempt::new(&self.core, &self.target, request, 1);
        let window = self.core.clock_now().plus(request.attempt_window(&self.core));
        let until = deadline.map_or(window, |deadline| deadline.min(window));
        let alone = Lone {
            queue: self,
            serial,
            attempt: Some(attempt),
        };
        let outcome = match &alone.attempt {
            Some(attempt) => attempt.run(&self.core, Lane::Foreground, until).await,
            None => return Ok(Alone::Overtaken),
        };
        alone.conclude(request, outcome)
    }

    /// A try while this process's hold is in doubt: the server decides.
    async fn attempt_in_doubt(
        self: &Arc<Self>,
        request: &Request,
        doubtful: &Arc<Hold>,
        started: Moment,
    ) -> Result<Arc<Turn>, Error> {
        let attempt = Attempt::new(&self.core, &self.target, request, 1);
        let until = started.plus(self.core.settings.response_limit);
        let mut stray = Stray {
            queue: self,
            attempt: Some(attempt),
        };
        let outcome = match &stray.attempt {
            Some(attempt) => attempt.run(&self.core, Lane::Foreground, until).await,
            None => return Err(self.busy_error(None)),
        };
        match outcome {
            Outcome::Busy(Busy { time_left, .. }) => {
                stray.disarm_if_answered();
                Err(self.busy_error(time_left.map(Duration::from_millis)))
            }
            Outcome::Failed(error) => {
                stray.disarm_if_answered();
                Err(error.into_error("trying the lock", &self.target))
            }
            Outcome::Granted(grant) => {
                // The server gave it to us, so the doubtful hold is gone.
                doubtful.lose(crate::error::LossReason::GoneOnServer);
                let now = self.core.now();
                let mut state = self.lock();
                state.dissolve_lost(now);
                if !matches!(state.phase, Phase::Idle) {
                    return Err(self.busy_error(None));
                }
                stray.attempt = None;
                self.install(&mut state, grant, now);
                self.next_turn(&mut state, now).ok_or_else(|| self.busy_error(None))
            }
        }
    }
}

/// How an attempt made alone ended.
pub(super) enum Alone {
    Granted(Arc<Turn>),
    /// It is busy: at the head of the line now.
    Queued(Arc<Waiter>),
    /// It took so long that the pump went on without it.
    Overtaken,
}

/// An attempt of a lone caller. Dropped before its end, it gives back whatever may come of it.
struct Lone<'a> {
    queue: &'a Arc<LocalQueue>,
    serial: u64,
    attempt: Option<Attempt>,
}

impl Lone<'_> {
    fn conclude(mut self, request: &Request, outcome: Outcome) -> Result<Alone, Error> {
        let queue = self.queue;
        let now = queue.core.now();
        let mut guard = queue.lock();
        let state = &mut *guard;
        let since = match state.phase {
            Phase::Attempting { serial, since } if serial == self.serial => since,
            _ => {
                drop(guard);
                // Dropping `self` gives the text to clean-up.
                return Ok(Alone::Overtaken);
            }
        };
        match outcome {
            Outcome::Granted(grant) => {
                let hold = queue.install(state, grant, now);
                if matches!(hold.state(now), HoldState::Lost(_)) {
                    state.phase = Phase::Attempting {
                        serial: self.serial,
                        since: now,
                    };
                    drop(guard);
                    return Ok(Alone::Overtaken);
                }
                self.attempt = None;
                state.fail_tries(|| queue.busy_error(Some(hold.deadline().since(now))));
                let turn = queue.next_turn(state, now);
                let waiting = !state.is_deserted();
                drop(guard);
                if waiting {
                    // They waited for the attempt; now there is a hold to watch.
                    queue.moved.notify_one();
                }
                Ok(turn.map_or(Alone::Overtaken, Alone::Granted))
            }
            Outcome::Busy(Busy { time_left, .. }) => {
                state.phase = Phase::Idle;
                queue.note_busy(state, time_left, now);
                self.settle_text();
                if request.budget == Budget::Try {
                    if !state.waiters.is_empty() {
                        queue.moved.notify_one();
                    }
                    return Err(queue.busy_error(time_left.map(Duration::from_millis)));
                }
                let takeover = match request.polling {
                    Some(polling) => Takeover::PauseUntil(now.plus(polling.pause_after(1))),
                    None => Takeover::Subscribe,
                };
                queue.line_up(state, request, Some(takeover))
            }
            Outcome::Failed(error) => {
                state.phase = Phase::Idle;
                let patient = request.budget != Budget::Try && error.is_transient();
                if !patient {
                    state.fail_tries(|| error.clone().into_error("trying the lock", &queue.target));
                    self.abandon_or_forget(state, now);
                    drop(guard);
                    queue.moved.notify_one();
                    return Err(error.into_error("taking the lock", &queue.target));
                }
                queue.note_trouble(state, error, since);
                // The line goes on at once: with the server out of reach, a release would keep it waiting for nothing.
                self.settle_text();
                queue.line_up(state, request, None)
            }
        }
    }

    /// There is nothing to clean up, unless a copy is still on its way.
    fn settle_text(&mut self) {
        if let Some(attempt) = self.attempt.take()
            && attempt.is_open()
        {
            self.queue.close_text(&attempt, None);
        }
    }

    fn abandon_or_forget(&mut self, state: &mut super::State, now: Moment) {
        if let Some(attempt) = self.attempt.take()
            && attempt.is_open()
        {
            state.phase = Phase::Releasing {
                serial: self.serial,
                since: now,
            };
            self.queue.close_text(&attempt, Some(self.serial));
        }
    }
}

impl Drop for Lone<'_> {
    fn drop(&mut self) {
        let Some(attempt) = self.attempt.take() else { return };
        let now = self.queue.core.clock_now();
        let mut state = self.queue.lock();
        let ours = matches!(state.phase, Phase::Attempting { serial, .. } if serial == self.serial);
        if ours {
            state.phase = Phase::Releasing {
                serial: self.serial,
                since: now,
            };
        }
        drop(state);
        self.queue.close_text(&attempt, ours.then_some(self.serial));
    }
}

/// An attempt outside the line.
struct Stray<'a> {
    queue: &'a Arc<LocalQueue>,
    attempt: Option<Attempt>,
}

impl Stray<'_> {
    fn disarm_if_answered(&mut self) {
        if self.attempt.as_ref().is_some_and(|attempt| !attempt.is_open()) {
            self.attempt = None;
        }
    }
}

impl Drop for Stray<'_> {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.queue.close_text(&attempt, None);
        }
    }
}
