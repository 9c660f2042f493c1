use clap::Args;

use super::ServerArguments;

/// `lockkeeper doctor`.
#[derive(Debug, Args)]
#[command(after_help = crate::exit::TABLE)]
pub struct DoctorArguments {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArguments,

    /// A name that this user may use: what is allowed is tried on keys named after it, without writing any
    #[arg(long, value_name = "NAME", default_value = "lockkeeper")]
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
