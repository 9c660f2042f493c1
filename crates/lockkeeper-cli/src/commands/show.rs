//! `lockkeeper show`.

use std::io;

use lockkeeper::Inspection;

use super::server::{ask, connect, layout_word, resolve};
use super::{complain, exit_for_output};
use crate::arguments::ShowArguments;
use crate::exit::Exit;
use crate::output::{HolderReport, LockReport, LockState, Paint, write_lock};

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
    let holders: Vec<_> = found
        .holders
        .iter()
        .map(|holder| HolderReport {
            owner: holder.owner.clone(),
            holds: holder.holds,
            ttl_ms: holder
                .time_left
                .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        })
        .collect();
    LockReport {
        name: found.name.clone(),
        // A free lock leaves no trace of what it was.
        kind: found.kind.clone().unwrap_or_else(|| "mutex".to_owned()),
        layout: found.layout.map(|layout| layout_word(layout).to_owned()),
        state: if holders.is_empty() {
            LockState::Free
        } else {
            LockState::Held
        },
        holders,
        token: found.token.map(lockkeeper::Token::get),
    }
}

/// A key that is no lock: said, so that nobody takes "free" for an invitation.
pub(super) fn warn_of_another_kind(found: &Inspection) {
    if let Some(kind) = found.kind.as_deref().filter(|kind| *kind != "mutex") {
        complain(format_args!("the key is a {kind}, not a mutex"));
    }
}
