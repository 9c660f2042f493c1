//! What is sent for the count-down latch.

use redis::Cmd;

use super::hold::Window;
use super::script::{self, Script};
use crate::engine::{ANSWER_LIFE, Action, LATCH_END_LIFE, LATCH_RECORD_LIFE, Operation};

pub(super) fn operate_call(operation: &Operation, window: Window) -> (&'static Script, Cmd) {
    let target = &*operation.target;
    let name = target.name.as_str();
    let record = target.latch_record_key();
    let (script, life, count) = match operation.action {
        Action::SetCount(count) => (&*script::LATCH_SET_COUNT, LATCH_RECORD_LIFE, Some(count)),
        Action::CountDown => (&*script::LATCH_COUNT_DOWN, LATCH_END_LIFE, None),
        Action::RemoveLatch => (&*script::LATCH_REMOVE, LATCH_END_LIFE, None),
        Action::AwaitLatch { since } => {
            let mut command = script::LATCH_AWAIT.call(2, 1, 2 * name.len() + 48);
            command.arg(name).arg(record).arg(since);
            return (&script::LATCH_AWAIT, command);
        }
        _ => {
            let mut command = script::LATCH_COUNT.call(1, 0, name.len());
            command.arg(name);
            return (&script::LATCH_COUNT, command);
        }
    };
    let answer = target.answer_key(&operation.mark);
    let size = name.len() + target.channel.len() + answer.len() + record.len() + 64;
    let mut command = script.call(4, 5, size);
    command
        .arg(name)
        .arg(&*target.channel)
        .arg(answer)
        .arg(record)
        .arg(window.use_by)
        .arg(window.limit)
        .arg(ANSWER_LIFE)
        .arg(life);
    if let Some(count) = count {
        command.arg(count);
    }
    (script, command)
}
