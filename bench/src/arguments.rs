//! What can be typed.

use clap::{Parser, Subcommand};

use crate::work::{Role, Work};

/// Measures Lockkeeper beside the bare driver and its peers.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Take about a minute: fewer rounds, shorter ones, and fewer holds to renew.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only this; may be given more than once.
    #[arg(long, value_name = "NAME", value_parser = Work::ALL.map(Work::name))]
    pub(crate) only: Vec<String>,

    /// How many rounds each figure is the median of.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) rounds: Option<u16>,

    /// Print the text for bench/README.md instead of tables.
    #[arg(long)]
    pub(crate) markdown: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One of several processes that a measurement needs; started by the benchmark itself.
    #[command(hide = true)]
    Child {
        #[command(subcommand)]
        role: Role,
    },
}

impl Arguments {
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
