//! How a server is to be started.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use super::RedisServer;
use super::launch;
use super::launch::supports_tls;
use crate::certificates::{Authority, Identity};

/// Environment variable that names the server program.
pub const BINARY_VARIABLE: &str = "LOCKKEEPER_REDIS_SERVER";

/// Options of a server that is about to start. Made by [`RedisServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder starts nothing by itself"]
pub struct ServerBuilder {
    pub(super) binary: PathBuf,
    pub(super) append_only: bool,
    pub(super) password: Option<String>,
    pub(super) tls: Option<(Identity, PathBuf)>,
    pub(super) lines: Vec<String>,
    pub(super) arguments: Vec<OsString>,
}

impl ServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            binary: env::var_os(BINARY_VARIABLE)
                .filter(|name| !name.is_empty())
                .map_or_else(|| PathBuf::from("redis-server"), PathBuf::from),
            append_only: false,
            password: None,
            tls: None,
            lines: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Uses this server program instead of `LOCKKEEPER_REDIS_SERVER` or the `redis-server` of the path.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Keeps an append-only file, so that [`RedisServer::restart`] brings the data back and
    /// [`RedisServer::append_only_commands`] can tell what was written.
    ///
    /// The file is synced every second, which survives the death of the server but not of the machine.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Sets the password of the default user; the server's addresses and [`RedisServer::connection`] carry it.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Opens a second port for TLS, where the server shows `identity` and trusts the clients of `authority`. A certificate is
    /// asked of every client; `config("tls-auth-clients", "no")` asks none.
    pub fn tls(mut self, identity: &Identity, authority: &Authority) -> Self {
        self.tls = Some((identity.clone(), authority.file().to_owned()));
        self
    }

    /// Whether the server program was built with TLS. If not, this is said on standard error, past the capture of test
    /// output: a test that then ends has shown nothing.
    #[must_use]
    pub fn can_speak_tls(&self) -> bool {
        let able = supports_tls(&self.binary);
        if !able {
            let _ = writeln!(
                io::stderr(),
                "SKIPPED: {} was built without TLS, so nothing about TLS is tested",
                self.binary.display()
            );
        }
        able
    }

    /// Adds a user, in the words of the server's access list: `user("bob", "on >secret ~lock:* +@all")`.
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// Limits the memory for data, in bytes.
    pub fn max_memory(self, bytes: u64) -> Self {
        self.config("maxmemory", &bytes.to_string())
    }

    /// Adds one line of the configuration file, such as `config("maxmemory-policy", "noeviction")`.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name} {value}"));
        self
    }

    /// Adds an argument to the command line, behind the configuration file.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the server and returns when it answers. Blocks the calling thread, usually for some 20 ms.
    ///
    /// # Panics
    ///
    /// If it does not start; the message carries the server's log.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> RedisServer {
        match self.try_start() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`start`](Self::start), for callers that report the failure themselves.
    ///
    /// # Errors
    ///
    /// If the program is missing, refuses its options, or does not answer in time; the text carries its log.
    pub fn try_start(self) -> io::Result<RedisServer> {
        launch::first_start(self)
    }
}
