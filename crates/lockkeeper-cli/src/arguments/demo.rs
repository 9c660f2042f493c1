//! `lockkeeper demo`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How buyers keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Strategy {
    /// Read, decrement, write back: oversells
    None,
    /// WATCH, MULTI, EXEC with bounded retries
    Optimistic,
    /// SET NX PX, polled every 40 ms, as hand-written locks do
    Spin,
    /// Lockkeeper's mutex
    Mutex,
}

impl Strategy {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::None, Self::Optimistic, Self::Spin, Self::Mutex];

    /// The word that is typed and printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Optimistic => "optimistic",
            Self::Spin => "spin",
            Self::Mutex => "mutex",
        }
    }
}

/// `lockkeeper demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Tickets for sale
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub stock: u64,

    /// Purchases that are tried: more than there are tickets, so that the last ones must be refused
    #[arg(long, value_name = "NUMBER", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub requests: u64,

    /// Buyers at the same time, over all processes
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub buyers: u32,

    /// Real processes that share the buyers; more than one needs --redis
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub processes: u32,

    /// A server's address [default: the engine inside this process]
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,

    /// A file whose first line is the server's password (or set LOCKKEEPER_PASSWORD)
    #[arg(long, value_name = "FILE", requires = "redis")]
    pub password_file: Option<PathBuf>,

    /// Only this strategy; may be repeated [default: all]
    #[arg(long = "strategy", value_enum, value_name = "STRATEGY")]
    pub strategies: Vec<Strategy>,

    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

impl DemoArguments {
    /// The strategies to run, each once, in the order of the table.
    #[must_use]
    pub fn chosen(&self) -> Vec<Strategy> {
        let wanted = |strategy: &Strategy| self.strategies.is_empty() || self.strategies.contains(strategy);
        Strategy::ALL.into_iter().filter(wanted).collect()
    }
}
