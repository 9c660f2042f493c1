//! What `run` and `elect` have in common: a command, and the lease under which it runs.

use super::duration::parse_duration;
use clap::Args;
use lockkeeper::Lease;
use std::ffi::OsString;
use std::time::Duration;

/// A command and its lease.
#[derive(Debug, Args)]
pub struct WorkArguments {
    /// How long it lives on the server after the last renewal
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    pub lease: Duration,

    /// Never renew: it ends with its lease, whatever COMMAND does
    #[arg(long)]
    pub fixed: bool,

    /// Stop renewing after this long, so that a command that hangs does not keep it for ever
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "fixed")]
    pub max_hold: Option<Duration>,

    /// COMMAND is a script for /bin/sh; further words are its $1, $2 and so on
    #[arg(long)]
    pub shell: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl WorkArguments {
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

    /// The lease that was asked for.
    #[must_use]
    pub fn whole_lease(&self) -> Lease {
        if self.fixed {
            Lease::fixed(self.lease)
        } else {
            Lease::renewed(self.lease)
        }
    }
}
