use std::sync::Arc;
use std::time::Duration;

use super::pump::{Pause, Pump};
use super::{Phase, State, Takeover, Turn};
use crate::base::clock::Moment;
use crate::error::{Effect, Error};
use crate::service::hold::Hold;
use crate::service::request::Request;

/// What the pump is to do next.
pub(super) enum Job {
    Stop,
    Attempt {
        serial: u64,
        request: Request,
        block: u32,
    },
    /// Wait until the phase moves, the hold ends, or the moment has come.
    Watch {
        hold: Option<Arc<Hold>>,
        until: Moment,
    },
    Pause(Pause),
    Subscribe,
}

impl Pump {
    pub(super) fn next_job(&mut self) -> Job {
        let queue = Arc::clone(&self.queue);
        let core = &queue.core;
        let now = core.now();
        let mut stale: Option<Arc<Turn>> = None;
        let job = {
            let mut guard = queue.lock_at(now);
            let state = &mut *guard;
            state.dissolve_lost(now);
            if std::mem::take(&mut state.regrouped) {
                self.pause = None;
            }
            let claim_time = core.settings.claim_time;
            if let Some((waiter, since)) = &state.unclaimed {
                if !waiter.is_unclaimed() {
                    state.unclaimed = None;
                } else if now.since(*since) >= claim_time {
                    stale = waiter.evict();
                    state.unclaimed = None;
                }
            }
            if stale.is_some() {
                // The turn is dropped below, outside the lock, which passes the hold on; then we look again.
                Job::Watch { hold: None, until: now }
            } else if state.is_deserted() && state.unclaimed.is_none() {
                state.pumping = false;
                state.listening = None;
                if matches!(state.phase, Phase::Idle) {
                    state.contended = false;
                }
                Job::Stop
            } else {
                self.job_for(state, now)
            }
        };
        if let Some(turn) = stale {
            tracing::debug!(name = %queue.target.name, "a turn that nobody took is passed on");
            drop(turn);
        }
        job
    }

    fn job_for(&mut self, state: &mut State, now: Moment) -> Job {
        let settings = &self.queue.core.settings;
        let look_again = now.plus(settings.claim_time);
        match &state.phase {
            Phase::Held { hold, .. } => {
                self.pause = None;
                Job::Watch {
                    until: hold.deadline().min(look_again),
                    hold: Some(Arc::clone(hold)),
                }
            }
            Phase::Attempting { since, .. } => {
                // A lone caller's own attempt. If it is not polled to its end, the line goes on without it.
                let limit = self.longest_window(state).saturating_add(settings.claim_time);
                if now.since(*since) >= limit {
                    state.phase = Phase::Idle;
                    return Job::Watch { hold: None, until: now };
                }
                Job::Watch {
                    hold: None,
                    until: since.plus(limit),
                }
            }
            Phase::Releasing { since, .. } => {
                let silence = now.since(*since);
                let patience = since.plus(settings.unreachable_after);
                if now < patience {
                    return Job::Watch {
                        hold: None,
                        until: patience,
                    };
                }
                state.fail_unlimited(|| Error::Unreachable {
                    doing: "waiting for the lock",
                    detail: format!("a release had no answer for {silence:?}"),
                    effect: Effect::None,
                });
                Job::Watch {
                    hold: None,
                    until: look_again,
                }
            }
            Phase::Idle => {
                if let Some(until) = state.yields_at(now) {
                    let seen = state.listening.as_ref().map(|channel| channel.count());
                    return Job::Pause(Pause { until, seen });
                }
                match state.takeover.take() {
                    Some(Takeover::Subscribe) if self.subscription.is_none() => return Job::Subscribe,
                    Some(Takeover::PauseUntil(until)) => self.pause = Some(Pause { until, seen: None }),
                    _ => {}
                }
                let impatient = !state.tries.is_empty() && state.busy.is_none_or(|busy| now >= busy.counts_until);
                if let Some(pause) = self.pause
                    && !impatient
                    && now < pause.until
                    && self.is_unsignalled(pause)
                {
                    return Job::Pause(pause);
                }
                self.pause = None;
                let Some(first) = state.waiters.front().or_else(|| state.tries.first()) else {
                    return Job::Watch { hold: None, until: now };
                };
                let request = first.request.clone();
                let shared = self.queue.target.kind.hands_over()
                    && request.longest.is_none()
                    && (state.contended || state.waiters.len() > 1);
                let block = if shared { settings.turn.block() } else { 1 };
                let serial = state.next_serial();
                state.phase = Phase::Attempting { serial, since: now };
                Job::Attempt { serial, request, block }
            }
        }
    }

    fn longest_window(&self, state: &State) -> Duration {
        let waiters = state.waiters.iter().chain(&state.tries);
        waiters
            .map(|waiter| waiter.request.attempt_window(&self.queue.core))
            .max()
            .unwrap_or_default()
            .max(self.queue.core.settings.response_limit)
    }

    fn is_unsignalled(&self, pause: Pause) -> bool {
        match (&self.subscription, pause.seen) {
            (Some(subscription), Some(seen)) => subscription.channel().count() == seen,
            _ => true,
        }
    }
}
