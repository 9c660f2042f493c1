//! `lockkeeper unlock --force`.

use std::io;

use super::exit_for_output;
use super::server::{ask, connect, resolve};
use super::show::{report, warn_of_another_kind};
use crate::arguments::UnlockArguments;
use crate::exit::Exit;
use crate::output::{LockState, Paint, UnlockReport, write_unlock};

pub(super) fn unlock(arguments: &UnlockArguments) -> Exit {
    let server = match resolve(&arguments.server) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    let outcome = ask(async {
        let keeper = connect(&server).await?;
        let found = keeper.inspect(&arguments.name).await?;
        let mutex = keeper.mutex(&arguments.name);
        // Freed in the layout in which it was found; a key of another kind is left alone and told as such.
        let mutex = match found.layout {
            Some(layout) => mutex.layout(layout),
            None => mutex,
        };
        let freed = mutex.force_unlock().await?;
        Ok((found, freed))
    });
    match outcome {
        Ok((found, freed)) => {
            warn_of_another_kind(&found);
            let mut lock = report(&found);
            lock.state = LockState::Free;
            let report = UnlockReport {
                lock,
                freed,
                reason: arguments.reason.clone(),
            };
            exit_for_output(write_unlock(
                &mut io::stdout().lock(),
                &report,
                arguments.json,
                Paint::for_output(),
            ))
        }
        Err(exit) => exit,
    }
}
