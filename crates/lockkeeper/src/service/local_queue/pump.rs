use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::job::Job;
use super::{LocalQueue, Phase, State};
use crate::base::clock::Moment;
use crate::engine::{Busy, Lane, StepError, Subscription};
use crate::error::Error;
use crate::service::attempt::{Attempt, Outcome};
use crate::service::hold::{Grant, Hold, HoldState};
use crate::service::request::{Budget, Request};
use crate::service::waiter::Waiter;
use crate::service::waiting::{Backoff, recheck_after, sleep_until};

/// The task that speaks to the server for whoever is first in line. It runs on the keeper's own thread, so that a caller
/// that is not polled, or whose runtime has ended, never stops the line; it ends when nobody waits.
pub(super) async fn run(queue: Arc<LocalQueue>) {
    let mut pump = Pump {
        queue,
        subscription: None,
        pause: None,
        backoff: trouble_backoff(),
    };
    loop {
        match pump.next_job() {
            Job::Stop => return,
            Job::Attempt { serial, request, block } => pump.attempt(serial, &request, block).await,
            Job::Watch { hold, until } => pump.watch(hold.as_ref(), until).await,
            Job::Pause(pause) => pump.wait(pause).await,
            Job::Subscribe => pump.subscribe().await,
        }
    }
}

fn trouble_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(10), Duration::from_secs(1))
}

pub(super) struct Pump {
    pub(super) queue: Arc<LocalQueue>,
    pub(super) subscription: Option<Subscription>,
    /// What to wait for before the next attempt.
    pub(super) pause: Option<Pause>,
    backoff: Backoff,
}

#[derive(Clone, Copy)]
pub(super) struct Pause {
    pub(super) until: Moment,
    /// The count of signals that was read before the last attempt was sent; `None` where signals do not matter.
    pub(super) seen: Option<u64>,
}

/// What became of a grant.
enum GivenOut {
    Taken,
    /// Nobody wants it any more: it is to be given back, and what follows is ordered behind that.
    Unwanted,
    /// The queue went on without it.
    Overtaken,
}

impl Pump {
    /// Waits until the phase may have moved.
    async fn watch(&self, hold: Option<&Arc<Hold>>, until: Moment) {
        let core = &self.queue.core;
        if until <= core.clock_now() {
            return;
        }
        let timer = sleep_until(core, until);
        match hold {
            Some(hold) => {
                let mut changed = pin!(hold.changes().notified());
                changed.as_mut().enable();
                if !hold.is_live() {
                    return;
                }
                tokio::select! {
                    () = changed => {}
                    () = self.queue.moved.notified() => {}
                    () = timer => {}
                }
            }
            None => tokio::select! {
                () = self.queue.moved.notified() => {}
                () = timer => {}
            },
        }
    }

    /// Waits for a signal or the timer, whichever is first: the timer is the guarantee, the signal is the speed.
    async fn wait(&self, pause: Pause) {
        let timer = sleep_until(&self.queue.core, pause.until);
        match (&self.subscription, pause.seen) {
            (Some(subscription), Some(seen)) => tokio::select! {
                () = subscription.channel().changed(seen) => {}
                () = self.queue.moved.notified() => {}
                () = timer => {}
            },
            _ => tokio::select! {
                () = self.queue.moved.notified() => {}
                () = timer => {}
            },
        }
    }

    async fn attempt(&mut self, serial: u64, request: &Request, block: u32) {
        let queue = Arc::clone(&self.queue);
        let core = &queue.core;
        // Read before the attempt is sent: a signal that overtakes its answer must count.
        let seen = self
            .subscription
            .as_ref()
            .map(|subscription| subscription.channel().count());
        let attempt = Attempt::new(core, &queue.target, request, block);
        let until = queue.attempt_until(request, core.clock_now());
        let outcome = {
            let run = attempt.run(core, Lane::Background, until);
            tokio::select! {
                outcome = run => Some(outcome),
                () = queue.deserted() => None,
            }
        };
        let now = core.now();
        match outcome {
            Some(Outcome::Granted(grant)) => {
                self.backoff = trouble_backoff();
                self.pause = None;
                match self.give_out(serial, grant, now) {
                    GivenOut::Taken => {}
                    GivenOut::Unwanted => queue.close_text(&attempt, Some(serial)),
                    GivenOut::Overtaken => queue.close_text(&attempt, None),
                }
                return;
            }
            Some(Outcome::Busy(Busy { time_left, .. })) => {
                self.backoff = trouble_backoff();
                self.busy(serial, request, time_left, seen, now).await;
            }
            Some(Outcome::Failed(error)) => self.failed(serial, error, now),
            None => {
                queue.releasing(serial, now);
                queue.close_text(&attempt, Some(serial));
                return;
            }
        }
        if attempt.is_open() {
            queue.close_text(&attempt, None);
        }
    }

    /// Gives the grant to the first in line, if it suits.
    fn give_out(&self, serial: u64, grant: Grant, now: Moment) -> GivenOut {
        let queue = &self.queue;
        let mut guard = queue.lock();
        let state = &mut *guard;
        if !matches!(state.phase, Phase::Attempting { serial: present, .. } if present == serial) {
            return GivenOut::Overtaken;
        }
        let (terms, longest) = (grant.terms, grant.longest);
        let hold = queue.install(state, grant, now);
        if matches!(hold.state(now), HoldState::Lost(_)) {
            // It took so long to come that it is worth nothing any more.
            state.phase = Phase::Releasing { serial, since: now };
            return GivenOut::Unwanted;
        }
        loop {
            let suits = |waiter: &Arc<Waiter>| waiter.request.terms == terms && waiter.request.longest == longest;
            let next = if state.waiters.is_empty() {
                state
                    .tries
                    .iter()
                    .position(suits)
                    .map(|index| state.tries.remove(index))
            } else if state.waiters.front().is_some_and(suits) {
                state.waiters.pop_front()
            } else {
                None
            };
            let Some(next) = next else {
                hold.give_up();
                queue.core.renewal.remove(&hold);
                state.phase = Phase::Releasing { serial, since: now };
                return GivenOut::Unwanted;
            };
            let Some(turn) = queue.next_turn(state, now) else {
                return GivenOut::Overtaken;
            };
            hold.set_claimed(false);
            match next.grant(turn) {
                Ok(waker) => {
                    state.unclaimed = Some((next, now));
                    let refused: Vec<_> = state.tries.drain(..).collect();
                    drop(guard);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    for waiter in refused {
                        waiter.fail(queue.busy_error(Some(hold.deadline().since(now))));
                    }
                    return GivenOut::Taken;
                }
                Err(turn) => {
                    turn.end();
                    if let Phase::Held { turns, .. } = &mut state.phase {
                        // The token was never seen by anybody.
                        *turns -= 1;
                    }
                }
            }
        }
    }

    async fn busy(&mut self, serial: u64, request: &Request, time_left: Option<u64>, seen: Option<u64>, now: Moment) {
        let queue = Arc::clone(&self.queue);
        let counted = {
            let mut guard = queue.lock();
            let state = &mut *guard;
            if matches!(state.phase, Phase::Attempting { serial: present, .. } if present == serial) {
                state.phase = Phase::Idle;
            }
            queue.note_busy(state, time_left, now);
            queue.count_attempt(state)
        };
        let Some(attempts) = counted else {
            // The pause that would follow was that caller's wish.
            self.pause = None;
            return;
        };
        if let Some(polling) = request.polling {
            self.pause = Some(Pause {
                until: now.plus(polling.pause_after(attempts)),
                seen: None,
            });
            return;
        }
        let Some(subscription) = &self.subscription else {
            self.subscribe().await;
            return;
        };
        let live = subscription.channel().is_live();
        queue.lock().listening = live.then(|| Arc::clone(subscription.channel()));
        self.pause = Some(Pause {
            until: now.plus(recheck_after(
                &queue.core,
                queue.target.kind,
                Busy::until(time_left),
                live,
            )),
            seen,
        });
    }

    /// Subscribes and waits until that is confirmed, or a second; then the next attempt closes the race with a release.
    async fn subscribe(&mut self) {
        let queue = Arc::clone(&self.queue);
        let subscription = queue.core.engine.subscribe(&queue.target.channel);
        let patience = sleep_until(
            &queue.core,
            queue.core.clock_now().plus(queue.core.settings.recheck_unheard),
        );
        tokio::select! {
            () = subscription.channel().becomes_live() => {}
            () = queue.deserted_or_tried() => {}
            () = patience => tracing::debug!(name = %queue.target.name, "waiting without a confirmed subscription"),
        }
        let channel = subscription.channel();
        queue.lock().listening = channel.is_live().then(|| Arc::clone(channel));
        self.subscription = Some(subscription);
    }

    fn failed(&mut self, serial: u64, error: StepError, now: Moment) {
        let queue = &self.queue;
        let mut guard = queue.lock();
        let state = &mut *guard;
        let began = match state.phase {
            Phase::Attempting { serial: present, since } if present == serial => {
                state.phase = Phase::Idle;
                since
            }
            _ => now,
        };
        if !error.is_transient() {
            let all: Vec<_> = state.waiters.drain(..).chain(state.tries.drain(..)).collect();
            drop(guard);
            for waiter in all {
                waiter.fail(error.clone().into_error("taking the lock", &queue.target));
            }
            return;
        }
        queue.note_trouble(state, error.clone(), began);
        let since = state.trouble.as_ref().map_or(began, |(since, _)| *since);
        if now.since(since) >= queue.core.settings.unreachable_after {
            state.fail_unlimited(|| error.clone().into_error("waiting for the lock", &queue.target));
        }
        drop(guard);
        self.pause = Some(Pause {
            until: now.plus(self.backoff.next()),
            seen: None,
        });
    }
}

impl LocalQueue {
    /// Ends when nobody waits any more.
    async fn deserted(&self) {
        loop {
            if self.lock().is_deserted() {
                return;
            }
            self.moved.notified().await;
        }
    }

    /// Ends when nobody waits any more, or somebody wants an attempt now.
    async fn deserted_or_tried(&self) {
        loop {
            {
                let state = self.lock();
                if state.is_deserted() || !state.tries.is_empty() {
                    return;
                }
            }
            self.moved.notified().await;
        }
    }

    fn releasing(&self, serial: u64, now: Moment) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Attempting { serial: present, .. } if present == serial) {
            state.phase = Phase::Releasing { serial, since: now };
        }
    }

    /// Until when the pump may repeat one attempt for the head.
    fn attempt_until(&self, request: &Request, now: Moment) -> Moment {
        let until = now.plus(request.attempt_window(&self.core));
        let settings = &self.core.settings;
        match &self.lock().trouble {
            Some((since, _)) if request.budget == Budget::Unlimited => {
                // Its patience ends in between, though the server gets a fair chance to answer.
                let patience = since.plus(settings.unreachable_after);
                until.min(patience.max(now.plus(settings.response_limit / 4)))
            }
            _ => until,
        }
    }

    /// Counts an attempt for the head and tells how many it has had; none if that was its last one, which ends its wait.
    fn count_attempt(&self, state: &mut State) -> Option<u32> {
        let Some(head) = state.waiters.front() else {
            return Some(1);
        };
        let attempts = head.count_attempt();
        let limit = head.request.polling.and_then(|polling| polling.limit());
        if limit.is_some_and(|limit| attempts >= limit)
            && let Some(head) = state.waiters.pop_front()
        {
            let used_up = Error::AttemptsUsedUp {
                name: self.target.name.to_string(),
                attempts,
            };
            state.told.push((head, used_up));
            return None;
        }
        Some(attempts)
    }
}
