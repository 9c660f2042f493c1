//! Hands a pipe to a helper under its number.

use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Lets the next program inherit it, and gives the number to tell.
pub(super) fn lend(pipe: &(impl AsFd + AsRawFd)) -> io::Result<RawFd> {
    fcntl_setfd(pipe, FdFlags::empty())?;
    Ok(pipe.as_raw_fd())
}

/// For the helper: opens the pipe anew, closed on exec this time, and closes the number itself. The way through
/// `/proc` is the one that needs no `unsafe`.
pub(super) fn take(number: RawFd, write: bool) -> io::Result<File> {
    let file = File::options()
        .read(!write)
        .write(write)
        .open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(file)
}
