//! This program, started again in a part of its own.

use super::{child, guardian};
use crate::arguments::{PASSWORD_VARIABLE, Secret};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

pub(super) const CHILD: &str = "__child";
pub(super) const GUARDIAN: &str = "__guardian";

/// This very program, even if its file was replaced in the meantime.
pub(super) fn ourselves() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("lockkeeper");
    command
}

/// Plays the part of a helper, if the command line says that this process is one. To be called first in `main`.
#[must_use]
pub fn helper() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let part = words.next()?;
    let words: Vec<OsString> = words.collect();
    if part == OsStr::new(CHILD) {
        Some(child::become_command(&words))
    } else if part == OsStr::new(GUARDIAN) {
        Some(guardian::keep_watch(&words))
    } else {
        None
    }
}

/// Starts the program again with other words, the first one being its name, and the password in the environment.
/// Returns only if that fails.
#[must_use]
pub fn start_again(words: &[OsString], password: &Secret) -> io::Error {
    let mut command = ourselves();
    if let Some((name, rest)) = words.split_first() {
        command.arg0(name).args(rest);
    }
    command.env(PASSWORD_VARIABLE, password).exec()
}
