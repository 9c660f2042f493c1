//! Worker programs that a test can kill and freeze.
//!
//! A crash or a long pause cannot be acted inside the test's own process: only another process can be killed
//! without its destructors, or frozen while the rest of the world goes on.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::watchdog::Watchdog;
use crate::{real_time, signal};

/// A worker program that we started. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    watchdog: Option<Watchdog>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `program` with these arguments. Its standard error goes to that of the test.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::from_command(command)
    }

    /// Starts a prepared command (with its own environment, folder and standard error). Standard input and output
    /// are replaced.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn from_command(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let watchdog = match Watchdog::over(&child, None) {
            Ok(watchdog) => watchdog,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
        };
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no standard output"))?;
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("testkit-lines".to_owned())
            .spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            child,
            stdin,
            lines,
            watchdog: Some(watchdog),
            status: None,
        })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it lives (a frozen one does).
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.status.is_none() && !signal::has_ended(&self.child)
    }

    /// Kills it at once (`SIGKILL`) and waits for its end. Returns the status; also if it had ended before.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if self.status.is_none() {
            self.child.kill()?;
        }
        self.reap()
    }

    /// Asks it to end (`SIGTERM`) and does not wait; a frozen one is thawed.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn terminate(&self) {
        assert!(self.is_running(), "only a running process can be asked to end");
        signal::terminate(&self.child);
    }

    /// Stops it in its tracks (`SIGSTOP`); returns when all its threads stand still.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn freeze(&self) {
        assert!(self.is_running(), "only a running process can be frozen");
        signal::freeze(&self.child);
    }

    /// Lets it go on after [`freeze`](Self::freeze).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn thaw(&self) {
        assert!(self.is_running(), "only a living process can be thawed");
        signal::thaw(&self.child);
    }

    /// Waits until it ends, for at most `limit` of real time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] if it still runs then; it is left running.
    pub async fn wait(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        let start = Instant::now();
        while self.is_running() {
            if start.elapsed() >= limit {
                let text = format!("process {} still runs after {limit:?}", self.pid());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            real_time::sleep(Duration::from_millis(2)).await;
        }
        self.reap()
    }

    /// The next line of its standard output, waited for at most `limit` of real time.
    ///
    /// Dropping the future loses no line.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] if no line came, [`io::ErrorKind::UnexpectedEof`] if none will come.
    pub async fn next_line(&mut self, limit: Duration) -> io::Result<String> {
        match real_time::timeout(limit, self.lines.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the process closed its output",
            )),
            Err(elapsed) => {
                let text = format!("waiting for a line of process {}: {elapsed}", self.child.id());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }

    /// Reads lines until one starts with `prefix` and returns the rest of that line.
    ///
    /// # Errors
    ///
    /// As [`next_line`](Self::next_line); the limit is for all lines together.
    pub async fn line_starting_with(&mut self, prefix: &str, limit: Duration) -> io::Result<String> {
        let start = Instant::now();
        loop {
            let line = self.next_line(limit.saturating_sub(start.elapsed())).await?;
            if let Some(rest) = line.strip_prefix(prefix) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// Takes the lines of its standard output from here on, for a reader apart: a program that answers many requests at
    /// once. [`next_line`](Self::next_line) finds nothing afterwards.
    pub fn take_lines(&mut self) -> mpsc::UnboundedReceiver<String> {
        let (_, nothing) = mpsc::unbounded_channel();
        std::mem::replace(&mut self.lines, nothing)
    }

    /// Writes one line to its standard input.
    ///
    /// # Errors
    ///
    /// If the process has ended or its input was closed.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        let Some(stdin) = self.stdin.as_mut() else {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the process's input is closed",
            ));
        };
        stdin.write_all(format!("{line}\n").as_bytes())
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends the watchdog home while the pid is still ours, then takes the exit status.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        self.watchdog = None;
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
