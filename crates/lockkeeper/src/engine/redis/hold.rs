//! Taking, freeing and freeing by force, for every kind of object that is held: one script each. What is sent is the
//! kind's own business.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::link::Link;
use super::mutex;
use super::reply::{Status, not_understood, number, refused, time_left, told};
use super::rwlock;
use super::script::Script;
use super::semaphore;
use super::session::{Failure, Session};
use super::{election, fair};
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Answer, Busy, Kind, Released, Reply, Rest, StepError, Target};

/// Until when a copy that is sent now may run, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// In server time.
    pub(super) use_by: u64,
    /// The response limit.
    pub(super) limit: u64,
}

impl Window {
    /// The window of a copy whose answer nobody awaits after `until`.
    pub(super) fn of(session: &Session, sent: Moment, until: Instant) -> Self {
        let left = until.saturating_duration_since(Instant::now());
        let limit = u64::try_from(left.min(session.node().config.response_limit).as_micros()).unwrap_or(0);
        Self {
            use_by: session.offset().server_time(sent).saturating_add(limit),
            limit,
        }
    }
}

pub(super) async fn acquire(link: &Arc<Link>, step: &Acquire, until: Instant) -> Result<Answer, StepError> {
    grant(link, step, until, |window| acquire_call(step, window)).await
}

pub(super) async fn convert(
    link: &Arc<Link>,
    step: &Acquire,
    from: &Owner,
    until: Instant,
) -> Result<Answer, StepError> {
    grant(link, step, until, |window| rwlock::convert_call(step, from, window)).await
}

/// Sends what may be granted.
async fn grant(
    link: &Arc<Link>,
    step: &Acquire,
    until: Instant,
    call: impl FnOnce(Window) -> (&'static Script, Cmd),
) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let sent = session.node().now();
    let window = Window::of(&session, sent, until);
    let (script, command) = call(window);
    let ticket = step.copies.sending(sent, window.use_by);
    let settled = run(&session, script, &command, sent, until, |rest, status| {
        Some(Reply::Acquired(match (status, rest) {
            (Status::Done, [first, size]) => Acquired::Granted {
                first_token: number(first)?,
                block: u32::try_from(number(size)?).ok()?,
            },
            // Where a hold does not exclude others there are no tokens.
            (Status::Done, []) => Acquired::Granted {
                first_token: 0,
                block: 1,
            },
            (Status::Not, [left]) => Acquired::Busy(Busy::until(time_left(left))),
            (Status::Not, [left, again]) => Acquired::Busy(Busy {
                time_left: time_left(left),
                look_again: time_left(again),
            }),
            _ => return None,
        }))
    })
    .await;
    match settled {
        Ok(answer) => {
            ticket.answered();
            Ok(answer)
        }
        Err(failure) => {
            if failure.settled {
                ticket.answered();
            }
            Err(failure.error)
        }
    }
}

pub(super) async fn release(
    link: &Arc<Link>,
    target: &Target,
    owner: &Owner,
    until: Instant,
) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let (script, command) = release_call(target, owner);
    let sent = session.node().now();
    run(&session, script, &command, sent, until, |rest, status| {
        match (status, rest) {
            (Status::Done, [receivers]) => Some(Reply::Released(Released::Freed {
                receivers: number(receivers)?,
            })),
            (Status::Not, []) => Some(Reply::Released(Released::NotThere)),
            _ => None,
        }
    })
    .await
    .map_err(|failure| failure.error)
}

/// Ends a hold whose name stays taken for a while.
pub(super) async fn rest(
    link: &Arc<Link>,
    target: &Target,
    owner: &Owner,
    rest: Rest,
    until: Instant,
) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let (script, command) = mutex::rest_call(target, owner, rest);
    let sent = session.node().now();
    run(&session, script, &command, sent, until, |rest, status| {
        Some(Reply::Released(match (status, rest) {
            (Status::Done, [receivers]) => Released::Freed {
                receivers: number(receivers)?,
            },
            (Status::Done, [_, left]) => Released::Resting {
                time_left: time_left(left),
            },
            (Status::Not, []) => Released::NotThere,
            _ => return None,
        }))
    })
    .await
    .map_err(|failure| failure.error)
}

pub(super) async fn force_release(link: &Arc<Link>, target: &Target, until: Instant) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let (script, command) = force_release_call(target);
    let sent = session.node().now();
    run(&session, script, &command, sent, until, |_, status| match status {
        Status::Done => Some(Reply::ForceReleased(true)),
        Status::Not => Some(Reply::ForceReleased(false)),
        _ => None,
    })
    .await
    .map_err(|failure| failure.error)
}

/// Runs one script and reads its reply; `read` knows what belongs to the step.
pub(super) async fn run(
    session: &Session,
    script: &Script,
    command: &Cmd,
    sent: Moment,
    until: Instant,
    read: impl FnOnce(&[Value], Status) -> Option<Reply>,
) -> Result<Answer, Failure> {
    let value = session.evaluate(script, command, until).await?;
    let told = told(&value).ok_or_else(not_understood)?;
    session.offset().learn(told.server_time, sent, session.node().now());
    if let Some(error) = refused(&told) {
        return Err(Failure { error, settled: true });
    }
    Ok(Answer {
        reply: read(told.rest, told.status).ok_or_else(not_understood)?,
        sent,
        server_time: told.server_time,
    })
}

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    match step.target.kind {
        Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Periodic(_) | Kind::Latch => {
            mutex::acquire_call(step, window)
        }
        Kind::Fair => fair::acquire_call(step, window),
        Kind::Read | Kind::Write => rwlock::acquire_call(step, window),
        Kind::Permits | Kind::Counter => semaphore::acquire_call(step, window),
        Kind::Election => election::acquire_call(step, window),
    }
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    match target.kind {
        Kind::Mutex(_) | Kind::Spin | Kind::Fenced | Kind::Periodic(_) | Kind::Latch => {
            mutex::release_call(target, owner)
        }
        Kind::Fair => fair::release_call(target, owner),
        Kind::Read | Kind::Write => rwlock::release_call(target, owner),
        Kind::Permits | Kind::Counter => semaphore::release_call(target, owner),
        Kind::Election => election::release_call(target, owner),
    }
}

pub(super) fn force_release_call(target: &Target) -> (&'static Script, Cmd) {
    match target.kind {
        Kind::Mutex(_)
        | Kind::Spin
        | Kind::Fenced
        | Kind::Periodic(_)
        | Kind::Latch
        | Kind::Permits
        | Kind::Counter => mutex::force_release_call(target),
        Kind::Fair => fair::force_release_call(target),
        Kind::Read | Kind::Write => rwlock::force_release_call(target),
        Kind::Election => election::force_release_call(target),
    }
}
