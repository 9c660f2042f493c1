//! Python's side.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use lockkeeper_testkit::RedisServer;

use crate::Peer;

/// Starts a Python process with a redis-py client for this server.
///
/// # Panics
///
/// If there is no virtual environment with redis-py, or the driver does not start.
#[must_use]
#[track_caller]
pub fn start(server: &RedisServer) -> Peer {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python");
    let python = folder.join("venv").join("bin").join("python");
    assert!(python.exists(), "there is no Python with redis-py: run interop/test");
    let mut command = Command::new(python);
    command
        .arg(folder.join("driver.py"))
        .args([server.address().ip().to_string(), server.address().port().to_string()]);
    Peer::start(command)
}
