//! The `lockkeeper` program, as a library so that its tests can reach every part.
//!
//! - [`arguments`]: what can be typed, and nothing about what it does
//! - [`commands`]: one file per command
//! - [`demo`]: the ticket sale
//! - [`supervisor`]: runs a command while a hold lasts
//! - [`output`]: tables and JSON
//! - [`exit`]: exit codes

pub mod arguments;
pub mod commands;
pub mod demo;
pub mod exit;
pub mod output;
pub mod supervisor;

use std::process::ExitCode;

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = supervisor::helper().or_else(demo::helper) {
        return code;
    }
    let words: Vec<_> = std::env::args_os().collect();
    if let Some((clean, password)) = arguments::hide_passwords(&words) {
        let problem = supervisor::start_again(&clean, &password);
        commands::complain(format_args!("cannot start again without the password: {problem}"));
        return exit::Exit::Failure.into();
    }
    match arguments::parse(words) {
        Ok(arguments) => commands::dispatch(&arguments.command).into(),
        Err(problem) => problem.report().into(),
    }
}
