//! From the opening of the gate to the command's end.

use super::alarm::{self, Alarm};
use super::ended::{Ended, How};
use super::guardian::Guardian;
use super::hold::{Hold, Standing, next_look};
use super::launch::Launch;
use super::moment::Moment;
use super::signals::Signals;
use super::terminal::Terminal;
use super::waker::Waker;
use crate::commands::complain;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};
use std::io;

/// Signals that end a program which does not take care of them, and that are meant to.
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// A running command and all that is needed to mind it.
pub(super) struct Watch<'a, H> {
    signals: &'a Signals,
    waker: &'a Waker,
    alarm: &'a Alarm,
    terminal: Option<Terminal>,
    guardian: Guardian,
    guarded: bool,
    launch: Launch,
    hold: &'a H,
    stopped: bool,
    loss: Option<Loss>,
    asked_to_end: bool,
}

/// A hold that was lost.
#[derive(Clone, Copy)]
struct Loss {
    kill_at: Moment,
    killed: bool,
}

impl<'a, H: Hold> Watch<'a, H> {
    pub(super) fn new(
        signals: &'a Signals,
        waker: &'a Waker,
        alarm: &'a Alarm,
        terminal: Option<Terminal>,
        guardian: Guardian,
        launch: Launch,
        hold: &'a H,
    ) -> Self {
        Self {
            signals,
            waker,
            alarm,
            terminal,
            guardian,
            guarded: true,
            launch,
            hold,
            stopped: false,
            loss: None,
            asked_to_end: false,
        }
    }

    pub(super) fn run(mut self) -> io::Result<Ended> {
        let watched = self.watch();
        if watched.is_err() {
            // Without a watch there must be no command. KILL cannot be refused, so the wait below ends.
            self.pass_on(Signal::SIGKILL);
            waitid(self.leader(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        }
        let ended = self.finish();
        watched.and(ended)
    }

    fn watch(&mut self) -> io::Result<()> {
        self.follow_hold()?;
        self.lend_terminal();
        self.launch.open_gate()?;
        loop {
            let signal = self.signals.next()?;
            if self.has_ended()? {
                // It came too late for the command, and is for whatever we do next.
                self.signals.put_back(signal);
                return Ok(());
            }
            if let Some(signal) = signal {
                self.heed(signal)?;
                continue;
            }
            self.waker.clear();
            self.follow_hold()?;
            alarm::sleep(&[self.signals, self.waker, self.alarm])?;
        }
    }

    /// Asks the hold and acts on it.
    fn follow_hold(&mut self) -> io::Result<()> {
        let now = Moment::now();
        if self.loss.is_none() {
            match self.hold.standing() {
                Standing::Held { stop_at, kill_at } if now < stop_at => {
                    self.guardian.limit(kill_at);
                    return self.alarm.set(Some(next_look(now, stop_at)));
                }
                Standing::Held { kill_at, .. } | Standing::Lost { kill_at } => {
                    self.begin_stopping(kill_at);
                }
            }
        }
        if let Some(loss) = self.loss.as_mut().filter(|loss| !loss.killed) {
            if now < loss.kill_at {
                return self.alarm.set(Some(loss.kill_at));
            }
            loss.killed = true;
            self.pass_on(Signal::SIGKILL);
        }
        self.alarm.set(None)
    }

    fn begin_stopping(&mut self, kill_at: Moment) {
        self.loss = Some(Loss { kill_at, killed: false });
        self.guardian.limit(kill_at);
        self.pass_on(Signal::SIGTERM);
        if Moment::now() < kill_at {
            // A stopped command could not act on TERM. Past that moment it must not move again.
            self.let_go_on();
        }
    }

    fn heed(&mut self, signal: Signal) -> io::Result<()> {
        match signal {
            Signal::SIGCHLD => self.look_at_children(),
            Signal::SIGCONT => self.resume(),
            Signal::SIGTSTP if self.stopped => self.suspend(Signal::SIGTSTP),
            Signal::SIGTTOU => Ok(()),
            other => {
                self.asked_to_end |= ENDING.contains(&other);
                self.pass_on(other);
                Ok(())
            }
        }
    }

    fn look_at_children(&mut self) -> io::Result<()> {
        if self.guarded && !self.guardian.check()? {
            self.guarded = false;
            complain("the guardian was killed too often; should lockkeeper be killed, grandchildren may live on");
        }
        let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        while let Some(change) = wait(self.leader(), changes)? {
            self.stopped = change.stopped();
            let signal = change
                .stopping_signal()
                .and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal
                && self.loss.is_none()
            {
                self.suspend(signal)?;
            }
        }
        Ok(())
    }

    /// The command was stopped. With a terminal we stop with it, so that the shell sees a stopped job; without one
    /// nobody would continue us, and the lock is simply kept.
    fn suspend(&mut self, signal: Signal) -> io::Result<()> {
        let group = self.group();
        let Some(terminal) = &mut self.terminal else {
            return Ok(());
        };
        let asks_for_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks_for_terminal {
            terminal.want();
            if terminal.is_ours() {
                self.lend_terminal();
                self.let_go_on();
                return Ok(());
            }
        }
        terminal.take_back();
        // Nothing renews the lock while we stand still, so nothing of the group may run.
        let _ = killpg(group, Signal::SIGSTOP);
        if self.signals.stop_ourselves()? {
            self.resume()
        } else {
            // We may not stop (no shell would continue us): a ^Z is ignored, as the system does in that case.
            if signal == Signal::SIGTSTP {
                self.resume()?;
            }
            Ok(())
        }
    }

    /// Somebody continued us. The lock first: renewal stood still too.
    fn resume(&mut self) -> io::Result<()> {
        self.follow_hold()?;
        if self.loss.is_none() {
            self.lend_terminal();
            self.let_go_on();
        }
        Ok(())
    }

    fn lend_terminal(&mut self) {
        let group = self.group();
        if let Some(terminal) = &mut self.terminal {
            terminal.lend(group);
        }
    }

    fn let_go_on(&mut self) {
        self.pass_on(Signal::SIGCONT);
        self.stopped = false;
    }

    /// To the whole group. Fails only when nothing of it is left.
    fn pass_on(&self, signal: Signal) {
        let _ = killpg(self.group(), signal);
    }

    fn has_ended(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(wait(self.leader(), look)?.is_some())
    }

    /// The command has ended, and is waited for last: as long as it is not, the group's number is its own.
    fn finish(mut self) -> io::Result<Ended> {
        // The guardian may have been the first to see the end of the hold.
        let held = matches!(self.hold.standing(), Standing::Held { stop_at, .. } if Moment::now() < stop_at);
        let lost = self.loss.is_some() || !held;
        if lost {
            self.pass_on(Signal::SIGKILL);
        }
        let leader = self.leader();
        self.guardian.dismiss()?;
        let status = wait(leader, WaitIdOptions::EXITED)?;
        let how = how(self.launch.refusal(), status);
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
            if !matches!(how, How::Exited(_)) {
                terminal.restore_modes();
            }
        }
        self.alarm.set(None)?;
        let from_keyboard = [Signal::SIGINT, Signal::SIGQUIT].map(|signal| signal as i32);
        let asked_to_end =
            self.asked_to_end || matches!(&how, How::Signalled(signal) if from_keyboard.contains(signal));
        Ok(Ended {
            how,
            lost,
            asked_to_end,
        })
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.launch.group().as_raw_nonzero().get())
    }

    fn leader(&self) -> WaitId<'static> {
        WaitId::Pid(self.launch.group())
    }
}

fn how(refusal: Option<io::Error>, status: Option<WaitIdStatus>) -> How {
    if let Some(problem) = refusal {
        return How::NotStarted(problem);
    }
    let code = status.as_ref().and_then(WaitIdStatus::exit_status);
    match status.as_ref().and_then(WaitIdStatus::terminating_signal) {
        Some(signal) => How::Signalled(signal),
        None => How::Exited(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)),
    }
}

fn wait(leader: WaitId<'static>, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    loop {
        match waitid(leader.clone(), options) {
            Err(Errno::INTR) => {}
            // A process that has ended has no stops to tell any more.
            Err(Errno::CHILD) if !options.contains(WaitIdOptions::EXITED) => return Ok(None),
            other => return Ok(other?),
        }
    }
}
