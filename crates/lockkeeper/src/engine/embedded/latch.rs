//! The count-down latch: a number that is there only while it is above zero. Message 0 opens the gates of Java's waiters, so
//! it is sent only by the step that reaches zero; 1 closes them.

use super::keyspace::{Keyspace, Now, Value};
use super::mutex;
use super::post::Post;
use crate::engine::{Action, Cause, Outcome, StepError, Target};

const OPEN: i64 = 0;
const CLOSED: i64 = 1;

pub(super) fn operate(
    keyspace: &mut Keyspace,
    now: Now,
    target: &Target,
    action: Action,
    post: &mut Post<'_>,
) -> Result<Outcome, StepError> {
    let key = target.name.as_str();
    let count = count(keyspace, now, target)?;
    let answer = match action {
        Action::SetCount(wanted) if count == 0 && wanted > 0 => {
            let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
            keyspace.put(key, Value::Text(wanted.to_string()), None, now);
            post.publish(&target.channel, CLOSED);
            1
        }
        Action::CountDown if count > 1 => {
            if let Some(entry) = keyspace.get(key, now) {
                entry.value = Value::Text((count - 1).to_string());
            }
            count - 1
        }
        Action::CountDown if count == 1 => {
            keyspace.remove(key);
            post.publish(&target.channel, OPEN);
            0
        }
        Action::RemoveLatch if count > 0 => {
            keyspace.remove(key);
            post.publish(&target.channel, CLOSED);
            1
        }
        Action::Count => count,
        _ => 0,
    };
    Ok(Outcome::Number(answer))
}

/// The count; anything but a number above zero is of another kind.
fn count(keyspace: &mut Keyspace, now: Now, target: &Target) -> Result<i64, StepError> {
    let Some(entry) = keyspace.get(target.name.as_str(), now) else {
        return Ok(0);
    };
    let count = match &entry.value {
        Value::Text(text) => text
            .parse::<i64>()
            .ok()
            .filter(|count| *count > 0 && count.to_string() == *text),
        _ => None,
    };
    count.ok_or_else(|| StepError::none(Cause::WrongKind(mutex::kind(&entry.value).to_owned())))
}
