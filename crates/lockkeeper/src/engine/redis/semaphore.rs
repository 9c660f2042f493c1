//! What is sent for both semaphores: the one whose permits are leased, and the plain one.

use redis::Cmd;

use super::hold::Window;
use super::script::{self, Script};
use crate::base::owner::Owner;
use crate::engine::{ANSWER_LIFE, Acquire, Action, Kind, Operation, Renew, SEMAPHORE_RECORD_LIFE, Target};

/// The word by which records and scripts tell the two apart.
pub(super) const fn word(target: &Target) -> &'static str {
    match target.kind {
        Kind::Permits => "permits",
        _ => "semaphore",
    }
}

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    let name = target.name.as_str();
    let size = 3 * name.len() + step.owner.as_str().len() + 128;
    if target.kind == Kind::Permits {
        let mut command = script::PERMITS_ACQUIRE.call(3, 4, size);
        command
            .arg(name)
            .arg(target.permits_key())
            .arg(&*target.channel)
            .arg(step.owner.as_str())
            .arg(step.lease)
            .arg(window.use_by)
            .arg(window.limit);
        return (&script::PERMITS_ACQUIRE, command);
    }
    let mut command = script::SEMAPHORE_ACQUIRE.call(3, 4, size);
    command
        .arg(name)
        .arg(target.permits_key())
        .arg(target.answer_key(&step.owner))
        .arg(step.permits)
        .arg(ANSWER_LIFE)
        .arg(window.use_by)
        .arg(window.limit);
    (&script::SEMAPHORE_ACQUIRE, command)
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    let name = target.name.as_str();
    let size = 4 * name.len() + owner.as_str().len() + 128;
    if target.kind == Kind::Permits {
        let mut command = script::PERMITS_RELEASE.call(3, 1, size);
        command
            .arg(name)
            .arg(target.permits_key())
            .arg(&*target.channel)
            .arg(owner.as_str());
        return (&script::PERMITS_RELEASE, command);
    }
    let mut command = script::SEMAPHORE_GIVE_BACK.call(4, 1, size);
    command
        .arg(name)
        .arg(target.permits_key())
        .arg(&*target.channel)
        .arg(target.answer_key(owner))
        .arg(ANSWER_LIFE);
    (&script::SEMAPHORE_GIVE_BACK, command)
}

/// Entries of one lease and one longest lease.
pub(super) fn renew_call<'a>(
    entries: impl ExactSizeIterator<Item = &'a Renew> + Clone,
    window: Window,
) -> (&'static Script, Cmd) {
    let count = entries.len();
    let size = entries.clone().map(|entry| 64 + entry.owner.as_str().len()).sum();
    let (lease, longest) = entries
        .clone()
        .next()
        .map_or((0, 0), |entry| (entry.lease, entry.longest.max(entry.lease)));
    let mut command = script::PERMITS_RENEW.call(count, 4 + count, size);
    for entry in entries.clone() {
        command.arg(entry.target.permits_key());
    }
    command.arg(window.use_by).arg(window.limit).arg(lease).arg(longest);
    for entry in entries {
        command.arg(entry.owner.as_str());
    }
    (&script::PERMITS_RENEW, command)
}

pub(super) fn operate_call(operation: &Operation, window: Window) -> (&'static Script, Cmd) {
    let target = &*operation.target;
    let name = target.name.as_str();
    let (script, first, second) = match operation.action {
        Action::TrySetPermits { permits, life } => (
            &*script::SEMAPHORE_TRY_SET,
            Some(permits.to_string()),
            Some(life.map_or_else(String::new, |life| life.to_string())),
        ),
        Action::SetPermits(permits) => (&*script::PERMITS_SET, Some(permits.to_string()), None),
        Action::AddPermits { permits, if_there } => (
            &*script::SEMAPHORE_ADD,
            Some(permits.to_string()),
            Some(u8::from(if_there).to_string()),
        ),
        Action::DrainPermits => (&*script::SEMAPHORE_DRAIN, None, None),
        Action::RemovePermits => (&*script::SEMAPHORE_REMOVE, None, None),
        _ => {
            let mut command = script::SEMAPHORE_COUNT.call(2, 1, 2 * name.len() + 64);
            command.arg(name).arg(target.permits_key()).arg(word(target));
            return (&script::SEMAPHORE_COUNT, command);
        }
    };
    let mut command = script.call(5, 7, 5 * name.len() + 256);
    command
        .arg(name)
        .arg(target.permits_key())
        .arg(&*target.channel)
        .arg(target.answer_key(&operation.mark))
        .arg(target.semaphore_record_key())
        .arg(window.use_by)
        .arg(window.limit)
        .arg(ANSWER_LIFE)
        .arg(word(target))
        .arg(SEMAPHORE_RECORD_LIFE);
    for argument in [first, second].into_iter().flatten() {
        command.arg(argument);
    }
    (script, command)
}
