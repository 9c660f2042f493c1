//! `lockkeeper demo`: sells a stock of tickets to many buyers at once, once for each strategy.
//!
//! A purchase reads the stored count of tickets, thinks for a millisecond, and writes the count less one. All
//! strategies do just that, with the same time to think; they differ in how they keep the buyers apart
//! (see `strategy`).
//!
//! ```text
//! mod      the command                     sale     one strategy's sale
//! buyers   all buyers of one process       customer one of them         strategy  how they buy
//! stock    the stored count: in memory, or a hash on a server
//! crew     child processes                 worker   this program as one  message   what they say
//! tally    what came of it
//! ```
//!
//! The figures:
//!
//! - **sold**: purchases whose buyer was told "yours".
//! - **oversold**: those beyond the stock.
//! - **lost updates**: sold, less what the stored count went down by. Each is a write that another one undid.
//! - **wait**: from a buyer's first wish to the beginning of the reading that decided the purchase.
//! - **round trips per sale**: everything that was sent to the server (with none: steps of the embedded engine and
//!   of the stock in memory), for the lock and for the stock, refused purchases included, by tickets sold.
//! - **seconds**: from the first buyer's entry to the last one's leaving; starting and connecting do not count.

mod buyers;
mod crew;
mod customer;
mod message;
mod patience;
mod plan;
mod progress;
mod sale;
mod stock;
mod strategy;
mod tally;
mod trouble;
mod worker;

use crate::arguments::{DemoArguments, Server, Strategy};
use crate::commands::complain;
use crate::exit::Exit;
use crate::output::{Paint, write_sale_line, write_sales};
use std::io::{self, Write};
use std::process::ExitCode;

/// The hidden word that makes this program a child of the demo.
const BUYERS: &str = "__buyers";

/// Plays the part of a child process of the demo, if the command line says that this process is one. To be called
/// first in `main`.
#[must_use]
pub fn helper() -> Option<ExitCode> {
    let part = std::env::args_os().nth(1)?;
    (part == BUYERS).then(worker::live)
}

/// Runs the demo and prints its table, or one line of JSON after each sale.
///
/// Fails if a strategy that promises to keep buyers apart has sold a ticket twice or forgotten a sale.
#[must_use]
pub fn run(arguments: &DemoArguments) -> Exit {
    let server = arguments
        .redis
        .as_deref()
        .map(|address| Server::resolve(address, arguments.password_file.as_deref()));
    let server = match server.transpose() {
        Ok(server) => server,
        Err(problem) => {
            complain(problem);
            return Exit::Usage;
        }
    };
    if arguments.processes > 1 && server.is_none() {
        complain("--processes needs --redis: the embedded engine lives inside one process");
        return Exit::Usage;
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(problem) => {
            complain(problem);
            return Exit::Failure;
        }
    };
    runtime.block_on(sell_all(arguments, server.as_ref()))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

async fn sell_all(arguments: &DemoArguments, server: Option<&Server>) -> Exit {
    let mut exit = Exit::Success;
    let mut reports = Vec::new();
    for strategy in arguments.chosen() {
        match sale::sell(arguments, server, strategy).await {
            Ok(sold) => {
                for note in sold.notes {
                    complain(note);
                }
                if strategy != Strategy::None && sold.report.went_wrong() {
                    complain(format_args!("{} did not keep the buyers apart", strategy.name()));
                    exit = Exit::Failure;
                }
                let lines = &mut io::stdout().lock();
                if arguments.json
                    && write_sale_line(lines, &sold.report)
                        .and_then(|()| lines.flush())
                        .is_err()
                {
                    return Exit::Failure;
                }
                reports.push(sold.report);
            }
            Err(trouble) => {
                complain(format_args!("{}: {trouble}", strategy.name()));
                exit = trouble.exit();
                break;
            }
        }
    }
    if !arguments.json
        && !reports.is_empty()
        && write_sales(&mut io::stdout().lock(), &reports, Paint::for_output()).is_err()
    {
        return Exit::Failure;
    }
    exit
}
