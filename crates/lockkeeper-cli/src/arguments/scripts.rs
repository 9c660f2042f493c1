use clap::{Args, Subcommand};

use super::ServerArguments;

/// `lockkeeper scripts`.
#[derive(Debug, Args)]
pub struct ScriptsArguments {
    /// What to do.
    #[command(subcommand)]
    pub task: ScriptsTask,
}

/// What can be done with the scripts.
#[derive(Debug, Subcommand)]
pub enum ScriptsTask {
    /// Print hash and name of each script
    List {
        /// Print JSON, with the text of each script
        #[arg(long)]
        json: bool,
    },
    /// Load all scripts, as a user who may; needed again after each restart and failover
    #[command(after_help = "On a cluster, name every node: redis+cluster://HOST:PORT,HOST:PORT")]
    Load(ServerArguments),
}
