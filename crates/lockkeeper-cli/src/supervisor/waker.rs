//! Wakes the supervisor from other threads.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Makes the supervisor look again. Cheap to clone and to call; wakes are merged and never lost.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?)))
    }

    /// Wakes the supervisor.
    pub fn wake(&self) {
        // The one refusal is a full counter, and then the wake is there already.
        while write(&*self.0, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Takes the wakes that are there: to be done *before* looking at what they are about.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        while read(&*self.0, &mut count) == Err(Errno::INTR) {}
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
