//! The helper that becomes the command.

use super::inherited;
use crate::commands::complain;
use crate::exit::Exit;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Signal as RawSignal, getppid, set_parent_process_death_signal};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Prepares this process, waits at the gate and becomes the command. Returns only if that fails.
pub(super) fn become_command(words: &[OsString]) -> ExitCode {
    match prepare(words) {
        Ok(Prepared {
            mut report,
            command: [program, arguments @ ..],
        }) => {
            let problem = Command::new(program).args(arguments).exec();
            // The parent reads the number; without a parent there is nobody to tell.
            let _ = report.write_all(&problem.raw_os_error().unwrap_or(0).to_ne_bytes());
            complain(format_args!("cannot run {}: {problem}", program.display()));
            if problem.kind() == ErrorKind::NotFound {
                Exit::NotFound.into()
            } else {
                Exit::NotExecutable.into()
            }
        }
        Ok(_) | Err(_) => Exit::Failure.into(),
    }
}

struct Prepared<'a> {
    report: std::fs::File,
    command: &'a [OsString],
}

fn prepare(words: &[OsString]) -> io::Result<Prepared<'_>> {
    let [gate, report, parent, blocked, command @ ..] = words else {
        return Err(io::Error::other("not started by lockkeeper"));
    };
    let mut gate = inherited::take(number(gate)?, false)?;
    let report = inherited::take(number(report)?, true)?;
    // The kernel's own guard for this one process; the guardian minds the whole group.
    set_parent_process_death_signal(Some(RawSignal::KILL))?;
    let parent = number(parent)?;
    if getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
        return Err(io::Error::other("the parent is gone"));
    }
    gate.read_exact(&mut [0])?;
    // Last, so that a signal that came in the meantime meets the command's defaults and not half a preparation.
    unblock(blocked)?;
    Ok(Prepared { report, command })
}

fn unblock(list: &OsStr) -> io::Result<()> {
    let mut signals = SigSet::empty();
    for word in list
        .to_str()
        .unwrap_or_default()
        .split(',')
        .filter(|word| !word.is_empty())
    {
        signals.add(Signal::try_from(number(word.as_ref())?)?);
    }
    Ok(signals.thread_unblock()?)
}

fn number(word: &OsStr) -> io::Result<i32> {
    let number = word.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))
}
