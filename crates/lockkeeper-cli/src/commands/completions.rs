//! `lockkeeper completions SHELL`.

use super::print_document;
use crate::arguments::command;
use crate::exit::Exit;
use clap_complete::Shell;

pub(super) fn print(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "lockkeeper", &mut script);
    print_document(&script)
}
