//! What is sent for the count-down latch.

use redis::Cmd;

use super::hold::Window;
use super::script::{self, Script};
use crate::engine::{ANSWER_LIFE, Action, Operation};

pub(super) fn operate_call(operation: &Operation, window: Window) -> (&'static Script, Cmd) {
    let target = &*operation.target;
    let name = target.name.as_str();
    let (script, count) = match operation.action {
        Action::SetCount(count) => (&*script::LATCH_SET_COUNT, Some(count)),
        Action::CountDown => (&*script::LATCH_COUNT_DOWN, None),
        Action::RemoveLatch => (&*script::LATCH_REMOVE, None),
        _ => {
            let mut command = script::LATCH_COUNT.call(1, 0, name.len());
            command.arg(name);
            return (&script::LATCH_COUNT, command);
        }
    };
    let answer = target.answer_key(&operation.mark);
    let mut command = script.call(3, 4, name.len() + target.channel.len() + answer.len() + 64);
    command
        .arg(name)
        .arg(&*target.channel)
        .arg(answer)
        .arg(window.use_by)
        .arg(window.limit)
        .arg(ANSWER_LIFE);
    if let Some(count) = count {
        command.arg(count);
    }
    (script, command)
}
