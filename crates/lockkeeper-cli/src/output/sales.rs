//! What `demo` prints.

use super::colour::Paint;
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// One strategy's sale. The order of the fields is the order in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SaleReport {
    /// The strategy's name.
    pub strategy: String,
    /// Tickets there were.
    pub stock: u64,
    /// Purchases tried.
    pub requests: u64,
    /// Tickets sold.
    pub sold: u64,
    /// Tickets sold above the stock.
    pub oversold: u64,
    /// Sales whose decrement was overwritten by another.
    pub lost_updates: u64,
    /// How long it took.
    pub seconds: f64,
    /// Requests a second.
    pub requests_per_second: f64,
    /// The median wait for a turn, in microseconds.
    pub wait_p50_us: u64,
    /// The wait that 99 in 100 stayed below, in microseconds.
    pub wait_p99_us: u64,
    /// Round trips to the engine for each ticket sold.
    pub round_trips_per_sale: f64,
}

impl SaleReport {
    /// Whether tickets were sold twice or sales forgotten.
    #[must_use]
    pub fn went_wrong(&self) -> bool {
        self.oversold > 0 || self.lost_updates > 0
    }
}

/// Prints one sale as one line of JSON.
///
/// # Errors
///
/// The stream's own.
pub fn write_sale_line(out: &mut impl Write, sale: &SaleReport) -> io::Result<()> {
    serde_json::to_writer(&mut *out, sale)?;
    writeln!(out)
}

/// Prints all sales as a table.
///
/// # Errors
///
/// The stream's own.
pub fn write_sales(out: &mut impl Write, sales: &[SaleReport], paint: Paint) -> io::Result<()> {
    let headings = [
        "strategy",
        "requests",
        "sold",
        "oversold",
        "lost updates",
        "seconds",
        "requests/s",
        "wait p50",
        "wait p99",
        "round trips/sale",
    ];
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    // The table counts its own colours when it measures columns; those of `Paint` it would take for text.
    if paint.is_coloured() {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };
    table.set_header(headings.map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for sale in sales {
        let fault = |count: u64| Cell::new(count).fg(if count > 0 { Color::DarkRed } else { Color::DarkGreen });
        table.add_row([
            Cell::new(&sale.strategy),
            Cell::new(sale.requests),
            Cell::new(sale.sold),
            fault(sale.oversold),
            fault(sale.lost_updates),
            Cell::new(format!("{:.2}", sale.seconds)),
            Cell::new(format!("{:.0}", sale.requests_per_second)),
            Cell::new(milliseconds(sale.wait_p50_us)),
            Cell::new(milliseconds(sale.wait_p99_us)),
            Cell::new(format!("{:.2}", sale.round_trips_per_sale)),
        ]);
    }
    writeln!(out, "{table}")
}

fn milliseconds(microseconds: u64) -> String {
    format!("{}.{:02} ms", microseconds / 1_000, microseconds % 1_000 / 10)
}

#[cfg(test)]
mod tests {
    use super::{SaleReport, write_sale_line, write_sales};
    use crate::output::Paint;

    fn sale(oversold: u64) -> SaleReport {
        SaleReport {
            strategy: "none".to_owned(),
            stock: 100,
            requests: 300,
            sold: 100 + oversold,
            oversold,
            lost_updates: 0,
            seconds: 0.5,
            requests_per_second: 600.0,
            wait_p50_us: 1_250,
            wait_p99_us: 40_009,
            round_trips_per_sale: 2.0,
        }
    }

    #[test]
    fn a_line_of_json_has_the_documented_fields() {
        let mut bytes = Vec::new();
        write_sale_line(&mut bytes, &sale(7)).expect("memory");
        assert_eq!(
            String::from_utf8(bytes).expect("text"),
            "{\"strategy\":\"none\",\"stock\":100,\"requests\":300,\"sold\":107,\"oversold\":7,\"lost_updates\":0,\
             \"seconds\":0.5,\"requests_per_second\":600.0,\"wait_p50_us\":1250,\"wait_p99_us\":40009,\
             \"round_trips_per_sale\":2.0}\n"
        );
        assert!(sale(7).went_wrong() && !sale(0).went_wrong());
    }

    #[test]
    fn the_table_shows_all_and_colours_only_when_asked() {
        let print = |paint| {
            let mut bytes = Vec::new();
            write_sales(&mut bytes, &[sale(7), sale(0)], paint).expect("memory");
            String::from_utf8(bytes).expect("text")
        };
        let plain = print(Paint::new(false));
        for part in ["strategy", "round trips/sale", "107", "1.25 ms", "40.00 ms", "600"] {
            assert!(plain.contains(part), "{part} in\n{plain}");
        }
        assert!(!plain.contains('\u{1b}'));
        assert!(print(Paint::new(true)).contains('\u{1b}'));
    }
}
