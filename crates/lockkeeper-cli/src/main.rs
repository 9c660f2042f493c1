//! The `lockkeeper` program; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockkeeper_cli::main()
}
