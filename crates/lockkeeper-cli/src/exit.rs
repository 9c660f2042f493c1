//! Exit codes, all of them in one place.

use std::process::ExitCode;

/// How the program ends. The numbers follow `sysexits.h` and the shell, so that scripts can tell
/// "somebody else has the lock" from "the command failed".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well: 0.
    Success,
    /// Something failed that has no code of its own: 1.
    Failure,
    /// The command ran and ended with this code.
    Command(u8),
    /// The command, or the wait for the lock, was ended by signal number n: 128 + n.
    Signalled(i32),
    /// Bad usage: 64 (`EX_USAGE`).
    Usage,
    /// The server could not be reached: 69 (`EX_UNAVAILABLE`).
    Unreachable,
    /// The lock was not acquired in time: 75 (`EX_TEMPFAIL`, try again later).
    NotAcquired,
    /// The lock was lost while the command ran: 79.
    Lost,
    /// `doctor` found what weakens the locks: 80.
    Weakened,
    /// `doctor` found what breaks them: 81.
    Broken,
    /// The command was found but cannot be executed: 126.
    NotExecutable,
    /// The command was not found: 127.
    NotFound,
}

/// The table for `--help` and the man page.
pub const TABLE: &str = "\
Exit codes:
  0      success, or what COMMAND itself returned
  1      another failure
  64     bad usage
  69     server unreachable
  75     lock not acquired in time
  79     lock lost while COMMAND ran
  80     doctor: something weakens the locks
  81     doctor: something breaks the locks
  126    COMMAND cannot be executed
  127    COMMAND not found
  128+n  ended by signal n (COMMAND, or the wait for the lock)";

impl Exit {
    /// The number that the calling process sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Command(code) => code,
            Self::Signalled(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX)),
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::NotAcquired => 75,
            Self::Lost => 79,
            Self::Weakened => 80,
            Self::Broken => 81,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_numbers_are_those_of_the_documentation() {
        let table = [
            (Exit::Success, 0),
            (Exit::Command(42), 42),
            (Exit::Signalled(15), 143),
            (Exit::Signalled(9), 137),
            (Exit::Usage, 64),
            (Exit::Unreachable, 69),
            (Exit::NotAcquired, 75),
            (Exit::Lost, 79),
            (Exit::Weakened, 80),
            (Exit::Broken, 81),
            (Exit::NotExecutable, 126),
            (Exit::NotFound, 127),
        ];
        for (exit, code) in table {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }
}
