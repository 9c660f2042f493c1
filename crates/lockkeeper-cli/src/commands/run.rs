//! `lockkeeper run`.

use lockkeeper::Error;

use super::complain;
use super::holder::{Held, Holder};
use super::server::{exit_for, resolve};
use crate::arguments::RunArguments;
use crate::exit::Exit;
use crate::supervisor::{How, Supervisor, Waited};

/// Takes the lock, runs the command under it, frees the lock.
pub(super) fn run(arguments: &RunArguments) -> Exit {
    let server = match resolve(&arguments.server) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    // First of all, so that no signal can end the program between a grant and its release.
    let mut supervisor = match Supervisor::prepare() {
        Ok(supervisor) => supervisor,
        Err(problem) => return failed(problem),
    };
    let (promise, outcome) = supervisor.promise();
    let holder = match Holder::start(server, arguments, supervisor.waker(), promise) {
        Ok(holder) => holder,
        Err(problem) => return failed(problem),
    };
    let waited = supervisor.wait_for(&outcome);
    let (exit, was_held) = match waited {
        Ok(Waited::Done(Ok(held))) => (under_the_lock(&mut supervisor, arguments, &held), true),
        Ok(Waited::Done(Err(error))) => {
            complain(&error);
            (exit_for(&error), false)
        }
        Ok(Waited::Interrupted(signal)) => (Exit::Signalled(signal), false),
        Ok(Waited::Gone) => (failed("the thread that gets the lock ended"), false),
        Err(problem) => (failed(problem), false),
    };
    match holder.finish() {
        Some(Err(Error::Lost(_) | Error::NotHeld)) if exit != Exit::Lost => {
            complain("the lock was lost before it was freed: the work may have overlapped with somebody else's");
            Exit::Lost
        }
        Some(Err(error)) if exit != Exit::Lost => {
            complain(format_args!("the lock ends with its lease: {error}"));
            exit
        }
        None if was_held => {
            complain("the lock ends with its lease: the server did not answer");
            exit
        }
        _ => exit,
    }
}

fn under_the_lock(supervisor: &mut Supervisor, arguments: &RunArguments, held: &Held) -> Exit {
    let variables = held.environment.variables();
    let ended = match supervisor.run(&arguments.words(), &variables, &held.hold) {
        Ok(ended) => ended,
        Err(problem) => return failed(problem),
    };
    if ended.lost {
        complain("the lock was lost while the command ran");
    }
    let started = !matches!(ended.how, How::NotStarted(_));
    if let Some(least) = arguments.at_least.filter(|_| started && !ended.lost) {
        match supervisor.rest_until(held.since.after(least), &held.hold) {
            Ok(Waited::Done(())) => {}
            Ok(Waited::Interrupted(signal)) => return Exit::Signalled(signal),
            Ok(Waited::Gone) => {
                complain("the lock was lost before its least time was over");
                return Exit::Lost;
            }
            Err(problem) => return failed(problem),
        }
    }
    ended.exit()
}

fn failed(problem: impl std::fmt::Display) -> Exit {
    complain(problem);
    Exit::Failure
}
