//! Starts the command's process and holds it at a gate.

use super::{helper, inherited, signals::Signals};
use nix::sys::signal::SigSet;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;

/// A process, leader of its own group, that becomes the command when the gate is opened. If we die before, the gate
/// closes and it ends.
#[derive(Debug)]
pub(super) struct Launch {
    group: Pid,
    gate: Option<PipeWriter>,
    report: PipeReader,
}

impl Launch {
    pub(super) fn start(
        words: &[OsString],
        environment: &[(OsString, OsString)],
        signals: &Signals,
    ) -> io::Result<Self> {
        let (gate_end, gate) = io::pipe()?;
        let (report, report_end) = io::pipe()?;
        let child = helper::ourselves()
            .arg(helper::CHILD)
            .arg(inherited::lend(&gate_end)?.to_string())
            .arg(inherited::lend(&report_end)?.to_string())
            .arg(getpid().as_raw_nonzero().to_string())
            .arg(listed(signals.added()))
            .args(words)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .spawn()?;
        // The child is waited for by number, since std knows nothing of stops.
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("the system gave no process number"))?;
        Ok(Self {
            group,
            gate: Some(gate),
            report,
        })
    }

    /// The number of the process, and of its group.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Lets it become the command.
    pub(super) fn open_gate(&mut self) -> io::Result<()> {
        match self.gate.take() {
            Some(mut gate) => gate.write_all(&[1]),
            None => Ok(()),
        }
    }

    /// Gives up before the gate was opened, and waits until the process is gone.
    pub(super) fn abandon(mut self) -> io::Result<()> {
        self.gate = None;
        waitid(WaitId::Pid(self.group), WaitIdOptions::EXITED)?;
        Ok(())
    }

    /// Why the process, which has ended, never became the command; `None` if it did.
    pub(super) fn refusal(&mut self) -> Option<io::Error> {
        let mut number = [0; 4];
        self.report.read_exact(&mut number).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
    }
}

fn listed(signals: &SigSet) -> String {
    let numbers: Vec<_> = signals.iter().map(|signal| (signal as i32).to_string()).collect();
    numbers.join(",")
}
