//! What is sent for the fair mutex.

use redis::Cmd;

use super::hold::Window;
use super::mutex::record_life;
use super::script::{self, Script};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Target};

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    let mut command = script::FAIR_ACQUIRE.call(6, 7, size(target) + target.token_key.len() * 2);
    command
        .arg(target.name.as_str())
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(target.queue_key())
        .arg(target.timeout_key())
        .arg(&*target.channel)
        .arg(step.owner.as_str())
        .arg(step.lease)
        .arg(record_life(step.lease))
        .arg(step.block.max(1))
        .arg(window.use_by)
        .arg(window.limit)
        .arg(step.waiting.map_or(0, |waiting| waiting.grace.max(1)));
    (&script::FAIR_ACQUIRE, command)
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    let mut command = freeing_call(target, &script::FAIR_RELEASE);
    command.arg(owner.as_str());
    (&script::FAIR_RELEASE, command)
}

pub(super) fn force_release_call(target: &Target) -> (&'static Script, Cmd) {
    (
        &script::FAIR_FORCE_RELEASE,
        freeing_call(target, &script::FAIR_FORCE_RELEASE),
    )
}

fn freeing_call(target: &Target, script: &Script) -> Cmd {
    let mut command = script.call(4, 1, size(target));
    command
        .arg(target.name.as_str())
        .arg(target.queue_key())
        .arg(target.timeout_key())
        .arg(&*target.channel);
    command
}

fn size(target: &Target) -> usize {
    target.name.as_str().len() * 4 + 160
}
