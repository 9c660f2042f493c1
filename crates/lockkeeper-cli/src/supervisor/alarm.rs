//! A timer on the deadline clock, and sleeping until something happens.

use super::moment::Moment;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Goes off at a moment, also right after the machine slept past it (a time limit of `poll` would not).
#[derive(Debug)]
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?))
    }

    /// Sets it, also anew when it has gone off; `None` switches it off. A moment in the past goes off at once.
    pub(super) fn set(&self, moment: Option<Moment>) -> io::Result<()> {
        let off = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = moment.map_or(off, Moment::timespec);
        timerfd_settime(
            &self.0,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec {
                it_interval: off,
                it_value: at,
            },
        )?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of them can be read or has ended.
pub(super) fn sleep(sources: &[&dyn AsFd]) -> io::Result<()> {
    let descriptors = sources.iter().map(|source| source.as_fd());
    let mut descriptors: Vec<_> = descriptors
        .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN))
        .collect();
    match poll(&mut descriptors, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(problem) => Err(problem.into()),
    }
}
