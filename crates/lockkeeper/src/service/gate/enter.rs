use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::Instrument;

use super::{Entry, Gate, seek};
use crate::base::clock::Moment;
use crate::engine::{Busy, Lane};
use crate::error::Error;
use crate::service::attempt::{Attempt, Outcome};
use crate::service::hold::HoldState;
use crate::service::request::{Budget, Request, account};
use crate::service::turn::Turn;
use crate::service::waiter::{Wait, Waited, Waiter};

/// How an attempt that a caller made itself ended.
enum Alone {
    Granted(Arc<Turn>),
    /// It is busy, or the server was not there: it waits now.
    Waiting(Arc<Entry>),
    /// The grant came too late to be worth anything.
    TooLate,
}

/// Where a caller that goes on waiting stands.
enum Position {
    First,
    Last,
}

impl Gate {
    /// Gets a turn, within the request's budget.
    pub(crate) async fn acquire(self: &Arc<Self>, request: &Request) -> Result<Arc<Turn>, Error> {
        self.core.check_open()?;
        let started = self.core.now();
        let span = tracing::debug_span!("acquire", name = %self.target.name);
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
        loop {
            let attempt = Attempt::new(&self.core, &self.target, request, 1);
            let entry = if request.budget == Budget::Try {
                match self.attempt_alone(attempt, request, deadline).await? {
                    Alone::Granted(turn) => return Ok(turn),
                    Alone::Waiting(entry) => entry,
                    Alone::TooLate => return Err(self.busy_error(None)),
                }
            } else {
                let attempt = attempt.waiting_since(started);
                if self.must_line_up() {
                    self.line_up(attempt, request, Position::Last)?
                } else {
                    match self.attempt_alone(attempt, request, deadline).await? {
                        Alone::Granted(turn) => return Ok(turn),
                        Alone::Waiting(entry) => entry,
                        Alone::TooLate => {
                            self.check_time(request, started, deadline)?;
                            continue;
                        }
                    }
                }
            };
            match Wait::new(&**self, Arc::clone(&entry.waiter), deadline).await {
                // It lay in the slot until its lease was over, as nobody polled.
                Waited::Granted(turn) if matches!(turn.state(), HoldState::Lost(_)) => drop(turn),
                Waited::Granted(turn) => return Ok(turn),
                Waited::Failed(error) => return Err(error),
                Waited::Evicted => {}
                Waited::TimedOut => {
                    let now = self.core.now();
                    return Err(self.timed_out(&entry, now.since(started), now));
                }
            }
            self.check_time(request, started, deadline)?;
        }
    }

    /// Whether the caller has time left to begin anew.
    fn check_time(&self, request: &Request, started: Moment, deadline: Option<Moment>) -> Result<(), Error> {
        self.core.check_open()?;
        let now = self.core.now();
        if deadline.is_none_or(|deadline| now < deadline) {
            return Ok(());
        }
        Err(match request.budget {
            Budget::Try => self.busy_error(None),
            _ => Error::TimedOut {
                name: self.target.name.to_string(),
                waited: now.since(started),
            },
        })
    }

    fn must_line_up(&self) -> bool {
        self.target.kind.is_lined_up() && !self.lock().entries.is_empty()
    }

    /// The first attempt, made in the caller's own task.
    async fn attempt_alone(
        self: &Arc<Self>,
        attempt: Attempt,
        request: &Request,
        deadline: Option<Moment>,
    ) -> Result<Alone, Error> {
        let began = self.core.clock_now();
        let window = began.plus(request.attempt_window(&self.core));
        let until = deadline.map_or(window, |deadline| deadline.min(window));
        let mut lone = Lone::new(self, attempt);
        let Some(attempt) = &lone.attempt else {
            return Ok(Alone::TooLate);
        };
        let outcome = attempt.run(&self.core, Lane::Foreground, until).await;
        let waits = request.budget != Budget::Try;
        match outcome {
            Outcome::Granted(grant) => match self.install(grant, self.core.now()) {
                Some(turn) => {
                    lone.attempt = None;
                    Ok(Alone::Granted(turn))
                }
                None => Ok(Alone::TooLate),
            },
            Outcome::Busy(Busy { time_left, .. }) if !waits => {
                lone.settle();
                Err(self.busy_error(time_left))
            }
            Outcome::Failed(error) if !waits || !error.is_transient() => {
                lone.settle();
                Err(error.into_error("acquiring", &self.target))
            }
            Outcome::Busy(_) => lone.line_up(request),
            Outcome::Failed(error) => {
                let alone = lone.line_up(request);
                if let Ok(Alone::Waiting(entry)) = &alone {
                    entry.note_trouble(error, began);
                }
                alone
            }
        }
    }

    fn line_up(self: &Arc<Self>, attempt: Attempt, request: &Request, position: Position) -> Result<Arc<Entry>, Error> {
        let attempts = match position {
            Position::First => 1,
            Position::Last => 0,
        };
        if let Err(closed) = self.core.check_open() {
            self.settle(&attempt);
            return Err(closed);
        }
        if let Some(limit) = request.polling.and_then(|polling| polling.limit())
            && attempts >= limit
        {
            self.settle(&attempt);
            return Err(Error::AttemptsUsedUp {
                name: self.target.name.to_string(),
                attempts,
            });
        }
        let entry = Entry::new(Waiter::new(request.clone(), attempts), attempt);
        let mut state = self.lock();
        match position {
            Position::First => state.entries.push_front(Arc::clone(&entry)),
            Position::Last => state.entries.push_back(Arc::clone(&entry)),
        }
        if !self.target.kind.is_lined_up() {
            entry.served.store(true, Ordering::Release);
            state.serving += 1;
            self.core
                .executor
                .spawn(seek::for_one(Arc::clone(self), Arc::clone(&entry)));
        } else if !state.seeking {
            state.seeking = true;
            self.core.executor.spawn(seek::for_line(Arc::clone(self)));
        }
        drop(state);
        Ok(entry)
    }
}

/// A caller's own attempt. Dropped before its end, it gives back whatever may come of it.
struct Lone<'a> {
    gate: &'a Arc<Gate>,
    attempt: Option<Attempt>,
}

impl<'a> Lone<'a> {
    fn new(gate: &'a Arc<Gate>, attempt: Attempt) -> Self {
        gate.lock().attempting += 1;
        Self {
            gate,
            attempt: Some(attempt),
        }
    }

    /// It was refused: there is nothing to clean up, unless a copy is still on its way or a place is kept.
    fn settle(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.gate.settle(&attempt);
        }
    }

    fn line_up(&mut self, request: &Request) -> Result<Alone, Error> {
        match self.attempt.take() {
            Some(attempt) => {
                let entry = self.gate.line_up(attempt, request, Position::First)?;
                Ok(Alone::Waiting(entry))
            }
            None => Ok(Alone::TooLate),
        }
    }
}

impl Drop for Lone<'_> {
    fn drop(&mut self) {
        self.gate.lock().attempting -= 1;
        if let Some(attempt) = self.attempt.take() {
            self.gate.close_text(&attempt);
        }
    }
}
