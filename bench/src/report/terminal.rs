//! Tables for the terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;

use super::{HEADINGS, Table};

pub(crate) fn render(table: &Table) -> String {
    let mut shown = comfy_table::Table::new();
    shown.load_style(UTF8_HORIZONTAL_ONLY);
    shown.set_header(HEADINGS);
    for row in &table.rows {
        shown.add_row(row.cells().map(|cell| cell.replace('*', "")));
    }
    format!("{}\n{}\n{shown}\n", table.title, table.note)
}
