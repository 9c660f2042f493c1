//! The guardian: a small process that kills the command's group when we die, or when we stand still for so long that
//! the hold may be over. It takes the grandchildren too, which the kernel's parent-death signal does not reach.

use super::alarm::{self, Alarm};
use super::{helper, moment::Moment};
use crate::exit::Exit;
use nix::sys::signal::SigSet;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group, setsid};
use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeWriter, Read, Write};
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

/// Started anew so often if somebody kills it.
const LIVES: u32 = 5;

/// Our end of the guardian.
#[derive(Debug)]
pub(super) struct Guardian {
    group: Pid,
    process: Child,
    limits: PipeWriter,
    told: Option<Moment>,
    lives: u32,
}

impl Guardian {
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let (process, limits) = spawn(group)?;
        Ok(Self {
            group,
            process,
            limits,
            told: None,
            lives: LIVES,
        })
    }

    /// Moves the moment after which the group must not run.
    pub(super) fn limit(&mut self, kill_at: Moment) {
        if self.told == Some(kill_at) {
            return;
        }
        let milliseconds = u64::try_from(kill_at.time_since_boot().as_millis()).unwrap_or(u64::MAX);
        // Fails if the guardian has died (it is replaced when its end is noticed) or stands still with a full pipe;
        // it is told again at the next look.
        let told = self.limits.write_all(&milliseconds.to_ne_bytes());
        self.told = told.is_ok().then_some(kill_at);
    }

    /// Replaces a guardian that has died. False when there is none any more.
    pub(super) fn check(&mut self) -> io::Result<bool> {
        if self.lives == 0 || self.process.try_wait()?.is_none() {
            return Ok(self.lives > 0);
        }
        self.lives -= 1;
        if self.lives > 0 {
            (self.process, self.limits) = spawn(self.group)?;
            self.told = None;
        }
        Ok(self.lives > 0)
    }

    /// Sends it away. The group must have ended, but not been waited for yet, so that its number is still its own.
    pub(super) fn dismiss(mut self) -> io::Result<()> {
        // By force: it might stand still, and would take our closing of the pipe for our death.
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}

fn spawn(group: Pid) -> io::Result<(Child, PipeWriter)> {
    let (orders, limits) = io::pipe()?;
    fcntl_setfl(&limits, OFlags::NONBLOCK)?;
    let process = helper::ourselves()
        .arg(helper::GUARDIAN)
        .arg(group.as_raw_nonzero().to_string())
        .current_dir("/")
        .stdin(orders)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((process, limits))
}

/// The guardian's own life.
pub(super) fn keep_watch(words: &[OsString]) -> ExitCode {
    let group = words
        .first()
        .and_then(|word| word.to_str())
        .and_then(|text| text.parse().ok())
        .and_then(Pid::from_raw);
    let Some(group) = group else {
        return Exit::Failure.into();
    };
    let _ = rustix::thread::set_name(c"lockkeeper");
    // Neither the terminal nor a signal to our parent's group may take the guardian away first.
    let apart = setsid()
        .map_err(io::Error::from)
        .and_then(|_| Ok(SigSet::all().thread_block()?));
    let watched = apart.and_then(|()| watch(group));
    // The end of the pipe, or a guardian that cannot watch: either way nobody answers for the group any more.
    let _ = kill_process_group(group, Signal::KILL);
    if watched.is_ok() {
        Exit::Success.into()
    } else {
        Exit::Failure.into()
    }
}

fn watch(group: Pid) -> io::Result<()> {
    let alarm = Alarm::new()?;
    fcntl_setfl(io::stdin(), OFlags::NONBLOCK)?;
    let mut orders = io::stdin().lock();
    let mut limit = None;
    loop {
        alarm::sleep(&[&orders, &alarm])?;
        // Orders first: after a standstill of our own the newest limit counts, not the one that went off.
        while let Some(order) = read_order(&mut orders)? {
            match order {
                Order::End => return Ok(()),
                Order::Limit(moment) => limit = Some(moment),
            }
        }
        if limit.is_some_and(|moment| Moment::now() >= moment) {
            let _ = kill_process_group(group, Signal::KILL);
            limit = None;
        }
        alarm.set(limit)?;
    }
}

enum Order {
    Limit(Moment),
    End,
}

/// The next order that is there. One write is one order, whole, since it is shorter than a pipe's unit.
fn read_order(orders: &mut impl Read) -> io::Result<Option<Order>> {
    let mut number = [0; 8];
    match orders.read_exact(&mut number) {
        Ok(()) => Ok(Some(Order::Limit(Moment::since_boot(Duration::from_millis(
            u64::from_ne_bytes(number),
        ))))),
        Err(problem) if problem.kind() == ErrorKind::UnexpectedEof => Ok(Some(Order::End)),
        Err(problem) if problem.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(problem) => Err(problem),
    }
}
