//! `lockkeeper show`.

use std::io;
use std::time::Duration;

use lockkeeper::Inspection;

use super::server::{ask, connect, layout_word, resolve};
use super::{complain, exit_for_output};
use crate::arguments::ShowArguments;
use crate::exit::Exit;
use crate::output::{HolderReport, LockReport, LockState, Paint, WaiterReport, write_lock};

pub(super) fn show(arguments: &ShowArguments) -> Exit {
    let server = match resolve(&arguments.server) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    let found = ask(async { connect(&server).await?.inspect(&arguments.name).await });
    match found {
        Ok(found) => {
            let report = report(&found);
            exit_for_output(write_lock(
                &mut io::stdout().lock(),
                &report,
                arguments.json,
                Paint::for_output(),
            ))
        }
        Err(exit) => exit,
    }
}

/// What is printed of a name.
pub(super) fn report(found: &Inspection) -> LockReport {
    let milliseconds = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let is_rwlock = found.kind.as_deref() == Some("rwlock");
    let holders: Vec<_> = found
        .holders
        .iter()
        .map(|holder| HolderReport {
            owner: holder.owner.clone(),
            holds: holder.holds,
            ttl_ms: holder.time_left.map(milliseconds),
            mode: is_rwlock.then_some(if holder.writes { "write" } else { "read" }),
            candidate: found.candidate.clone(),
        })
        .collect();
    let waiters = found.waiting.iter().map(|waiter| WaiterReport {
        owner: waiter.owner.clone(),
        ttl_ms: waiter.time_left.map(milliseconds),
    });
    LockReport {
        name: found.name.clone(),
        // A free lock leaves no trace of what it was.
        kind: found.kind.clone().unwrap_or_else(|| "mutex".to_owned()),
        layout: found.layout.map(|layout| layout_word(layout).to_owned()),
        state: match found.resting {
            Some(_) => LockState::Resting,
            None if !holders.is_empty() => LockState::Held,
            None if found.kind.as_deref().is_none_or(is_held_by_somebody) => LockState::Free,
            None => LockState::Set,
        },
        holders,
        waiters: waiters.collect(),
        counts: found.counts.clone(),
        resting_ms: found.resting.map(milliseconds),
        token: found.token.map(lockkeeper::Token::get),
    }
}

/// Whether somebody can hold an object of this kind.
fn is_held_by_somebody(kind: &str) -> bool {
    matches!(kind, "mutex" | "fair" | "rwlock" | "permits" | "election")
}

/// A key that is no lock: said, so that nobody takes "free" for an invitation.
pub(super) fn warn_of_another_kind(found: &Inspection) {
    if let Some(kind) = found.kind.as_deref().filter(|kind| !is_held_by_somebody(kind)) {
        complain(format_args!("the key is a {kind}, and no lock"));
    }
}
