//! One rehearsal: a supervisor with a command, and what can be seen of them.

use crate::processes::eventually;
use crate::rehearsal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// How long the hold lives.
#[derive(Clone, Copy)]
pub(crate) enum Lease {
    Renewed(u64),
    Fixed(u64),
}

/// Longer than any test.
pub(crate) const AMPLE: Lease = Lease::Renewed(120_000);

pub(crate) struct Stage {
    folder: TempDir,
    lease: Lease,
    margin: u64,
}

impl Stage {
    pub(crate) fn new(lease: Lease, margin_ms: u64) -> Self {
        Self {
            folder: TempDir::new().expect("a folder"),
            lease,
            margin: margin_ms,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.path(name), "").expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until the command has written a file to the end (`echo` ends it with a line).
    pub(crate) fn await_file(&self, name: &str) -> String {
        eventually(name, || self.read(name).ends_with('\n'));
        self.read(name)
    }

    /// Waits for a file with process numbers.
    pub(crate) fn await_processes(&self, name: &str) -> Vec<i32> {
        let numbers = self.await_file(name);
        numbers
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect()
    }

    /// The words that start a supervisor with this command.
    pub(crate) fn words(&self, command: &[&str]) -> Vec<String> {
        let (mode, lease) = match self.lease {
            Lease::Renewed(lease) => ("renewed", lease),
            Lease::Fixed(lease) => ("fixed", lease),
        };
        let program = std::env::current_exe().expect("our path");
        let ours = [
            program.to_str().expect("text").to_owned(),
            rehearsal::PART.to_owned(),
            self.folder.path().to_str().expect("text").to_owned(),
            lease.to_string(),
            self.margin.to_string(),
            mode.to_owned(),
        ];
        ours.into_iter()
            .chain(command.iter().map(|word| (*word).to_owned()))
            .collect()
    }

    /// Starts the command, below another program if one is given.
    pub(crate) fn start_below(&self, above: &[&str], command: &[&str]) -> Running {
        let words: Vec<String> = above
            .iter()
            .map(|word| (*word).to_owned())
            .chain(self.words(command))
            .collect();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(File::create(self.path("stdout")).expect("a file"))
            .stderr(File::create(self.path("stderr")).expect("a file"))
            .spawn()
            .expect("started");
        Running {
            child,
            folder: self.folder.path().to_owned(),
        }
    }

    pub(crate) fn start(&self, command: &[&str]) -> Running {
        self.start_below(&[], command)
    }

    /// Starts a script; it runs in the folder.
    pub(crate) fn script(&self, script: &str) -> Running {
        self.start(&["sh", "-c", script])
    }
}

/// A supervisor at work. Killed by number if a test fails.
pub(crate) struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    pub(crate) fn number(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process number")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.number()), signal).expect("signalled");
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        let mut input = self.child.stdin.take().expect("not typed before");
        input.write_all(text.as_bytes()).expect("typed");
    }

    /// Waits for the end, bounded. Output goes to files, since a pipe would stay open as long as any grandchild.
    pub(crate) fn end(mut self) -> Output {
        let mut status = None;
        eventually("the supervisor's end", || {
            status = self.child.try_wait().expect("waited");
            status.is_some()
        });
        let read = |name| fs::read(self.folder.join(name)).expect("output");
        Output {
            status: status.expect("ended"),
            stdout: read("stdout"),
            stderr: read("stderr"),
        }
    }

    pub(crate) fn code(self) -> Option<i32> {
        self.end().status.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
