//! `lockkeeper unlock --force`.

use std::io;

use lockkeeper::{Error, Inspection, Keeper};

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
        let freed = free(&keeper, &found).await?;
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

/// Frees it as what it was found to be. What is no lock is left alone, and told as such.
async fn free(keeper: &Keeper, found: &Inspection) -> Result<bool, Error> {
    let name = &found.name;
    match found.kind.as_deref() {
        Some("fair") => keeper.fair_mutex(name).force_unlock().await,
        Some("election") => keeper.election(name).depose().await,
        Some("rwlock") => {
            // Whoever has one side now may have changed since, so both are asked for.
            let lock = keeper.rwlock(name);
            let written = lock.force_unlock_write().await?;
            Ok(lock.force_unlock_read().await? || written)
        }
        _ => {
            let mutex = keeper.mutex(name);
            let mutex = match found.layout {
                Some(layout) => mutex.layout(layout),
                None => mutex,
            };
            mutex.force_unlock().await
        }
    }
}
