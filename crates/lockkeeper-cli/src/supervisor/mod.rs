//! Runs a command while a hold lasts, as if it were run directly: in its own process group, with the terminal,
//! with signals passed on, and never beyond the hold.
//!
//! ```text
//! lockkeeper ── guardian          own session; kills the group when lockkeeper dies or stands still
//!      └─────── COMMAND ── ...    own process group; the terminal is lent to it
//! ```
//!
//! Order of use, all on the main thread: [`Supervisor::prepare`] before any other thread exists (they must
//! inherit the signal mask) and before the lock is asked for; [`Supervisor::wait_for`] while another thread gets
//! the lock; [`Supervisor::run`]; [`Supervisor::pause_until`] before the next time, if there is one.
//!
//! There is no `unsafe` here, and so no code between fork and exec. What must be done in the child is done by
//! this program itself, started again as a helper (see [`helper`]), which then becomes the command.

mod alarm;
mod child;
mod ended;
mod environment;
mod guardian;
mod helper;
mod hold;
mod inherited;
mod launch;
mod moment;
mod outcome;
mod signals;
mod terminal;
mod waker;
mod watch;

pub use ended::{Ended, How};
pub use environment::HoldEnvironment;
pub use helper::{helper, start_again};
pub use hold::{Hold, Standing};
pub use moment::Moment;
pub use outcome::{Outcome, Promise, Waited};
pub use waker::Waker;

use alarm::Alarm;
use guardian::Guardian;
use launch::Launch;
use nix::sys::signal::Signal;
use signals::Signals;
use std::ffi::OsString;
use std::io;
use terminal::Terminal;
use watch::Watch;

/// Supervises one command. Belongs to the main thread: the kernel kills the command when the *thread* that
/// started it ends.
#[derive(Debug)]
pub struct Supervisor {
    signals: Signals,
    waker: Waker,
    alarm: Alarm,
}

impl Supervisor {
    /// Blocks the signals that will be passed on, and collects them instead. To be called before any other thread
    /// is started and before the lock is asked for, so that no signal can end the program in between.
    ///
    /// # Errors
    ///
    /// The system's, such as no file descriptors left.
    pub fn prepare() -> io::Result<Self> {
        Ok(Self {
            signals: Signals::prepare()?,
            waker: Waker::new()?,
            alarm: Alarm::new()?,
        })
    }

    /// Makes the supervisor look at its hold again, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A value to come from another thread, for [`Supervisor::wait_for`].
    #[must_use]
    pub fn promise<T>(&self) -> (Promise<T>, Outcome<T>) {
        outcome::promise(self.waker())
    }

    /// Waits for a value from another thread, such as the lock, and ends early with a signal that would have
    /// ended the program. ^Z stops the program as usual.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn wait_for<T>(&self, outcome: &Outcome<T>) -> io::Result<Waited<T>> {
        self.alarm.set(None)?;
        loop {
            self.waker.clear();
            if let Some(waited) = outcome.look() {
                return Ok(waited);
            }
            if let Some(signal) = self.ending_signal()? {
                return Ok(Waited::Interrupted(signal));
            }
            alarm::sleep(&[&self.signals, &self.waker])?;
        }
    }

    /// Waits with nothing held and nothing running, such as between two terms. Ends early with a signal that would have ended the
    /// program.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn pause_until(&self, moment: Moment) -> io::Result<Waited<()>> {
        while Moment::now() < moment {
            if let Some(signal) = self.ending_signal()? {
                return Ok(Waited::Interrupted(signal));
            }
            self.alarm.set(Some(moment))?;
            alarm::sleep(&[&self.signals, &self.alarm])?;
        }
        Ok(Waited::Done(()))
    }

    /// Runs the command until it ends, by itself or because the hold was lost.
    ///
    /// The terminal is lent to the command if our standard input is the terminal and we are in its foreground.
    /// Signals are passed on to its process group. When the hold is lost the group gets TERM at once and KILL at
    /// the moment that the hold names.
    ///
    /// # Errors
    ///
    /// The system's, when no process can be started. The command is then not running.
    pub fn run(
        &mut self,
        words: &[OsString],
        environment: &[(OsString, OsString)],
        hold: &impl Hold,
    ) -> io::Result<Ended> {
        let launch = Launch::start(words, environment, &self.signals)?;
        let guardian = match Guardian::start(launch.group()) {
            Ok(guardian) => guardian,
            Err(problem) => return launch.abandon().and(Err(problem)),
        };
        let terminal = Terminal::controlling();
        Watch::new(
            &self.signals,
            &self.waker,
            &self.alarm,
            terminal,
            guardian,
            launch,
            hold,
        )
        .run()
    }

    /// A signal that ends the program, if one came. Obeys ^Z on the way.
    fn ending_signal(&self) -> io::Result<Option<i32>> {
        while let Some(signal) = self.signals.next()? {
            match signal {
                Signal::SIGTSTP => {
                    self.signals.stop_ourselves()?;
                }
                Signal::SIGCHLD | Signal::SIGCONT | Signal::SIGWINCH | Signal::SIGTTOU => {}
                ending => return Ok(Some(ending as i32)),
            }
        }
        Ok(None)
    }
}
