//! One file per command.

mod completions;
mod doctor;
mod elect;
mod holder;
mod manual;
mod run;
mod scripts;
mod server;
mod show;
mod taking;
mod unlock;

use crate::arguments::Command;
use crate::exit::Exit;

/// Does what was asked.
#[must_use]
pub fn dispatch(command: &Command) -> Exit {
    match command {
        Command::Completions(arguments) => completions::print(arguments.shell),
        Command::Man => manual::print(),
        Command::Run(arguments) => run::run(arguments),
        Command::Elect(arguments) => elect::elect(arguments),
        Command::Doctor(arguments) => doctor::doctor(arguments),
        Command::Scripts(arguments) => scripts::scripts(arguments),
        Command::Show(arguments) => show::show(arguments),
        Command::Unlock(arguments) => unlock::unlock(arguments),
        Command::Demo(arguments) => crate::demo::run(arguments),
    }
}

/// Tells the user about a failure on standard error.
pub(crate) fn complain(problem: impl std::fmt::Display) {
    use std::io::Write;
    // A closed standard error must not turn one failure into another.
    let _ = writeln!(std::io::stderr(), "lockkeeper: {problem}");
}

/// The exit code for something printed; a reader that closes early is content.
fn exit_for_output(outcome: std::io::Result<()>) -> Exit {
    match outcome {
        Err(problem) if problem.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(problem);
            Exit::Failure
        }
        _ => Exit::Success,
    }
}

/// Prints a whole document; a reader that closes early (`| head`) is content.
fn print_document(bytes: &[u8]) -> Exit {
    use std::io::{self, Write};
    let mut out = io::stdout().lock();
    exit_for_output(out.write_all(bytes).and_then(|()| out.flush()))
}
