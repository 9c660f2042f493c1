//! `lockkeeper run`.

use super::duration::parse_duration;
use super::server::ServerArguments;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::time::Duration;

/// How the lock is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A hash that services with Redisson share
    Redisson,
    /// One string, SET NAME value NX PX, as most other libraries do
    Plain,
}

/// What `run --help` and the manual tell beyond the options. Indented lines are a table.
pub const RUN_NOTES: &str = "\
COMMAND runs directly, without a shell, in a process group of its own, with our standard input, output and \
error. Signals sent to lockkeeper are passed on to that group. It finds in its environment:

  LOCKKEEPER_NAME       the lock's name
  LOCKKEEPER_TOKEN      the fencing token; a resource should refuse lower ones
  LOCKKEEPER_OWNER      the owner text that marks this hold on the server
  LOCKKEEPER_DEADLINE   when the hold ends unless renewed: milliseconds on
                        the clock that /proc/uptime shows (CLOCK_BOOTTIME)
  LOCKKEEPER_REMAINING  milliseconds left until then when COMMAND was started

Both times are those of the start: renewals move the deadline on. If the lock is lost, COMMAND's group gets \
TERM, and KILL before the lock can expire on the server. If lockkeeper is killed or stands still for too \
long, a small guardian process kills the group. A process that makes a session or a process group of its own \
escapes this. The lock is freed when COMMAND itself ends; processes that it leaves behind run on without it.

A password belongs in LOCKKEEPER_PASSWORD or a file (--password-file), since other users can read command \
lines with ps. One that stands in --url is moved to the environment at once, but was visible for a moment.";

fn long_help() -> String {
    format!("{RUN_NOTES}\n\n{}", crate::exit::TABLE)
}

/// `lockkeeper run`.
#[derive(Debug, Args)]
#[command(after_long_help = long_help(), after_help = crate::exit::TABLE)]
pub struct RunArguments {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArguments,

    /// How long to wait for the lock; 0 tries once [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub wait: Option<Duration>,

    /// How long the lock lives on the server after the last renewal
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    pub lease: Duration,

    /// Never renew: the lock ends with its lease, whatever COMMAND does
    #[arg(long)]
    pub fixed: bool,

    /// Keep the lock at least this long from its start, even if COMMAND ends sooner
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub at_least: Option<Duration>,

    /// Stop renewing after this long, so that a command that hangs does not keep the lock for ever
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "fixed")]
    pub max_hold: Option<Duration>,

    /// How the lock is stored
    #[arg(long, value_enum, default_value = "redisson")]
    pub layout: Layout,

    /// COMMAND is a script for /bin/sh; further words are its $1, $2 and so on
    #[arg(long)]
    pub shell: bool,

    /// The lock's name
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl RunArguments {
    /// The words to execute: those typed, or a shell around them with `--shell`.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        if !self.shell {
            return self.command.clone();
        }
        let mut words: Vec<OsString> = vec!["/bin/sh".into(), "-c".into()];
        words.extend(self.command.first().cloned());
        words.push("sh".into());
        words.extend(self.command.iter().skip(1).cloned());
        words
    }
}
