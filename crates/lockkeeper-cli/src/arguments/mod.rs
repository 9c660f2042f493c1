//! What can be typed: the whole command line, apart from what it does.

mod demo;
mod doctor;
mod duration;
mod elect;
mod lock;
mod run;
mod scripts;
mod server;
mod usage;
mod work;

pub use demo::{DemoArguments, Strategy};
pub use doctor::DoctorArguments;
pub use duration::parse_duration;
pub use elect::{ELECT_NOTES, ElectArguments};
pub use lock::{ShowArguments, UnlockArguments};
pub use run::{Kind, Layout, RUN_NOTES, RunArguments};
pub use scripts::{ScriptsArguments, ScriptsTask};
pub use server::{PASSWORD_VARIABLE, Secret, Server, ServerArguments, ServerError, hide_passwords};
pub use usage::{UsageProblem, command, parse};
pub use work::WorkArguments;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// The command line, understood.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Run commands under a distributed lock on Redis or Valkey, and look at locks",
    after_help = crate::exit::TABLE,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock
    Run(Box<RunArguments>),
    /// Run a command while leading, one machine at a time, term after term
    Elect(Box<ElectArguments>),
    /// Show who holds a lock
    Show(ShowArguments),
    /// Free a lock whoever holds it
    Unlock(UnlockArguments),
    /// Tell what locks on this server promise, and what weakens that
    Doctor(DoctorArguments),
    /// List the scripts that run on the server, or load them for users who may not
    Scripts(ScriptsArguments),
    /// Sell tickets to many buyers at once, with and without a lock
    Demo(DemoArguments),
    /// Print completions for a shell
    Completions(CompletionsArguments),
    /// Print the manual page in roff (try: lockkeeper man | man -l -)
    Man,
}

/// `lockkeeper completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell that will read them
    #[arg(value_enum)]
    pub shell: Shell,
}
