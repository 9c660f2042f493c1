//! One file per command.

mod completions;
mod manual;

use crate::arguments::Command;
use crate::exit::Exit;

/// Does what was asked.
#[must_use]
pub fn dispatch(command: &Command) -> Exit {
    match command {
        Command::Completions(arguments) => completions::print(arguments.shell),
        Command::Man => manual::print(),
        Command::Demo(arguments) => crate::demo::run(arguments),
        Command::Run(_) | Command::Show(_) | Command::Unlock(_) => {
            complain("this command needs the lock library, which is not part of this build");
            Exit::Failure
        }
    }
}

/// Tells the user about a failure on standard error.
pub(crate) fn complain(problem: impl std::fmt::Display) {
    use std::io::Write;
    // A closed standard error must not turn one failure into another.
    let _ = writeln!(std::io::stderr(), "lockkeeper: {problem}");
}

/// Prints a whole document; a reader that closes early (`| head`) is content.
fn print_document(bytes: &[u8]) -> Exit {
    use std::io::{self, ErrorKind, Write};
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(problem) if problem.kind() != ErrorKind::BrokenPipe => {
            complain(problem);
            Exit::Failure
        }
        _ => Exit::Success,
    }
}
