//! Signals: blocked from the start, and read like messages.
//!
//! Nothing is caught or ignored, so nothing has to be undone in the child but the mask, and a signal that the caller
//! ignored (`nohup`) stays ignored in us and in the command.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Passed on to the command's group.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
];

/// The collected signals.
#[derive(Debug)]
pub(super) struct Signals {
    descriptor: SignalFd,
    /// What we blocked on top of what the caller had blocked.
    added: SigSet,
    /// Read while looking for something else.
    set_aside: RefCell<VecDeque<Signal>>,
    can_stop: bool,
}

impl Signals {
    /// Blocks and collects. Threads started later inherit the mask.
    pub(super) fn prepare() -> io::Result<Self> {
        let ignored = Ignored::read()?;
        if ignored.contains(Signal::SIGCHLD) {
            heed_children()?;
        }
        let mut wanted = SigSet::empty();
        for signal in PASSED_ON.into_iter().filter(|signal| !ignored.contains(*signal)) {
            wanted.add(signal);
        }
        // Blocked signals arrive here even if they are ignored, which is right for these.
        wanted.add(Signal::SIGCHLD);
        wanted.add(Signal::SIGCONT);
        // Blocked, it lets us take the terminal back from the background. It never arrives.
        wanted.add(Signal::SIGTTOU);
        let before = SigSet::thread_get_mask()?;
        wanted.thread_block()?;
        let descriptor = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mut added = SigSet::empty();
        for signal in wanted.iter().filter(|signal| !before.contains(*signal)) {
            added.add(signal);
        }
        Ok(Self {
            descriptor,
            added,
            set_aside: RefCell::default(),
            can_stop: added.contains(Signal::SIGTSTP),
        })
    }

    /// What the child has to unblock to be as if we were not there.
    pub(super) fn added(&self) -> &SigSet {
        &self.added
    }

    /// The next signal that has arrived. Several of one kind may arrive as one.
    pub(super) fn next(&self) -> io::Result<Option<Signal>> {
        if let Some(signal) = self.set_aside.borrow_mut().pop_front() {
            return Ok(Some(signal));
        }
        self.read()
    }

    /// Gives one back, to be the next again.
    pub(super) fn put_back(&self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.set_aside.borrow_mut().push_front(signal);
        }
    }

    fn read(&self) -> io::Result<Option<Signal>> {
        loop {
            match self.descriptor.read_signal() {
                Ok(None) => return Ok(None),
                Ok(Some(arrived)) => {
                    let number = i32::try_from(arrived.ssi_signo).unwrap_or(0);
                    if let Ok(signal) = Signal::try_from(number) {
                        return Ok(Some(signal));
                    }
                }
                Err(Errno::EINTR) => {}
                Err(problem) => return Err(problem.into()),
            }
        }
    }

    /// Stops our whole process group, as ^Z does, and returns when somebody has continued us: true. False if the
    /// system does not let us stop, since nobody could continue us.
    pub(super) fn stop_ourselves(&self) -> io::Result<bool> {
        if !self.can_stop {
            return Ok(false);
        }
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTSTP);
        kill(Pid::from_raw(0), Signal::SIGTSTP)?;
        // The stop happens inside this call, to all threads; we come back continued, or at once if we must not stop.
        stop.thread_unblock()?;
        stop.thread_block()?;
        let mut continued = false;
        while let Some(signal) = self.read()? {
            if signal == Signal::SIGCONT {
                continued = true;
            } else {
                self.set_aside.borrow_mut().push_back(signal);
            }
        }
        Ok(continued)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The signals that our caller made us ignore.
struct Ignored(u64);

impl Ignored {
    fn read() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        mask.map(Self)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/status has no SigIgn"))
    }

    fn contains(&self, signal: Signal) -> bool {
        self.0 >> (signal as i32 - 1) & 1 == 1
    }
}

/// A caller that ignores SIGCHLD would make the kernel throw our children's exit codes away. Any handler stops that;
/// this one never runs, because the signal is blocked.
fn heed_children() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    // The stream is of no use, and the handler outlives it.
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())?);
    Ok(())
}
