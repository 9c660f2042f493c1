//! `lockkeeper run`.

use super::duration::parse_duration;
use super::server::ServerArguments;
use super::work::WorkArguments;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// What kind of lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One at a time; between machines there is no order
    Mutex,
    /// One at a time, first come first served
    Fair,
    /// A reader: any number of them together
    Read,
    /// A writer: alone, and no readers
    Write,
    /// One of several permits: at most so many at a time
    Permit,
}

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
  LOCKKEEPER_TOKEN      the fencing token; a resource should refuse lower ones.
                        Not set with --as read and --as permit, which do not
                        exclude others
  LOCKKEEPER_OWNER      the owner text that marks this hold on the server
  LOCKKEEPER_DEADLINE   when the hold ends unless renewed: milliseconds on
                        the clock that /proc/uptime shows (CLOCK_BOOTTIME)
  LOCKKEEPER_REMAINING  milliseconds left until then when COMMAND was started

Both times are those of the start: renewals move the deadline on. If the lock is lost, COMMAND's group gets \
TERM, and KILL before the lock can expire on the server. If lockkeeper is killed or stands still for too \
long, a small guardian process kills the group. A process that makes a session or a process group of its own \
escapes this. The lock is freed when COMMAND itself ends; processes that it leaves behind run on without it.

With --at-least the lock stays taken for the rest of that time, by nobody: a job that every machine of a fleet \
starts by its clock is done once in a period. If COMMAND cannot be started, the period is left to others; if the \
machine dies, the lease decides (--fixed --lease is how long a run may take at most).

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

    /// Run at most once in this time, counted from the start, on all machines together: whoever comes in between ends with 75.
    /// Tries once, unless --wait is given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub at_least: Option<Duration>,

    /// What kind of lock
    #[arg(long = "as", value_name = "KIND", value_enum, default_value = "mutex")]
    pub kind: Kind,

    /// With --as permit: how many permits there are, if nobody has set that yet; so at most so many copies run at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub permits: Option<u32>,

    /// How the lock is stored
    #[arg(long, value_enum, default_value = "redisson")]
    pub layout: Layout,

    /// The lock's name
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The command.
    #[command(flatten)]
    pub work: WorkArguments,
}
