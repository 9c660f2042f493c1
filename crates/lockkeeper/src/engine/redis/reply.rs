//! Taking replies of scripts apart: an array of a status, the server's time in microseconds, and what belongs to it.

use redis::Value;

use super::session::Failure;
use crate::engine::{Cause, StepError};
use crate::error::Refusal;

/// What the first number of a script's reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The step did what it was asked to.
    Done,
    /// It did not, and the reason is no error: somebody else holds it, or this owner does not.
    Not,
    /// It arrived after its use-by, and did nothing.
    Late,
    /// The key is of another kind, told by a word; nothing was changed.
    WrongKind,
    /// The hold that was to be converted is not there; nothing was changed.
    NotHeld,
}

/// A reply of a script.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) status: Status,
    pub(super) server_time: u64,
    pub(super) rest: &'a [Value],
}

/// `None` if it is no reply of one of our scripts.
pub(super) fn told(reply: &Value) -> Option<Told<'_>> {
    let [Value::Int(status), Value::Int(server_time), rest @ ..] = reply.as_sequence()? else {
        return None;
    };
    Some(Told {
        status: match status {
            0 => Status::Done,
            1 => Status::Not,
            2 => Status::Late,
            3 => Status::WrongKind,
            4 => Status::NotHeld,
            _ => return None,
        },
        server_time: u64::try_from(*server_time).ok()?,
        rest,
    })
}

/// The error of a reply that says so, if it does.
pub(super) fn refused(told: &Told<'_>) -> Option<StepError> {
    match told.status {
        Status::Done | Status::Not => None,
        Status::Late => Some(StepError::none(Cause::Late)),
        Status::NotHeld => Some(StepError::none(Cause::NotHeld)),
        Status::WrongKind => Some(StepError::none(Cause::WrongKind(
            told.rest
                .first()
                .and_then(text)
                .unwrap_or("key of an unknown kind")
                .to_owned(),
        ))),
    }
}

/// A reply that nobody understands. What was done is not known, but nothing more will come of it.
pub(super) fn not_understood() -> Failure {
    Failure {
        error: StepError::possible(Cause::Refused(
            Refusal::Other,
            "the server's reply was not understood".to_owned(),
        )),
        settled: true,
    }
}

/// The reply to `TIME`, in microseconds.
pub(super) fn time_reply(reply: &Value) -> Option<u64> {
    let [seconds, microseconds] = reply.as_sequence()? else {
        return None;
    };
    let number = |value| text(value)?.parse::<u64>().ok();
    number(seconds)?
        .checked_mul(1_000_000)?
        .checked_add(number(microseconds)?)
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// What `PTTL` told: `None` for a key without expiry. A key that ends within the millisecond counts as ending now.
pub(super) fn time_left(value: &Value) -> Option<u64> {
    match value {
        Value::Int(-1) => None,
        Value::Int(left) => Some(u64::try_from(*left).unwrap_or(0)),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

/// A text of anybody's making; what is no UTF-8 is replaced.
pub(super) fn any_text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => text(other).unwrap_or_default().to_owned(),
    }
}
