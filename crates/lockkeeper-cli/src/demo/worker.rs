//! This program as a child: takes its orders from standard input and tells what came of them.

use super::buyers::Shop;
use super::message::{News, Order};
use super::tally::Tally;
use super::trouble::Trouble;
use crate::arguments::Server;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NEWS_EVERY: Duration = Duration::from_millis(100);

/// The child's life.
pub(super) fn live() -> ExitCode {
    let result = work();
    let failed = result.is_err();
    let last = result.map_or_else(News::Failed, News::Finished);
    if say(&last).is_err() || failed {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn work() -> Result<Tally, Trouble> {
    let failed = |error: io::Error| Trouble::Process(error.to_string());
    let Order::Prepare(plan) = listen()? else {
        return Err(Trouble::Process("it was to begin unprepared".to_owned()));
    };
    let address = plan.server.as_deref();
    let address = address.ok_or_else(|| Trouble::Process("it was told no server".to_owned()))?;
    let server = Server::resolve(address, None).map_err(|error| Trouble::Refused(error.to_string()))?;
    let runtime = super::runtime().map_err(failed)?;
    let shop = runtime.block_on(Shop::connect(plan, &server))?;
    say(&News::Ready).map_err(failed)?;
    let Order::Begin = listen()? else {
        return Err(Trouble::Process("it was prepared twice".to_owned()));
    };
    std::thread::spawn(end_with_the_parent);
    let done = Arc::new(AtomicU64::new(0));
    let tally = runtime.block_on(async {
        let mut serving = std::pin::pin!(shop.serve(Arc::clone(&done)));
        let mut ticks = tokio::time::interval(NEWS_EVERY);
        loop {
            tokio::select! {
                tally = &mut serving => return tally,
                _ = ticks.tick() => say(&News::Done(done.load(Ordering::Relaxed))).map_err(failed)?,
            }
        }
    });
    runtime.shutdown_background();
    tally
}

fn say(news: &News) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, news)?;
    writeln!(out)?;
    out.flush()
}

fn listen() -> Result<Order, Trouble> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Trouble::Process(error.to_string()))?;
    serde_json::from_str(&line).map_err(|error| Trouble::Process(error.to_string()))
}

/// The pipe ends when the parent does, however it ends; so do the sales then.
fn end_with_the_parent() {
    let mut rest = io::stdin().lock();
    while let Ok(1..) = rest.fill_buf().map(<[u8]>::len) {
        let length = rest.fill_buf().map_or(0, <[u8]>::len);
        rest.consume(length);
    }
    std::process::exit(1);
}
