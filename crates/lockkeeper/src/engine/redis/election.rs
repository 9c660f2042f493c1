//! What is sent for the election.

use redis::Cmd;

use super::hold::Window;
use super::mutex::record_life;
use super::script::{self, Script};
use crate::base::owner::Owner;
use crate::engine::{Acquire, Target};

pub(super) fn acquire_call(step: &Acquire, window: Window) -> (&'static Script, Cmd) {
    let target = &*step.target;
    let candidate = step.candidate.as_deref().unwrap_or_default();
    let size = 4 * target.token_key.len() + step.owner.as_str().len() + candidate.len() + 96;
    let mut command = script::ELECTION_ACQUIRE.call(4, 7, size);
    command
        .arg(target.name.as_str())
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(&*target.channel)
        .arg(step.owner.as_str())
        .arg(step.lease)
        .arg(record_life(step.lease))
        .arg(step.block.max(1))
        .arg(window.use_by)
        .arg(window.limit)
        .arg(candidate);
    (&script::ELECTION_ACQUIRE, command)
}

pub(super) fn release_call(target: &Target, owner: &Owner) -> (&'static Script, Cmd) {
    let size = target.name.as_str().len() + target.channel.len() + owner.as_str().len();
    let mut command = script::ELECTION_RELEASE.call(2, 1, size);
    command
        .arg(target.name.as_str())
        .arg(&*target.channel)
        .arg(owner.as_str());
    (&script::ELECTION_RELEASE, command)
}

pub(super) fn force_release_call(target: &Target) -> (&'static Script, Cmd) {
    let size = target.name.as_str().len() + target.channel.len();
    let mut command = script::ELECTION_FORCE_RELEASE.call(2, 0, size);
    command.arg(target.name.as_str()).arg(&*target.channel);
    (&script::ELECTION_FORCE_RELEASE, command)
}
