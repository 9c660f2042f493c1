//! `lockkeeper man`: one page with every subcommand.

use super::{complain, print_document};
use crate::arguments::command;
use crate::exit::Exit;
use clap_mangen::Man;
use std::io;

pub(super) fn print() -> Exit {
    match page() {
        Ok(page) => print_document(&page),
        Err(problem) => {
            complain(problem);
            Exit::Failure
        }
    }
}

fn page() -> io::Result<Vec<u8>> {
    let mut root = command();
    root.build();
    let mut page = Vec::new();
    Man::new(root.clone()).render(&mut page)?;
    for subcommand in root.get_subcommands() {
        let name = format!("lockkeeper {}", subcommand.get_name());
        let man = Man::new(subcommand.clone().bin_name(&name).display_name(&name));
        let heading = name.to_uppercase();
        page.extend_from_slice(format!(".SH \"{heading}\"\n").as_bytes());
        man.render_description_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    Ok(page)
}
