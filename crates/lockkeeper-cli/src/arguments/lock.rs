//! `lockkeeper show` and `lockkeeper unlock`.

use super::server::ServerArguments;
use clap::Args;

/// `lockkeeper show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArguments,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The lock's name
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// `lockkeeper unlock`.
#[derive(Debug, Args)]
pub struct UnlockArguments {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArguments,

    /// Required: whoever holds the lock loses it, and may still be at work
    #[arg(long, required = true)]
    pub force: bool,

    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The lock's name
    #[arg(value_name = "NAME")]
    pub name: String,
}
