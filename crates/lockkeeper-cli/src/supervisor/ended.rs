//! How a command ended.

use crate::exit::Exit;
use std::io::{self, ErrorKind};

/// How a command ended, and whether it was made to.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub how: How,
    /// Whether the hold was lost before it ended.
    pub lost: bool,
    /// Whether a signal that ends programs was passed on to it, or ended it from the keyboard.
    pub asked_to_end: bool,
}

/// How a command ended.
#[derive(Debug)]
pub enum How {
    /// It returned this code.
    Exited(u8),
    /// It was ended by this signal.
    Signalled(i32),
    /// It never started.
    NotStarted(io::Error),
}

impl Ended {
    /// The exit code for it: a loss counts more than what the command said when it was stopped.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match &self.how {
            How::NotStarted(problem) if problem.kind() == ErrorKind::NotFound => Exit::NotFound,
            How::NotStarted(_) => Exit::NotExecutable,
            _ if self.lost => Exit::Lost,
            How::Exited(code) => Exit::Command(*code),
            How::Signalled(signal) => Exit::Signalled(*signal),
        }
    }
}
