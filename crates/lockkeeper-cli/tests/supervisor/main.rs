//! Supervises real commands under a rehearsed hold: no server, and no other part of the program.
//!
//! The supervisor starts helpers by running the current program again, so this program is, by its first word, a
//! helper, a stand-in for `lockkeeper run`, the first process of a terminal session, or the tests.

mod guarding;
mod loss;
mod passing;
mod pausing;
mod processes;
mod rehearsal;
mod screen;
mod secrecy;
mod signals;
mod stage;
mod terminal;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

/// What a test is: it fails by panicking.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    if let Some(code) = lockkeeper_cli::supervisor::helper() {
        return code;
    }
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((part, rest)) if part == rehearsal::PART => return rehearsal::play(rest),
        Some((part, rest)) if part == screen::PART => return screen::open_session(rest),
        Some((part, _)) if part == secrecy::PART => return secrecy::show_ourselves(),
        _ => {}
    }
    let tests = [
        passing::TESTS,
        signals::TESTS,
        loss::TESTS,
        guarding::TESTS,
        terminal::TESTS,
        pausing::TESTS,
        secrecy::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().map(|(name, test): Test| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
