//! Signals to processes that we started ourselves, and never to others.

use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a process may take to stop or to run again after the signal.
const LIMIT: Duration = Duration::from_secs(5);

/// The pid of a child that has not been reaped; its number cannot belong to anybody else until then.
fn own_pid(child: &Child) -> Option<Pid> {
    (!has_ended(child)).then(|| Pid::from_raw(i32::try_from(child.id()).expect("a pid fits 31 bits")))
}

/// Asks the child to end (`SIGTERM`); a frozen one is thawed, else it could not. Nothing if it has ended already.
pub(crate) fn terminate(child: &Child) {
    if let Some(pid) = own_pid(child) {
        // It may end between the two, and is a zombie of ours then: both signals are harmless.
        kill(pid, Signal::SIGTERM).expect("a signal to our own child");
        kill(pid, Signal::SIGCONT).expect("a signal to our own child");
    }
}

/// Stops the child (`SIGSTOP`) and waits until the kernel says so.
pub(crate) fn freeze(child: &Child) {
    let pid = own_pid(child).expect("only a running process can be frozen");
    kill(pid, Signal::SIGSTOP).expect("a signal to our own child");
    wait_for_state(pid, "stopped", |state| state == 'T');
}

/// Lets the child run again (`SIGCONT`) and waits until the kernel says so.
pub(crate) fn thaw(child: &Child) {
    let pid = own_pid(child).expect("only a living process can be thawed");
    kill(pid, Signal::SIGCONT).expect("a signal to our own child");
    wait_for_state(pid, "running", |state| state != 'T');
}

fn wait_for_state(pid: Pid, wanted: &str, reached: impl Fn(char) -> bool) {
    let start = Instant::now();
    loop {
        // Systems without /proc take the signal's word for it.
        let Some(states) = thread_states(pid) else {
            return;
        };
        if states.iter().all(|state| reached(*state)) {
            return;
        }
        assert!(
            start.elapsed() < LIMIT,
            "process {pid} is not {wanted} after {LIMIT:?}: {states:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The state letters of all threads: a signal reaches them one after the other.
fn thread_states(pid: Pid) -> Option<Vec<char>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let states = threads
        .filter_map(Result::ok)
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
        // The name is in brackets and may hold anything; the state follows the last bracket.
        .filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next())
        .collect();
    Some(states)
}

/// Whether the child has ended, without reaping it: until then its pid is nobody else's.
pub(crate) fn has_ended(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid fits 31 bits")) else {
        return true;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that there is no such child any more.
    waitid(WaitId::Pid(pid), options).map_or(true, |status| status.is_some())
}
