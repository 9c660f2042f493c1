//! The program against a real server, and commands that run until the test lets them go on.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_testkit::RedisServer;
use serde_json::Value;

pub(crate) fn lockkeeper(server: &RedisServer) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command
        .env("LOCKKEEPER_URL", server.url())
        .env_remove("LOCKKEEPER_PASSWORD")
        .stdin(Stdio::null());
    command
}

pub(crate) fn ran(server: &RedisServer, words: &[&str]) -> Output {
    lockkeeper(server).args(words).output().unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output
        .status
        .code()
        .unwrap_or_else(|| panic!("no exit code: {output:?}"))
}

pub(crate) fn show(server: &RedisServer, name: &str) -> Value {
    let output = ran(server, &["show", "--json", name]);
    assert_eq!(code(&output), 0, "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits for something to become so, by looking.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program in the background, killed if its test fails.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs a command in the background until the test lets it go on by a file.
pub(crate) struct Background {
    child: Child,
    folder: tempfile::TempDir,
}

impl Background {
    pub(crate) fn start(server: &RedisServer, options: &[&str], name: &str) -> Self {
        Self::start_as(server, "run", options, &[name])
    }

    /// The same by another command than `run`, or with several names.
    pub(crate) fn start_as(server: &RedisServer, command: &str, options: &[&str], names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wait = format!(
            "touch {0}/started; while [ ! -e {0}/go ]; do sleep 0.02; done",
            folder.path().display()
        );
        let child = lockkeeper(server)
            .arg(command)
            .args(options)
            .args(names)
            .args(["--", "sh", "-c", &wait])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("errors")).unwrap())
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    pub(crate) fn started(self) -> Self {
        until("the command started", || self.has_started());
        self
    }

    pub(crate) fn has_started(&self) -> bool {
        self.folder.path().join("started").exists()
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// What it has told on standard error so far.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap()
    }

    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        until("the program ended", || self.child.try_wait().unwrap().is_some());
        (self.child.wait().unwrap(), self.errors())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.let_go();
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
