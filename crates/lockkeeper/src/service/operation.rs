use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::waiting::{Backoff, sleep_until};
use crate::engine::{
    ANSWER_LIFE, Action, Answer, Cause, Copies, Lane, Operation, Outcome, Reply, Step, StepError, Target,
};
use crate::error::{Effect, Error};

/// Performs one operation, and repeats it under the same mark while the server does not answer: a repeat of what was done
/// changes nothing, and gets the same answer.
///
/// It takes no longer than the keeper puts up with an unreachable server. Dropping the future leaves it open whether the
/// operation was done.
pub(crate) async fn operate(
    core: &Core,
    target: &Arc<Target>,
    action: Action,
    doing: &'static str,
) -> Result<Outcome, Error> {
    operate_within(core, target, action, doing, core.settings.unreachable_after)
        .await
        .map(|(outcome, _)| outcome)
}

/// As [`operate`], within `limit`; tells the server's time in microseconds too.
pub(crate) async fn operate_within(
    core: &Core,
    target: &Arc<Target>,
    action: Action,
    doing: &'static str,
    limit: Duration,
) -> Result<(Outcome, u64), Error> {
    core.check_open()?;
    core.engine.settle();
    // No longer than half the life of a kept answer: a repeat must find it.
    let patience = limit.min(Duration::from_millis(ANSWER_LIFE / 2));
    let until = core.clock_now().plus(patience);
    let operation = Operation {
        target: Arc::clone(target),
        action,
        mark: core.owners.next(),
        copies: Arc::new(Copies::new()),
    };
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));
    let mut effect = Effect::None;
    loop {
        let left = until.since(core.clock_now()).max(Duration::from_millis(1));
        let limit = left.min(core.settings.response_limit);
        let step = Step::Operate(operation.clone());
        let mut error = match core.engine.perform(Lane::Foreground, step, limit).await {
            Ok(Answer {
                reply: Reply::Operated(outcome),
                server_time,
                ..
            }) => return Ok((outcome, server_time)),
            Ok(answer) => StepError::possible(Cause::Unreachable(format!("an answer of another kind: {answer:?}"))),
            Err(error) => error,
        };
        // What an earlier copy may have done, a later failure does not undo.
        if error.effect == Effect::Possible {
            effect = Effect::Possible;
        }
        error.effect = effect;
        let again = core.clock_now().plus(backoff.next());
        if !error.is_transient() || again >= until {
            return Err(error.into_error(doing, target));
        }
        sleep_until(core, again).await;
    }
}
