//! The way to the server, and what its errors mean for the exit code.

use lockkeeper::{Error, Keeper, KeeperBuilder};

use super::complain;
use crate::arguments::{Layout, Server, ServerArguments};
use crate::exit::Exit;

/// The server that was asked for; bad usage is told here.
pub(super) fn resolve(arguments: &ServerArguments) -> Result<Server, Exit> {
    arguments.resolve().map_err(|problem| {
        complain(problem);
        Exit::Usage
    })
}

/// Connects with the password that belongs to the server.
pub(super) async fn connect(server: &Server) -> Result<Keeper, Error> {
    settings(server).connect(&server.url).await
}

fn settings(server: &Server) -> KeeperBuilder {
    match &server.password {
        Some(password) => Keeper::builder().password(password.reveal()),
        None => Keeper::builder(),
    }
}

/// Runs a short question to the server.
pub(super) fn ask<T>(question: impl Future<Output = Result<T, Error>>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|problem| {
            complain(problem);
            Exit::Failure
        })?;
    runtime.block_on(question).map_err(|error| {
        complain(&error);
        exit_for(&error)
    })
}

/// The exit code for an error before or after the command ran.
pub(super) fn exit_for(error: &Error) -> Exit {
    match error {
        Error::Busy { .. } | Error::TimedOut { .. } | Error::AttemptsUsedUp { .. } => Exit::NotAcquired,
        Error::Lost(_) | Error::NotHeld => Exit::Lost,
        Error::Unreachable { .. } | Error::Tls { .. } => Exit::Unreachable,
        Error::Refused { refusal, .. } if refusal.is_transient() => Exit::Unreachable,
        Error::Name(_) | Error::Lease(_) | Error::Candidate(_) | Error::Permits(_) | Error::Url(_) => Exit::Usage,
        _ => Exit::Failure,
    }
}

impl From<Layout> for lockkeeper::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Redisson => Self::Redisson,
            Layout::Plain => Self::Plain,
        }
    }
}

/// The word that is typed and printed for a layout.
pub(super) fn layout_word(layout: lockkeeper::Layout) -> &'static str {
    match layout {
        lockkeeper::Layout::Redisson => "redisson",
        lockkeeper::Layout::Plain => "plain",
        _ => "unknown",
    }
}
