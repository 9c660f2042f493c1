//! The waist: atomic steps, batched renewal, signals and inspection. No waiting, no retry policy, no guard.
//!
//! A step is performed once, under a response limit, and answers with one of its replies or with a [`StepError`] that
//! says whether it may have run. Repeating, waiting and cleaning up is the business of the services above.

mod copies;
mod signal;
mod step;

pub(crate) mod embedded;
pub(crate) mod redis;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, Moment};
use crate::base::name::Name;
use crate::error::{Effect, Error, Refusal, TlsFault};

pub(crate) use copies::Copies;
pub(crate) use signal::{Channel, SignalChange, SignalTable, Subscription};
pub use step::Layout;
pub(crate) use step::{
    ANSWER_LIFE, Acquire, Acquired, Action, Busy, ELECTION, Holder, InLine, Inspection, Kind, LATCH_END_LIFE,
    LATCH_GONE, LATCH_OPENED, LATCH_RECORD_LIFE, LATCH_REMOVED, NEVER, Operation, Outcome, Released, Renew, Renewed,
    Reply, Rest, SEMAPHORE_RECORD_LIFE, Step, TERM, Target, Waiting, is_resting_mark, resting_mark,
};

/// A boxed future of an engine call.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, StepError>> + Send + 'a>>;

/// What keeps the state.
pub(crate) trait Engine: fmt::Debug + Send + Sync + 'static {
    /// The clock on which this engine's deadlines are counted.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Performs one step, once. The answer comes within `limit`, or the error says whether it may have run.
    ///
    /// Dropping the future is safe for the connection; whether the step was sent is then unknown, and its [`Copies`]
    /// tell until when it could still run.
    fn perform(&self, lane: Lane, step: Step, limit: Duration) -> Answering<'_>;

    /// Subscribes to a channel. Dropping the last subscription of a channel unsubscribes.
    fn subscribe(&self, channel: &Arc<str>) -> Subscription;

    /// The present moment, after everything that was due by then: expiry and renewal of the embedded engine, which has no
    /// thread of its own. Elsewhere it only reads the clock.
    fn settle(&self) -> Moment {
        Moment::of(&**self.clock())
    }

    /// Whether every step answers within the first poll, so that no runtime is needed to perform one.
    fn is_immediate(&self) -> bool {
        false
    }

    /// How many requests have been sent to the state's keeper: round trips, or steps of the embedded engine.
    fn round_trips(&self) -> u64;
}

/// Which connection a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The one that belongs to the caller's runtime: acquire and unlock, with no change of thread.
    Foreground,
    /// The one that belongs to the keeper's own thread: renewal, clean-up, and the head of a local queue.
    Background,
}

/// A reply, with the times that belong to it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// When the request that was answered was sent, on the deadline clock.
    pub(crate) sent: Moment,
    /// The server's time in microseconds when it ran.
    pub(crate) server_time: u64,
}

/// Why a step has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepError {
    pub(crate) cause: Cause,
    /// Whether the step may have run.
    pub(crate) effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No connection, a broken one, or no answer within the limit.
    Unreachable(String),
    /// The server saw the step after its use-by. The engine has learned the server's time from the refusal, so a repeat
    /// is in order at once.
    Late,
    /// The other side is not trusted, or does not trust us.
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "nothing is encrypted in this build")
    )]
    Tls(TlsFault, String),
    /// The server's own error.
    Refused(Refusal, String),
    /// The key holds something else (a word for what it is).
    WrongKind(String),
    /// The hold that was to be converted is not there.
    NotHeld,
}

impl StepError {
    pub(crate) fn none(cause: Cause) -> Self {
        Self {
            cause,
            effect: Effect::None,
        }
    }

    pub(crate) fn possible(cause: Cause) -> Self {
        Self {
            cause,
            effect: Effect::Possible,
        }
    }

    /// Whether trying again may help without anybody's doing.
    pub(crate) fn is_transient(&self) -> bool {
        match &self.cause {
            Cause::Unreachable(_) | Cause::Late => true,
            Cause::Refused(refusal, _) => refusal.is_transient(),
            Cause::WrongKind(_) | Cause::NotHeld | Cause::Tls(..) => false,
        }
    }

    /// The error that a user sees, when nothing more is tried.
    pub(crate) fn into_error(self, doing: &'static str, target: &Target) -> Error {
        self.into_error_of(doing, &target.name, target.kind.word())
    }

    /// As [`into_error`](Self::into_error), for a step that is not of one kind of object.
    pub(crate) fn into_error_of(self, doing: &'static str, name: &Name, wanted: &'static str) -> Error {
        let effect = self.effect;
        match self.cause {
            Cause::Unreachable(detail) => Error::Unreachable { doing, detail, effect },
            Cause::Late => Error::Unreachable {
                doing,
                detail: "too slow: every request arrived after the time until which it was to be used".to_owned(),
                effect,
            },
            Cause::Tls(fault, detail) => Error::Tls { fault, detail },
            Cause::Refused(refusal, detail) => Error::Refused {
                refusal,
                detail,
                effect,
            },
            Cause::WrongKind(found) => Error::WrongKind {
                name: name.to_string(),
                wanted,
                found,
            },
            Cause::NotHeld => Error::NotHeld,
        }
    }
}
