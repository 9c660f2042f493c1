//! What is sent for the mutex in both layouts, the spin mutex and the fenced mutex.

use redis::Cmd;

use super::hold::Window;
use super::script::{self, Script};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Kind, Layout, Rest, Target, resting_mark};

/// How much longer than the lease a token record lives, in milliseconds. Longer than any clock of a server steps back.
const RECORD_OUTLIVES_LEASE: u64 = 10 * 60 * 1000;

/// The life of a token record beside a lease, in milliseconds.
pub(super) fn record_life(lease: u64) -> u64 {
    lease.saturating_add(RECORD_OUTLIVES_LEASE)
}

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    let script = match target.kind {
        Kind::Fenced => &*script::FENCED_ACQUIRE,
        kind if kind.layout() == Layout::Plain => &*script::PLAIN_ACQUIRE,
        _ => &*script::MUTEX_ACQUIRE,
    };
    let name = target.name.as_str();
    let size = name.len() + target.token_key.len() + target.peer_token_key.len() + step.owner.as_str().len() + 96;
    let mut command = script.call(3, 6, size);
    command
        .arg(name)
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(step.owner.as_str())
        .arg(step.lease);
    if target.kind != Kind::Fenced {
        command.arg(record_life(step.lease)).arg(step.block.max(1));
    }
    command.arg(window.use_by).arg(window.limit);
    (script, command)
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    let script = match target.kind {
        Kind::Spin => &*script::SPIN_RELEASE,
        kind if kind.layout() == Layout::Plain => &*script::PLAIN_RELEASE,
        _ => &*script::MUTEX_RELEASE,
    };
    let name = target.name.as_str();
    let keys = if target.kind == Kind::Spin { 1 } else { 2 };
    let mut command = script.call(keys, 1, name.len() + target.channel.len() + owner.as_str().len());
    command.arg(name);
    if target.kind != Kind::Spin {
        command.arg(&*target.channel);
    }
    command.arg(owner.as_str());
    (script, command)
}

pub(super) fn rest_call(target: &Target, owner: &Owner, rest: Rest) -> (&'static Script, Cmd) {
    let script = match target.kind.layout() {
        Layout::Plain => &*script::PLAIN_REST,
        Layout::Redisson => &*script::MUTEX_REST,
    };
    let (name, owner, mark) = (target.name.as_str(), owner.as_str(), resting_mark(owner));
    let mut command = script.call(2, 4, name.len() + target.channel.len() + owner.len() + mark.len() + 48);
    command
        .arg(name)
        .arg(&*target.channel)
        .arg(owner)
        .arg(mark)
        .arg(rest.until)
        .arg(rest.longest);
    (script, command)
}

pub(super) fn force_release_call(target: &Target) -> (&'static Script, Cmd) {
    let script = match target.kind {
        Kind::Spin => &*script::SPIN_FORCE_RELEASE,
        kind if kind.layout() == Layout::Plain => &*script::PLAIN_FORCE_RELEASE,
        _ => &*script::MUTEX_FORCE_RELEASE,
    };
    let name = target.name.as_str();
    let keys = if target.kind == Kind::Spin { 1 } else { 2 };
    let mut command = script.call(keys, 0, name.len() + target.channel.len());
    command.arg(name);
    if target.kind != Kind::Spin {
        command.arg(&*target.channel);
    }
    (script, command)
}
