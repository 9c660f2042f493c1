//! A program in another language that does what it is told.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use lockkeeper_testkit::Process;
use tokio::sync::oneshot;

/// A virtual machine starts slowly on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The longest that any request may take; only a hung peer needs so long.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Answers that are still to come; `None` once the peer has ended.
type Waiting = Option<HashMap<u64, oneshot::Sender<String>>>;

/// A running peer. Dropping it kills it.
///
/// A request is a line `NUMBER THREAD OBJECT METHOD NAME ARGUMENT...`, its answer a line `NUMBER ok VALUE` or
/// `NUMBER error TEXT`. Answers come in any order.
#[derive(Debug)]
pub struct Peer {
    process: Mutex<Process>,
    waiting: Arc<Mutex<Waiting>>,
    requests: AtomicU64,
}

/// The peer could not do it, and says why: the class of its error and the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    /// Starts it, and returns when it is ready.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or is not ready within a minute.
    #[must_use]
    #[track_caller]
    pub fn start(command: Command) -> Self {
        let shown = format!("{command:?}");
        let mut process = Process::from_command(command)
            .unwrap_or_else(|error| panic!("{shown} does not start: {error}. Has interop/test built it?"));
        let mut lines = process.take_lines();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let answered = Arc::clone(&waiting);
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(line) = lines.blocking_recv() {
                if line == "ready" {
                    let _ = ready.send(());
                } else {
                    deliver(&answered, &line);
                }
            }
            // Whoever waits for an answer learns that none will come.
            *locked(&answered) = None;
        });
        if is_ready.recv_timeout(START_LIMIT).is_err() {
            panic!("{shown} was not ready after {START_LIMIT:?}");
        }
        Self {
            process: Mutex::new(process),
            waiting,
            requests: AtomicU64::new(0),
        }
    }

    /// One of its threads, which owns what it locks. It is made when it is first used.
    #[must_use]
    pub fn thread(&self, name: impl Into<String>) -> PeerThread<'_> {
        PeerThread {
            peer: self,
            name: name.into(),
        }
    }

    /// Kills it at once (`SIGKILL`): nothing is unlocked, and nobody is told.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn kill(&self) {
        locked(&self.process).kill().expect("our own child can be killed");
    }

    fn send(&self, thread: &str, request: &str) -> Pending {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        if let Some(waiting) = locked(&self.waiting).as_mut() {
            waiting.insert(number, sender);
        }
        let line = format!("{number} {thread} {request}");
        // If it has ended, the answer tells.
        let _ = locked(&self.process).write_line(&line);
        Pending { line, answer }
    }
}

fn deliver(waiting: &Mutex<Waiting>, line: &str) {
    let (number, answer) = line.split_once(' ').expect("an answer has a number");
    let number = number.parse::<u64>().expect("an answer has a number");
    let sender = locked(waiting).as_mut().and_then(|waiting| waiting.remove(&number));
    // The one who asked may not care.
    let _ = sender
        .expect("an answer to a request that was sent")
        .send(answer.to_owned());
}

/// A thread of a peer.
#[derive(Debug, Clone)]
pub struct PeerThread<'a> {
    peer: &'a Peer,
    name: String,
}

impl PeerThread<'_> {
    /// Sends a request now, and lets it go on while the test does something else.
    pub fn start(&self, request: impl Display) -> Pending {
        self.peer.send(&self.name, &request.to_string())
    }

    /// Does it, or says why not.
    ///
    /// # Errors
    ///
    /// What the peer's own call threw.
    ///
    /// # Panics
    ///
    /// If the peer ends, or hangs.
    pub async fn attempt(&self, request: impl Display) -> Result<String, Refused> {
        self.start(request).answer().await
    }

    /// Does it, which must work, and returns what the peer's call did.
    ///
    /// # Panics
    ///
    /// If it does not work, or returns something else.
    pub async fn ask<T: FromStr>(&self, request: impl Display) -> T {
        self.start(request).value().await
    }

    /// Does it, which must work.
    ///
    /// # Panics
    ///
    /// If it does not work.
    pub async fn tell(&self, request: impl Display) {
        self.ask::<String>(request).await;
    }
}

/// A request that was sent.
#[derive(Debug)]
#[must_use = "a request may fail"]
pub struct Pending {
    line: String,
    answer: oneshot::Receiver<String>,
}

impl Pending {
    /// Whether the peer is still at it.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.answer.is_empty()
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// What the peer's own call threw.
    ///
    /// # Panics
    ///
    /// If the peer ends, or hangs.
    pub async fn answer(self) -> Result<String, Refused> {
        let line = self.line;
        let Ok(answer) = tokio::time::timeout(ANSWER_LIMIT, self.answer).await else {
            panic!("no answer to \"{line}\" after {ANSWER_LIMIT:?}");
        };
        let answer = answer.unwrap_or_else(|_| panic!("the peer ended before it answered \"{line}\""));
        match answer.split_once(' ') {
            Some(("ok", value)) => Ok(value.to_owned()),
            Some(("error", text)) => Err(Refused(text.to_owned())),
            _ => panic!("\"{line}\" was answered by \"{answer}\""),
        }
    }

    /// Waits for the value that the peer's call returned.
    ///
    /// # Panics
    ///
    /// If it threw something, or returned another kind of value.
    pub async fn value<T: FromStr>(self) -> T {
        let line = self.line.clone();
        let value = self.answer().await;
        let value = value.unwrap_or_else(|refused| panic!("\"{line}\" failed: {refused}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("\"{line}\" returned \"{value}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says its two answers in the wrong order, and ends when it is told to.
    const SHELL: &str = r#"
echo ready
read first thread rest
read second thread rest
echo "$second error Trouble: with $rest"
echo "$first ok 7"
read last
"#;

    fn shell() -> Peer {
        let mut command = Command::new("sh");
        command.args(["-c", SHELL]);
        Peer::start(command)
    }

    #[tokio::test]
    async fn answers_find_their_requests() {
        let peer = shell();
        let first = peer.thread("a").start("mutex lock x");
        assert!(first.is_under_way());
        let second = peer.thread("b").attempt("mutex unlock x").await;
        assert_eq!(second, Err(Refused("Trouble: with mutex unlock x".to_owned())));
        assert_eq!(first.value::<u64>().await, 7);
    }

    #[tokio::test]
    #[should_panic(expected = "the peer ended before it answered")]
    async fn a_peer_that_ends_answers_nothing() {
        let peer = shell();
        let pending = peer.thread("a").start("mutex lock x");
        peer.kill();
        let _ = pending.answer().await;
    }
}
