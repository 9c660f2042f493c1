//! Java's side.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use lockkeeper_testkit::RedisServer;

use crate::Peer;

/// Environment variable that names the version of Redisson.
pub const VERSION_VARIABLE: &str = "LOCKKEEPER_REDISSON";

/// The version of Redisson that the tests run with.
#[must_use]
pub fn version() -> String {
    env::var(VERSION_VARIABLE).unwrap_or_else(|_| "4.7.0".to_owned())
}

/// Whether each unlock leaves a latch key behind, for up to 20 seconds.
#[must_use]
pub fn leaves_latches() -> bool {
    version().starts_with("3.")
}

/// Redisson's own times.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The lease of whatever is locked without one; renewed every third of it.
    pub watchdog: Duration,
    /// How long a waiter in a fair queue is believed in that set no time of its own.
    pub fair_wait: Duration,
}

impl Default for Times {
    /// Redisson's defaults.
    fn default() -> Self {
        Self {
            watchdog: Duration::from_secs(30),
            fair_wait: Duration::from_secs(300),
        }
    }
}

/// Starts a Java process with a Redisson client for this server.
///
/// # Panics
///
/// If the driver was not built, or does not start.
#[must_use]
#[track_caller]
pub fn start(server: &RedisServer, times: Times) -> Peer {
    let version = version();
    let built = [env!("CARGO_MANIFEST_DIR"), "java", "target", &version];
    let built: PathBuf = built.iter().collect();
    let driver = built.join("driver.jar");
    assert!(
        driver.is_file(),
        "the driver for Redisson {version} is not built: run interop/test"
    );
    let mut path = OsString::from(driver);
    path.push(":");
    path.push(built.join("lib").join("*"));
    let mut command = Command::new(env::var_os("JAVA").unwrap_or_else(|| "java".into()));
    command
        // The quickest start; nothing here runs long enough for more.
        .args([
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Xmx256m",
        ])
        .arg("-cp")
        .arg(path)
        .arg("lockkeeper.interop.Driver")
        .arg(format!("redis://{}", server.address()))
        .arg(times.watchdog.as_millis().to_string())
        .arg(times.fair_wait.as_millis().to_string());
    Peer::start(command)
}
