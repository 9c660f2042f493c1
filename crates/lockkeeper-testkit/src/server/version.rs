//! Which server program this is, and what it can do.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The two server programs that speak the same protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// Redis.
    Redis,
    /// Valkey, which began as Redis 7.2.
    Valkey,
}

/// Program and version of a server, as its `--version` line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerVersion {
    /// Redis or Valkey.
    pub kind: ServerKind,
    /// First number of the version.
    pub major: u32,
    /// Second number of the version.
    pub minor: u32,
    /// Third number of the version.
    pub patch: u32,
}

static KNOWN: LazyLock<Mutex<HashMap<PathBuf, ServerVersion>>> = LazyLock::new(Mutex::default);

impl ServerVersion {
    /// Asks the program at `binary`; asked once per program and then remembered.
    ///
    /// # Errors
    ///
    /// If the program cannot be run, or does not answer like Redis or Valkey.
    pub fn of_binary(binary: &Path) -> io::Result<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known.get(binary) {
            return Ok(*version);
        }
        let output = Command::new(binary).arg("--version").output()?;
        let line = String::from_utf8_lossy(&output.stdout);
        let version = Self::parse(&line).ok_or_else(|| {
            io::Error::other(format!(
                "{} is not Redis or Valkey: it answers {line:?}",
                binary.display()
            ))
        })?;
        known.insert(binary.to_owned(), version);
        Ok(version)
    }

    /// Reads a line like `Redis server v=7.0.15 sha=00000000:0 ..`.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let kind = match line.split_whitespace().next()?.to_ascii_lowercase().as_str() {
            "redis" => ServerKind::Redis,
            "valkey" => ServerKind::Valkey,
            _ => return None,
        };
        let text = line.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
        let mut numbers = text.split('.').map(|number| {
            let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            number[..digits].parse::<u32>().ok()
        });
        Some(Self {
            kind,
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next().flatten().unwrap_or(0),
        })
    }

    /// Whether this is at least the given version. Valkey counts on from Redis 7.2, so the numbers compare.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Whether `DEBUG` has to be, and can be, allowed by an option (from 7.0).
    #[must_use]
    pub fn has_debug_option(&self) -> bool {
        self.at_least(7, 0)
    }

    /// Whether `SSUBSCRIBE` and `SPUBLISH` exist (from 7.0).
    #[must_use]
    pub fn has_sharded_channels(&self) -> bool {
        self.at_least(7, 0)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}.{}.{}", self.kind, self.major, self.minor, self.patch)
    }
}
