use std::sync::Arc;
use std::time::Duration;

use super::cleanup::{Closing, lease_over};
use super::core::Core;
use super::hold::{Grant, Hold};
use super::request::Request;
use super::waiting::{Backoff, sleep_until};
use crate::base::clock::Moment;
use crate::base::lease::{Terms, whole_milliseconds};
use crate::base::owner::Owner;
use crate::engine::{
    Acquire, Acquired, Answer, Busy, Cause, Copies, Kind, Lane, Reply, Step, StepError, Target, Waiting,
};

/// How often a refusal as "too late" is repeated at once: the first repeat knows the server's time.
const LATE_REPEATS: u32 = 3;

/// One attempt to get a lock: one owner text, as many copies as its window allows.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) owner: Owner,
    pub(crate) copies: Arc<Copies>,
    target: Arc<Target>,
    /// The hold in whose place this one is to be, if there is one.
    from: Option<Owner>,
    terms: Terms,
    longest: Option<Duration>,
    candidate: Option<Arc<str>>,
    block: u32,
    permits: u32,
    /// When its caller began to wait, if it goes on waiting when it is refused.
    waits_since: Option<Moment>,
    /// The time for which local turns go on under a fixed lease.
    turns: Duration,
    asked: u64,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Granted(Grant),
    /// Held by somebody else.
    Busy(Busy),
    Failed(StepError),
}

impl Attempt {
    /// The owner text is made here, before the first byte is sent.
    pub(crate) fn new(core: &Core, target: &Arc<Target>, request: &Request, block: u32) -> Self {
        let terms = request.terms;
        // Guards that take turns under a fixed lease shall each have all of it, without asking again. What the clocks may
        // run apart in that time comes on top, so that it is not the last guard's.
        let turns = if block > 1 && !terms.lease.is_renewed() {
            core.settings.turn.time
        } else {
            Duration::ZERO
        };
        let owner = core.owners.next();
        Self {
            owner: match target.kind {
                Kind::Write => owner.writing(),
                Kind::Permits => core.owners.next_permits(request.permits),
                _ => owner,
            },
            copies: Arc::new(Copies::new()),
            target: Arc::clone(target),
            from: None,
            terms,
            longest: request.longest,
            candidate: request.candidate.clone(),
            block,
            permits: request.permits,
            waits_since: None,
            turns,
            asked: terms
                .milliseconds
                .saturating_add(whole_milliseconds(turns.saturating_add(turns / 99))),
        }
    }

    /// The attempt to have one side of a read-write lock in the place of a hold on the other, with its terms.
    pub(crate) fn converting(target: &Arc<Target>, from: &Hold, now: Moment) -> Self {
        Self {
            owner: match target.kind {
                Kind::Write => from.owner.writing(),
                _ => from.owner.reading(),
            },
            copies: Arc::new(Copies::new()),
            target: Arc::clone(target),
            from: Some(from.owner.clone()),
            terms: from.terms,
            longest: (from.longest_until < Moment::FAR).then(|| from.longest_until.since(now)),
            block: 1,
            permits: 1,
            candidate: None,
            waits_since: None,
            turns: Duration::ZERO,
            asked: from.terms.milliseconds,
        }
    }

    /// The same for a caller that goes on waiting if it is refused.
    pub(crate) const fn waiting_since(mut self, since: Moment) -> Self {
        self.waits_since = Some(since);
        self
    }

    /// Begins another round under the same owner text: the answers of earlier rounds were final.
    pub(crate) fn begin_round(&self) {
        self.copies.forget_answered();
    }

    /// Sends copies until one is answered, something final happens, or `until` has come. At least one copy is sent.
    pub(crate) async fn run(&self, core: &Core, lane: Lane, until: Moment) -> Outcome {
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));
        let mut late = 0;
        loop {
            let left = until.since(core.clock_now()).max(Duration::from_millis(1));
            let limit = left.min(core.settings.response_limit);
            let acquire = Acquire {
                target: Arc::clone(&self.target),
                owner: self.owner.clone(),
                lease: self.asked,
                block: self.block,
                permits: self.permits,
                waiting: self.waits_since.map(|since| waiting(core, since)),
                candidate: self.candidate.clone(),
                copies: Arc::clone(&self.copies),
            };
            let step = match &self.from {
                None => Step::Acquire(acquire),
                Some(from) => Step::Convert {
                    acquire,
                    from: from.clone(),
                },
            };
            let error = match core.engine.perform(lane, step, limit).await {
                Ok(Answer {
                    reply: Reply::Acquired(acquired),
                    sent,
                    server_time,
                }) => {
                    return match acquired {
                        Acquired::Granted { first_token, block } => {
                            Outcome::Granted(self.grant(sent, server_time, first_token, block))
                        }
                        Acquired::Busy(busy) => Outcome::Busy(busy),
                    };
                }
                Ok(answer) => StepError::possible(Cause::Unreachable(format!("an answer of another kind: {answer:?}"))),
                Err(error) => error,
            };
            if matches!(error.cause, Cause::Late) {
                late += 1;
                if late <= LATE_REPEATS {
                    continue;
                }
            }
            let pause = backoff.next();
            if !error.is_transient() || core.clock_now().plus(pause) >= until {
                return Outcome::Failed(error);
            }
            tracing::debug!(name = %self.target.name, owner = %self.owner, ?error, "repeating an acquire");
            sleep_until(core, core.clock_now().plus(pause)).await;
        }
    }

    fn grant(&self, sent: Moment, server_time: u64, first_token: u64, block: u32) -> Grant {
        Grant {
            target: Arc::clone(&self.target),
            owner: self.owner.clone(),
            copies: Arc::clone(&self.copies),
            terms: self.terms,
            asked: self.asked,
            trusted: self.terms.trusted().saturating_add(self.turns),
            first_token,
            block,
            // Which copy was granted cannot be told: the oldest is the safe one.
            granted: self.copies.first_sent().unwrap_or(sent),
            // The answer may be that to a repeat; the token is the grant's own, but may be ahead of the time.
            server_time: match first_token {
                0 => server_time,
                token => token.min(server_time),
            },
            longest: self.longest,
        }
    }

    /// Whether a copy may still take effect although the attempt is over.
    pub(crate) fn is_open(&self) -> bool {
        self.copies.open_until() > 0
    }

    /// Whether its caller goes on waiting when it is refused.
    pub(crate) const fn waits(&self) -> bool {
        self.waits_since.is_some()
    }

    /// What is to be done so that nothing comes of it any more.
    pub(crate) fn closing(&self, core: &Core) -> Closing {
        Closing {
            target: Arc::clone(&self.target),
            owner: self.owner.clone(),
            copies: Arc::clone(&self.copies),
            rest: None,
            lease_over: lease_over(core, self.asked),
        }
    }
}

fn waiting(core: &Core, since: Moment) -> Waiting {
    Waiting {
        waited: whole_milliseconds(core.clock_now().since(since)),
        grace: whole_milliseconds(core.settings.fair_grace),
    }
}
