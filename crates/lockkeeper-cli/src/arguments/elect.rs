//! `lockkeeper elect`.

use super::server::ServerArguments;
use super::work::WorkArguments;
use clap::Args;

/// What `elect --help` and the manual tell beyond the options. Indented lines are a table.
pub const ELECT_NOTES: &str = "\
Waits until it leads, and runs COMMAND then; supervised as by run: with signals passed on, and stopped when the \
leadership is lost. When COMMAND ends, the leadership is given up, and a second later it stands for the next term, \
and so on until a signal ends it. A standby outlives an outage of the server. COMMAND finds in its environment \
what run tells it, with the number of the term as LOCKKEEPER_TOKEN.";

fn long_help() -> String {
    format!("{ELECT_NOTES}\n\n{}", crate::exit::TABLE)
}

/// `lockkeeper elect`.
#[derive(Debug, Args)]
#[command(after_long_help = long_help(), after_help = crate::exit::TABLE)]
pub struct ElectArguments {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArguments,

    /// What others are told of this candidate while it leads [default: HOST:PID]
    #[arg(long, value_name = "TEXT")]
    pub candidate: Option<String>,

    /// End with the first term: with COMMAND's code, or with 79 if the leadership was lost
    #[arg(long)]
    pub once: bool,

    /// The election's name
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The command.
    #[command(flatten)]
    pub work: WorkArguments,
}

impl ElectArguments {
    /// The candidate's text.
    #[must_use]
    pub fn candidate(&self) -> String {
        self.candidate.clone().unwrap_or_else(|| {
            let host = rustix::system::uname();
            format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
        })
    }
}
