use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Entry, Gate};
use crate::base::clock::Moment;
use crate::engine::{Busy, Lane, StepError, Subscription};
use crate::error::Error;
use crate::service::attempt::Outcome;
use crate::service::hold::Grant;
use crate::service::request::Budget;
use crate::service::waiting::{Backoff, recheck_after, sleep_until};

/// Speaks to the server for one waiting caller, until it has its turn or has gone. It runs on the keeper's executor, so that a
/// caller whom nobody polls keeps its place and stops no line.
pub(super) async fn for_one(gate: Arc<Gate>, entry: Arc<Entry>) {
    Seeker::new(Arc::clone(&gate)).serve(&entry).await;
    gate.served(&entry);
}

/// Speaks to the server for whoever is first in line, until nobody waits.
pub(super) async fn for_line(gate: Arc<Gate>) {
    let mut seeker = Seeker::new(Arc::clone(&gate));
    loop {
        let head = {
            let mut state = gate.lock();
            let head = state.entries.front().cloned();
            match &head {
                Some(entry) => {
                    entry.served.store(true, Ordering::Release);
                    state.serving += 1;
                }
                None => state.seeking = false,
            }
            head
        };
        let Some(entry) = head else { return };
        seeker.serve(&entry).await;
        gate.served(&entry);
    }
}

impl Gate {
    /// Nobody speaks for this entry any more.
    fn served(&self, entry: &Arc<Entry>) {
        let mut state = self.lock();
        state.entries.retain(|other| !Arc::ptr_eq(other, entry));
        state.serving -= 1;
    }
}

struct Seeker {
    gate: Arc<Gate>,
    subscription: Option<Subscription>,
    backoff: Backoff,
}

/// What to wait for before the next attempt.
struct Pause {
    until: Moment,
    /// The count of signals that was read before the last attempt was sent; `None` where signals do not matter.
    seen: Option<u64>,
}

impl Seeker {
    fn new(gate: Arc<Gate>) -> Self {
        Self {
            gate,
            subscription: None,
            backoff: trouble_backoff(),
        }
    }

    /// Ends when the caller has its turn, has failed, or has gone: then its text is closed.
    async fn serve(&mut self, entry: &Arc<Entry>) {
        let gate = Arc::clone(&self.gate);
        // A caller that made the first attempt itself was told "busy": subscribe before the next one.
        let mut subscribe_first = entry.waiter.attempts() > 0;
        loop {
            if subscribe_first && entry.request().polling.is_none() && self.subscription.is_none() {
                self.subscribe(entry).await;
            }
            subscribe_first = false;
            if entry.is_gone() {
                gate.settle(&entry.attempt);
                return;
            }
            let seen = self.signals();
            let now = gate.core.clock_now();
            entry.attempt.begin_round();
            entry.asked.store(now.as_nanos(), Ordering::Release);
            let until = self.attempt_until(entry, now);
            let outcome = tokio::select! {
                outcome = entry.attempt.run(&gate.core, Lane::Background, until) => Some(outcome),
                () = entry.departure() => None,
            };
            entry.asked.store(0, Ordering::Release);
            let pause = match outcome {
                None => {
                    gate.close_text(&entry.attempt);
                    return;
                }
                Some(Outcome::Granted(grant)) => {
                    self.backoff = trouble_backoff();
                    self.give_out(entry, grant);
                    return;
                }
                Some(Outcome::Busy(busy)) => {
                    self.backoff = trouble_backoff();
                    *entry.trouble() = None;
                    let Some(pause) = self.busy(entry, busy, seen).await else {
                        gate.settle(&entry.attempt);
                        return;
                    };
                    pause
                }
                Some(Outcome::Failed(error)) => match self.failed(entry, error, now) {
                    Ok(pause) => pause,
                    Err(error) => {
                        entry.waiter.fail(error);
                        gate.settle(&entry.attempt);
                        return;
                    }
                },
            };
            self.wait(entry, &pause).await;
        }
    }

    fn signals(&self) -> Option<u64> {
        self.subscription
            .as_ref()
            .map(|subscription| subscription.channel().count())
    }

    /// Until when one attempt may be repeated.
    fn attempt_until(&self, entry: &Entry, now: Moment) -> Moment {
        let core = &self.gate.core;
        let until = now.plus(entry.request().attempt_window(core));
        match &*entry.trouble() {
            Some((since, _)) if entry.request().budget == Budget::Unlimited => {
                // Its patience ends in between, though the server gets a fair chance to answer.
                let patience = since.plus(core.settings.unreachable_after);
                until.min(patience.max(now.plus(core.settings.response_limit / 4)))
            }
            _ => until,
        }
    }

    fn give_out(&self, entry: &Arc<Entry>, grant: Grant) {
        let gate = &self.gate;
        let Some(turn) = gate.install(grant, gate.core.now()) else {
            // It is worth nothing any more, and the text is used up: its caller begins anew.
            gate.close_text(&entry.attempt);
            entry.waiter.send_back();
            return;
        };
        turn.hold.set_claimed(false);
        match entry.waiter.grant(turn) {
            Ok(waker) => {
                self.watch_claim(entry);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            // The caller has gone; dropping the turn gives the hold back.
            Err(turn) => drop(turn),
        }
    }

    /// Takes a turn back that its caller does not take.
    fn watch_claim(&self, entry: &Arc<Entry>) {
        let gate = Arc::clone(&self.gate);
        let waiter = Arc::clone(&entry.waiter);
        let until = gate.core.clock_now().plus(gate.core.settings.claim_time);
        self.gate.core.executor.spawn(async move {
            while waiter.is_unclaimed() && gate.core.clock_now() < until {
                sleep_until(&gate.core, until).await;
            }
            if let Some(turn) = waiter.evict() {
                tracing::debug!(name = %gate.target.name, "a turn that nobody took is passed on");
                drop(turn);
            }
        });
    }

    /// What to wait for after a refusal; none if that was the caller's last attempt.
    async fn busy(&mut self, entry: &Arc<Entry>, busy: Busy, seen: Option<u64>) -> Option<Pause> {
        let core = Arc::clone(&self.gate.core);
        let attempts = entry.waiter.count_attempt();
        if let Some(polling) = entry.request().polling {
            if polling.limit().is_some_and(|limit| attempts >= limit) {
                entry.waiter.fail(Error::AttemptsUsedUp {
                    name: self.gate.target.name.to_string(),
                    attempts,
                });
                return None;
            }
            return Some(Pause {
                until: core.clock_now().plus(polling.pause_after(attempts)),
                seen: None,
            });
        }
        let Some(subscription) = &self.subscription else {
            self.subscribe(entry).await;
            return Some(Pause {
                until: Moment::from_nanos(0),
                seen: None,
            });
        };
        let live = subscription.channel().is_live();
        let pause = recheck_after(&core, self.gate.target.kind, busy, live);
        Some(Pause {
            until: core.clock_now().plus(pause),
            seen,
        })
    }

    /// What to wait for after a failure, or the error with which the wait ends.
    fn failed(&mut self, entry: &Entry, error: StepError, began: Moment) -> Result<Pause, Error> {
        let core = &self.gate.core;
        if !error.is_transient() {
            return Err(error.into_error("acquiring", &self.gate.target));
        }
        let now = core.clock_now();
        let since = entry.note_trouble(error.clone(), began);
        if entry.request().budget == Budget::Unlimited && now.since(since) >= core.settings.unreachable_after {
            return Err(error.into_error("waiting", &self.gate.target));
        }
        Ok(Pause {
            until: now.plus(self.backoff.next()),
            seen: None,
        })
    }

    /// Subscribes and waits until that is confirmed, or a second; then the next attempt closes the race with a release.
    async fn subscribe(&mut self, entry: &Entry) {
        let gate = &self.gate;
        let channel = gate.target.channel_of(&entry.attempt.owner);
        let subscription = gate.core.engine.subscribe(&channel);
        let patience = gate.core.clock_now().plus(gate.core.settings.recheck_unheard);
        tokio::select! {
            () = subscription.channel().becomes_live() => {}
            () = entry.departure() => {}
            () = sleep_until(&gate.core, patience) => {
                tracing::debug!(name = %gate.target.name, "waiting without a confirmed subscription");
            }
        }
        self.subscription = Some(subscription);
    }

    /// Waits for a signal or the timer, whichever is first: the timer is the guarantee, the signal is the speed.
    async fn wait(&self, entry: &Entry, pause: &Pause) {
        let core = &self.gate.core;
        if pause.until.since(core.clock_now()) == Duration::ZERO {
            return;
        }
        let signalled = async {
            match (&self.subscription, pause.seen) {
                (Some(subscription), Some(seen)) => subscription.channel().changed(seen).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = signalled => {}
            () = entry.departure() => {}
            () = sleep_until(core, pause.until) => {}
        }
    }
}

fn trouble_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(10), Duration::from_secs(1))
}
