//! Lends the controlling terminal to the command and takes it back.

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;
use std::io;

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
    ours: Pid,
    lent: bool,
    /// Whether the command is to have it whenever we are in the foreground.
    wanted: bool,
    /// Its modes when it was lent first.
    modes: Option<Termios>,
}

impl Terminal {
    /// The terminal, if there is one.
    pub(super) fn controlling() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // With other input (a pipeline) the terminal stays with us and our neighbours, until the command asks for it.
        let wanted = tcgetpgrp(io::stdin()).is_ok();
        Some(Self {
            device,
            ours: getpgrp(),
            lent: false,
            wanted,
            modes: None,
        })
    }

    /// Whether our group has it, so that we may lend it.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == self.ours)
    }

    /// The command asked for it, by being stopped for touching it from the background.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Lends it, if it is wanted and ours.
    pub(super) fn lend(&mut self, group: Pid) {
        if !self.wanted || !self.is_ours() {
            return;
        }
        if self.modes.is_none() {
            self.modes = tcgetattr(&self.device).ok();
        }
        self.lent = tcsetpgrp(&self.device, group).is_ok();
    }

    /// Takes it back, if it was lent. SIGTTOU is blocked, so this works from the background.
    pub(super) fn take_back(&mut self) {
        if std::mem::take(&mut self.lent) {
            // Fails only when the terminal is gone.
            let _ = tcsetpgrp(&self.device, self.ours);
        }
    }

    /// Puts the modes back that a command which was killed could not put back itself.
    pub(super) fn restore_modes(&self) {
        if let Some(modes) = &self.modes
            && self.is_ours()
        {
            let _ = tcsetattr(&self.device, SetArg::TCSANOW, modes);
        }
    }
}
