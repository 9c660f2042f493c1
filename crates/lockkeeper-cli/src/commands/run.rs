//! `lockkeeper run`.

use lockkeeper::Error;

use super::complain;
use super::holder::{Held, Holder};
use super::server::{exit_for, resolve};
use super::taking::{What, Wish};
use crate::arguments::{Kind, RunArguments};
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
    let holder = match Holder::start(server, wish(arguments), supervisor.waker(), promise) {
        Ok(holder) => holder,
        Err(problem) => return failed(problem),
    };
    let mut ran = true;
    let (exit, was_held) = match supervisor.wait_for(&outcome) {
        Ok(Waited::Done(Ok(Some(held)))) => {
            let (exit, started) = under_the_lock(&mut supervisor, arguments, &held);
            ran = started;
            (exit, true)
        }
        Ok(Waited::Done(Ok(None))) => {
            complain("somebody else does it in this period");
            (Exit::NotAcquired, false)
        }
        Ok(Waited::Done(Err(error))) => {
            complain(&error);
            (exit_for(&error), false)
        }
        Ok(Waited::Interrupted(signal)) => (Exit::Signalled(signal), false),
        Ok(Waited::Gone) => (failed("the thread that gets the lock ended"), false),
        Err(problem) => (failed(problem), false),
    };
    match holder.finish(ran) {
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

/// The exit code, and whether the command was started.
fn under_the_lock(supervisor: &mut Supervisor, arguments: &RunArguments, held: &Held) -> (Exit, bool) {
    let variables = held.environment.variables();
    let ended = match supervisor.run(&arguments.work.words(), &variables, &held.hold) {
        Ok(ended) => ended,
        Err(problem) => return (failed(problem), false),
    };
    if ended.lost {
        complain("the lock was lost while the command ran");
    }
    (ended.exit(), !matches!(ended.how, How::NotStarted(_)))
}

fn wish(arguments: &RunArguments) -> Wish {
    let layout = arguments.layout.into();
    Wish {
        name: arguments.name.clone(),
        what: match (arguments.kind, arguments.at_least) {
            (Kind::Mutex, None) => What::Mutex(layout),
            (Kind::Mutex, Some(at_least)) => What::Periodic { layout, at_least },
            (Kind::Fair, _) => What::Fair,
            (Kind::Read, _) => What::Read,
            (Kind::Write, _) => What::Write,
            (Kind::Permit, _) => What::Permit(arguments.permits),
        },
        lease: arguments.work.whole_lease(),
        wait: arguments.wait,
        max_hold: arguments.work.max_hold,
    }
}

pub(super) fn failed(problem: impl std::fmt::Display) -> Exit {
    complain(problem);
    Exit::Failure
}
