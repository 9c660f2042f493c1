//! A real Redis or Valkey server for one test.
//!
//! Each [`RedisServer`] is a process with its own loopback port, unix socket and temporary folder. It keeps
//! nothing on disk unless asked, allows `DEBUG`, and is killed when the value is dropped or the test process dies.

mod append_only;
mod builder;
mod inspect;
mod launch;
mod version;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use builder::{BINARY_VARIABLE, ServerBuilder};
pub use inspect::{CommandStatistics, ConnectedClient};
pub use version::{ServerKind, ServerVersion};

use crate::signal;
use crate::watchdog::Watchdog;

/// How long a server may take to end when asked politely.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The server's process while there is one.
#[derive(Debug)]
struct Running {
    child: Child,
    watchdog: Option<Watchdog>,
}

impl Running {
    /// Sends the watchdog home while the pid is still ours, then takes the exit status.
    fn reap(&mut self) {
        self.watchdog = None;
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.reap();
    }
}

/// A running server of our own. Dropping it kills the server and removes its folder.
///
/// ```no_run
/// # async fn example() {
/// let server = lockkeeper_testkit::RedisServer::start();
/// let mut connection = server.connection().await;
/// let _: () = redis::cmd("SET").arg("a").arg(1).query_async(&mut connection).await.unwrap();
/// server.kill();
/// # }
/// ```
#[derive(Debug)]
pub struct RedisServer {
    builder: ServerBuilder,
    version: ServerVersion,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    running: Mutex<Option<Running>>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server with no options. Blocks until it answers, usually some 20 ms.
    ///
    /// # Panics
    ///
    /// If it does not start, with a message that says why and what to install.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Options for a server to start.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// Program and version.
    #[must_use]
    pub fn version(&self) -> ServerVersion {
        self.version
    }

    /// Loopback address of the server's port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for clients, with the password if there is one: `redis://127.0.0.1:port/`.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.builder.password {
            Some(password) => format!("redis://:{}@{}/", percent_encoded(password), self.address),
            None => format!("redis://{}/", self.address),
        }
    }

    /// Loopback address of the port for TLS.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn tls_address(&self) -> SocketAddr {
        self.tls_address
            .expect("a server with ServerBuilder::tls has a port for it")
    }

    /// As [`url`](Self::url), for the database with this number.
    #[must_use]
    pub fn url_for_db(&self, database: u32) -> String {
        format!("{}{database}", self.url())
    }

    /// Address for clients over the unix socket: `redis+unix:///folder/server.sock`.
    #[must_use]
    pub fn unix_url(&self) -> String {
        let socket = launch::socket_path(self.folder.path());
        match &self.builder.password {
            Some(password) => format!("redis+unix://{}?pass={}", socket.display(), percent_encoded(password)),
            None => format!("redis+unix://{}", socket.display()),
        }
    }

    /// The server's folder: configuration, log (`server.log`), socket and data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's process id.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running().as_ref().expect("the server is not running").child.id()
    }

    /// Whether the process lives (a frozen one does).
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running()
            .as_ref()
            .is_some_and(|running| !signal::has_ended(&running.child))
    }

    /// Kills the process at once (`SIGKILL`), as a crash would. Nothing happens if it is not running.
    pub fn kill(&self) {
        *self.running() = None;
    }

    /// Ends the server in good order (`SIGTERM`) and waits for it; a frozen one is thawed first.
    ///
    /// # Panics
    ///
    /// If it has not ended after ten seconds.
    pub fn stop(&self) {
        let mut slot = self.running();
        if let Some(running) = slot.as_ref() {
            signal::terminate(&running.child);
            let start = Instant::now();
            while !signal::has_ended(&running.child) {
                assert!(
                    start.elapsed() < STOP_LIMIT,
                    "the server has not ended after {STOP_LIMIT:?}"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        *slot = None;
    }

    /// Stops the process in its tracks (`SIGSTOP`): connections stay, nothing answers.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    pub fn freeze(&self) {
        signal::freeze(&self.running().as_ref().expect("the server is not running").child);
    }

    /// Lets a frozen process go on (`SIGCONT`); it then serves what has piled up.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    pub fn thaw(&self) {
        signal::thaw(&self.running().as_ref().expect("the server is not running").child);
    }

    /// Kills the server if it runs and starts it on the same port with the data of its append-only file.
    /// Blocks until it answers.
    ///
    /// # Panics
    ///
    /// If the server keeps no append-only file, or does not start.
    #[track_caller]
    pub fn restart(&self) {
        assert!(
            self.builder.append_only,
            "a restart with data needs ServerBuilder::append_only"
        );
        self.start_again();
    }

    /// Kills the server if it runs and starts it on the same port without any data. Blocks until it answers.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.kill();
        self.remove_data().expect("the server's data can be removed");
        self.start_again();
    }

    #[track_caller]
    fn start_again(&self) {
        let mut slot = self.running();
        *slot = None;
        match launch::start_again(&self.builder, &self.folder) {
            Ok(running) => *slot = Some(running),
            Err(error) => panic!("{error}"),
        }
    }

    fn remove_data(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else if path
                .extension()
                .is_some_and(|ending| ending == "rdb" || ending == "aof")
            {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}
