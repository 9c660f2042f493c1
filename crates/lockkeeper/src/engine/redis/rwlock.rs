//! What is sent for the read-write lock.

use redis::Cmd;

use super::hold::Window;
use super::mutex::record_life;
use super::script::{self, Script};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Kind, Renew, Target};

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    if target.kind == Kind::Read {
        let mut command = script::RWLOCK_ACQUIRE_READ.call(4, 5, size(target));
        command
            .arg(target.name.as_str())
            .arg(target.hold_key(&step.owner))
            .arg(target.writers_key())
            .arg(target.readers_key())
            .arg(step.owner.as_str())
            .arg(step.lease);
        match step.waiting {
            Some(waiting) => command.arg(waiting.waited),
            None => command.arg(-1),
        };
        command.arg(window.use_by).arg(window.limit);
        return (&script::RWLOCK_ACQUIRE_READ, command);
    }
    let mut command = script::RWLOCK_ACQUIRE_WRITE.call(6, 7, size(target));
    command
        .arg(target.name.as_str())
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(target.hold_key_base())
        .arg(target.writers_key())
        .arg(target.readers_key());
    write_arguments(&mut command, step, window);
    command.arg(u8::from(step.waiting.is_some()));
    (&script::RWLOCK_ACQUIRE_WRITE, command)
}

pub(super) fn convert_call(step: &Acquire, from: &Owner, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    if target.kind == Kind::Read {
        let mut command = script::RWLOCK_DOWNGRADE.call(4, 5, size(target));
        command
            .arg(target.name.as_str())
            .arg(target.hold_key(&step.owner))
            .arg(&*target.channel)
            .arg(target.readers_key())
            .arg(step.owner.as_str())
            .arg(step.lease)
            .arg(from.as_str())
            .arg(window.use_by)
            .arg(window.limit);
        return (&script::RWLOCK_DOWNGRADE, command);
    }
    let mut command = script::RWLOCK_UPGRADE.call(5, 7, size(target));
    command
        .arg(target.name.as_str())
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(target.hold_key_base())
        .arg(target.hold_key(from));
    write_arguments(&mut command, step, window);
    command.arg(from.as_str());
    (&script::RWLOCK_UPGRADE, command)
}

/// What every script that may grant tokens wants first.
fn write_arguments(command: &mut Cmd, step: &Acquire, window: Window) {
    command
        .arg(step.owner.as_str())
        .arg(step.lease)
        .arg(record_life(step.lease))
        .arg(step.block.max(1))
        .arg(window.use_by)
        .arg(window.limit);
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    let (script, mut command) = if target.kind == Kind::Read {
        let mut command = script::RWLOCK_RELEASE_READ.call(4, 1, size(target));
        command
            .arg(target.name.as_str())
            .arg(target.hold_key(owner))
            .arg(target.hold_key_base())
            .arg(&*target.channel);
        (&*script::RWLOCK_RELEASE_READ, command)
    } else {
        let mut command = script::RWLOCK_RELEASE_WRITE.call(4, 1, size(target));
        command
            .arg(target.name.as_str())
            .arg(target.hold_key_base())
            .arg(&*target.channel)
            .arg(target.writers_key());
        (&*script::RWLOCK_RELEASE_WRITE, command)
    };
    command.arg(owner.as_str());
    (script, command)
}

pub(super) fn force_release_call(target: &Target) -> (&'static Script, Cmd) {
    let (side, message) = match target.kind {
        Kind::Read => ("read", "0"),
        _ => ("write", "1"),
    };
    let mut command = script::RWLOCK_FORCE_RELEASE.call(2, 2, size(target));
    command
        .arg(target.name.as_str())
        .arg(&*target.channel)
        .arg(side)
        .arg(message);
    (&script::RWLOCK_FORCE_RELEASE, command)
}

/// The read holds of one batch, which have their terms in common. Write holds are renewed as any hash with an owner's field.
pub(super) fn renew_read_call(entries: &[Renew], batch: &[usize], window: Window) -> (&'static Script, Cmd) {
    let batched = || batch.iter().map(|place| &entries[*place]);
    let first = &entries[batch[0]];
    let mut command = script::RWLOCK_RENEW_READ.call(2 * batch.len(), 4 + batch.len(), batch.len() * 192);
    for entry in batched() {
        command.arg(entry.target.name.as_str());
    }
    for entry in batched() {
        command.arg(entry.target.hold_key(&entry.owner));
    }
    command
        .arg(window.use_by)
        .arg(window.limit)
        .arg(first.lease)
        .arg(first.longest.max(first.lease));
    for entry in batched() {
        command.arg(entry.owner.as_str());
    }
    (&script::RWLOCK_RENEW_READ, command)
}

fn size(target: &Target) -> usize {
    target.name.as_str().len() * 6 + 320
}
