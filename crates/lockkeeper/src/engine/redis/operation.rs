//! What objects do beside being held: one script each. What is sent is the kind's own business.

use std::sync::Arc;

use redis::Cmd;
use tokio::time::Instant;

use super::hold::{Window, run};
use super::latch;
use super::link::Link;
use super::reply::Status;
use super::script::Script;
use super::semaphore;
use crate::engine::{Action, Answer, Operation, Outcome, Reply, StepError};

pub(super) async fn operate(link: &Arc<Link>, operation: &Operation, until: Instant) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let sent = session.node().now();
    let window = Window::of(&session, sent, until);
    let (script, command) = operate_call(operation, window);
    let ticket = operation.copies.sending(sent, window.use_by);
    let settled = run(&session, script, &command, sent, until, |rest, status| {
        match (status, rest) {
            (Status::Done, [redis::Value::Int(number)]) => Some(Reply::Operated(Outcome::Number(*number))),
            (Status::Done, [redis::Value::Int(available), redis::Value::Int(acquired)]) => {
                Some(Reply::Operated(Outcome::Permits {
                    available: *available,
                    acquired: *acquired,
                }))
            }
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

pub(super) fn operate_call(operation: &Operation, window: Window) -> (&'static Script, Cmd) {
    match operation.action {
        Action::SetCount(_) | Action::CountDown | Action::Count | Action::AwaitLatch { .. } | Action::RemoveLatch => {
            latch::operate_call(operation, window)
        }
        Action::TrySetPermits { .. }
        | Action::SetPermits(_)
        | Action::AddPermits { .. }
        | Action::DrainPermits
        | Action::CountPermits
        | Action::RemovePermits => semaphore::operate_call(operation, window),
    }
}
