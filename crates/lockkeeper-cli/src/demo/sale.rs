//! One strategy's sale from the first ticket to the report.

use super::buyers::{Shop, mutex_name};
use super::crew::Crew;
use super::plan::Plan;
use super::progress::Progress;
use super::stock::{EmbeddedStock, RedisStock};
use super::tally::Tally;
use super::trouble::Trouble;
use crate::arguments::{DemoArguments, Server, Strategy};
use crate::output::SaleReport;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Well within the life of the keys.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A report, and what it has no column for.
#[derive(Debug)]
pub(super) struct Sold {
    pub(super) report: SaleReport,
    pub(super) notes: Vec<String>,
}

/// Sells the stock once.
pub(super) async fn sell(wanted: &DemoArguments, server: Option<&Server>, strategy: Strategy) -> Result<Sold, Trouble> {
    let plan = Plan::new(
        server.map(|server| server.url.clone()),
        format!("lockkeeper-demo:{:016x}", fastrand::u64(..)),
        strategy,
        wanted.buyers.into(),
        wanted.requests,
    );
    let progress = Progress::new(strategy.name(), wanted.requests);
    let sale = Sale {
        wanted,
        strategy,
        progress,
    };
    match server {
        None => sale.embedded(plan).await,
        Some(server) => sale.on_server(plan, server).await,
    }
}

struct Sale<'a> {
    wanted: &'a DemoArguments,
    strategy: Strategy,
    progress: Progress,
}

impl Sale<'_> {
    async fn embedded(&self, plan: Plan) -> Result<Sold, Trouble> {
        let stock = EmbeddedStock::new(self.wanted.stock);
        let shop = Shop::embedded(plan, stock.clone())?;
        let done = Arc::new(AtomicU64::new(0));
        let (tally, time) = self.watch(shop.serve(Arc::clone(&done)), &done, None).await?;
        Ok(self.result(&tally, stock.left(), time))
    }

    async fn on_server(&self, plan: Plan, server: &Server) -> Result<Sold, Trouble> {
        let stock = RedisStock::new(server, &plan.prefix)?;
        // A server that is not there is told at once; only one that goes away later is waited for.
        stock.greet().await?;
        let token_key = format!("lockkeeper_token:{{{}}}", mutex_name(&plan.prefix));
        let sold = self.on_stock(plan, server, &stock).await;
        let removed = stock.remove(&token_key).await;
        let sold = sold?;
        removed?;
        Ok(sold)
    }

    async fn on_stock(&self, plan: Plan, server: &Server, stock: &RedisStock) -> Result<Sold, Trouble> {
        stock.fill(self.wanted.stock).await?;
        let done = Arc::new(AtomicU64::new(0));
        let (tally, time) = if self.wanted.processes > 1 {
            let crew = Crew::gather(plan.share(self.wanted.processes.into()), server).await?;
            self.watch(crew.work(Arc::clone(&done)), &done, Some(stock)).await?
        } else {
            let shop = Shop::connect(plan, server).await?;
            self.watch(shop.serve(Arc::clone(&done)), &done, Some(stock)).await?
        };
        Ok(self.result(&tally, stock.left().await?, time))
    }

    /// Shows how the work gets on, and keeps the stock's key alive meanwhile.
    async fn watch(
        &self,
        work: impl Future<Output = Result<Tally, Trouble>>,
        done: &AtomicU64,
        stock: Option<&RedisStock>,
    ) -> Result<(Tally, Duration), Trouble> {
        let start = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut show = tokio::time::interval(SHOW_EVERY);
        let mut kept = Instant::now();
        loop {
            tokio::select! {
                tally = &mut work => return Ok((tally?, start.elapsed())),
                _ = tokio::signal::ctrl_c() => return Err(Trouble::Interrupted),
                _ = show.tick() => self.progress.show(done.load(Ordering::Relaxed)),
            }
            if let Some(stock) = stock
                && kept.elapsed() > KEEP_EVERY
            {
                kept = Instant::now();
                let stock = stock.clone();
                // The buyers notice trouble with the server themselves.
                tokio::spawn(async move { stock.keep().await });
            }
        }
    }

    fn result(&self, tally: &Tally, left: u64, time: Duration) -> Sold {
        let name = self.strategy.name();
        let report = tally.report(self.strategy, self.wanted.stock, self.wanted.requests, left, time);
        let mut notes = Vec::new();
        if tally.gave_up > 0 {
            let count = tally.gave_up;
            notes.push(format!("{name}: {count} requests never got their turn and gave up"));
        }
        let missing = self.wanted.stock.saturating_sub(left).saturating_sub(tally.sold);
        if missing > 0 {
            notes.push(format!("{name}: {missing} tickets left the stock and reached no buyer"));
        }
        Sold { report, notes }
    }
}
