//! `lockkeeper man`: one page with every subcommand.

use super::{complain, print_document};
use crate::arguments::{ELECT_NOTES, RUN_NOTES, command};
use crate::exit::{Exit, TABLE};
use clap_mangen::Man;
use std::io::{self, Write};

const ENVIRONMENT: &str = "\
  LOCKKEEPER_URL       the server's address, if --url is not given
  LOCKKEEPER_PASSWORD  the server's password, if --password-file is not given
  NO_COLOR             if not empty: never any colour";

pub(super) fn print() -> Exit {
    let mut page = Vec::new();
    match write_page(&mut page) {
        Ok(()) => print_document(&page),
        Err(problem) => {
            complain(problem);
            Exit::Failure
        }
    }
}

fn write_page(page: &mut Vec<u8>) -> io::Result<()> {
    let mut root = command();
    root.build();
    let whole = Man::new(root.clone());
    whole.render_title(page)?;
    whole.render_name_section(page)?;
    whole.render_synopsis_section(page)?;
    whole.render_options_section(page)?;
    for subcommand in root.get_subcommands() {
        let name = format!("lockkeeper {}", subcommand.get_name());
        writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
        write_text(
            page,
            &subcommand.get_about().map(ToString::to_string).unwrap_or_default(),
        )?;
        let part = Man::new(subcommand.clone().bin_name(&name).display_name(&name));
        part.render_synopsis_section(page)?;
        part.render_options_section(page)?;
        let notes = match subcommand.get_name() {
            "run" => RUN_NOTES,
            "elect" => ELECT_NOTES,
            _ => continue,
        };
        writeln!(page, ".SH NOTES")?;
        write_text(page, notes)?;
    }
    writeln!(page, ".SH ENVIRONMENT")?;
    write_text(page, ENVIRONMENT)?;
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    write_text(page, TABLE.split_once('\n').map_or(TABLE, |(_, rows)| rows))
}

/// Text as roff: paragraphs are filled, indented lines stay as they are.
fn write_text(page: &mut Vec<u8>, text: &str) -> io::Result<()> {
    for paragraph in text.split("\n\n") {
        let is_table = paragraph.starts_with(' ');
        writeln!(page, "{}", if is_table { ".PP\n.nf" } else { ".PP" })?;
        for line in paragraph.lines() {
            // \& keeps a leading point or quote from being a request.
            writeln!(page, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
        }
        if is_table {
            writeln!(page, ".fi")?;
        }
    }
    Ok(())
}
