//! The steps of the mutex, in both layouts.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::link::Link;
use super::reply::{Status, not_understood, number, refused, time_left, told};
use super::script::{self, Script};
use super::session::{Failure, Session};
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::engine::{Acquire, Acquired, Answer, Layout, MutexTarget, Released, Reply, StepError};

/// How much longer than the lease a token record lives, in milliseconds. Longer than any clock of a server steps back.
const RECORD_OUTLIVES_LEASE: u64 = 10 * 60 * 1000;

/// The life of a token record beside a lease, in milliseconds.
pub(super) fn record_life(lease: u64) -> u64 {
    lease.saturating_add(RECORD_OUTLIVES_LEASE)
}

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
    let session = link.session(until).await?;
    let sent = session.node().now();
    let window = Window::of(&session, sent, until);
    let (script, command) = acquire_call(step, window);
    let ticket = step.copies.sending(sent, window.use_by);
    let settled = run(&session, script, &command, sent, until, |rest, status| {
        match (status, rest) {
            (Status::Done, [first, size]) => Some(Reply::Acquired(Acquired::Granted {
                first_token: number(first)?,
                block: u32::try_from(number(size)?).ok()?,
            })),
            (Status::Not, [left]) => Some(Reply::Acquired(Acquired::Busy {
                time_left: time_left(left),
            })),
            _ => None,
        }
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
    target: &MutexTarget,
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

pub(super) async fn force_release(link: &Arc<Link>, target: &MutexTarget, until: Instant) -> Result<Answer, StepError> {
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
    let target = &*step.target;
    let script = match target.layout {
        Layout::Redisson => &*script::MUTEX_ACQUIRE,
        Layout::Plain => &*script::PLAIN_ACQUIRE,
    };
    let name = target.name.as_str();
    let size = name.len() + target.token_key.len() + target.peer_token_key.len() + step.owner.as_str().len() + 96;
    let mut command = script.call(3, 6, size);
    command
        .arg(name)
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(step.owner.as_str())
        .arg(step.lease)
        .arg(record_life(step.lease))
        .arg(step.block.max(1))
        .arg(window.use_by)
        .arg(window.limit);
    (script, command)
}

pub(super) fn release_call(target: &MutexTarget, owner: &Owner) -> (&'static Script, Cmd) {
    let script = match target.layout {
        Layout::Redisson => &*script::MUTEX_RELEASE,
        Layout::Plain => &*script::PLAIN_RELEASE,
    };
    let name = target.name.as_str();
    let mut command = script.call(2, 1, name.len() + target.channel.len() + owner.as_str().len());
    command.arg(name).arg(&*target.channel).arg(owner.as_str());
    (script, command)
}

pub(super) fn force_release_call(target: &MutexTarget) -> (&'static Script, Cmd) {
    let script = match target.layout {
        Layout::Redisson => &*script::MUTEX_FORCE_RELEASE,
        Layout::Plain => &*script::PLAIN_FORCE_RELEASE,
    };
    let name = target.name.as_str();
    let mut command = script.call(2, 0, name.len() + target.channel.len());
    command.arg(name).arg(&*target.channel);
    (script, command)
}
