//! All buyers of one process, at work.

use super::customer::{Customer, Purchase};
use super::plan::Plan;
use super::stock::{EmbeddedStock, RedisStock, Stock};
use super::strategy::{mutex, none, optimistic, spin};
use super::tally::Tally;
use super::trouble::Trouble;
use crate::arguments::{Server, Strategy};
use lockkeeper::{Keeper, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Shared, PoisonError};
use tokio::task::JoinSet;

/// Everything that buyers need, connected and ready.
#[derive(Debug)]
pub(super) struct Shop<S> {
    plan: Plan,
    strategy: Strategy,
    stock: S,
    keeper: Option<Keeper>,
}

/// The name of the mutex of a sale.
pub(super) fn mutex_name(prefix: &str) -> String {
    format!("{prefix}:mutex")
}

impl Shop<EmbeddedStock> {
    /// A shop inside this process.
    pub(super) fn embedded(plan: Plan, stock: EmbeddedStock) -> Result<Self, Trouble> {
        let strategy = strategy(&plan)?;
        let keeper = (strategy == Strategy::Mutex).then(Keeper::embedded);
        Ok(Self {
            plan,
            strategy,
            stock,
            keeper,
        })
    }
}

impl Shop<RedisStock> {
    /// A shop that shares its stock with others.
    pub(super) async fn connect(plan: Plan, server: &Server) -> Result<Self, Trouble> {
        let strategy = strategy(&plan)?;
        let stock = RedisStock::new(server, &plan.prefix)?;
        stock.greet().await?;
        let keeper = match strategy {
            Strategy::Mutex => {
                let mut builder = Keeper::builder();
                if let Some(password) = &server.password {
                    builder = builder.password(password.reveal());
                }
                Some(builder.connect(&server.url).await?)
            }
            _ => None,
        };
        Ok(Self {
            plan,
            strategy,
            stock,
            keeper,
        })
    }
}

fn strategy(plan: &Plan) -> Result<Strategy, Trouble> {
    plan.strategy()
        .ok_or_else(|| Trouble::Process("it was told an unknown strategy".to_owned()))
}

impl<S: Stock> Shop<S> {
    /// Lets the buyers in and waits for the last one. `done` counts the requests that have ended.
    ///
    /// # Errors
    ///
    /// The first trouble that no buyer's patience could outlast. The others are sent home then.
    pub(super) async fn serve(self, done: Arc<AtomicU64>) -> Result<Tally, Trouble> {
        let mutex = self
            .keeper
            .as_ref()
            .map(|keeper| keeper.mutex(mutex_name(&self.plan.prefix)));
        let requests = Arc::new(AtomicU64::new(self.plan.requests));
        // One for all: a histogram is too big to give each of many buyers their own.
        let tally = Arc::new(Shared::new(Tally::default()));
        let mut buyers = JoinSet::new();
        for number in 0..self.plan.buyers {
            buyers.spawn(come_in(
                self.strategy,
                self.stock.clone(),
                mutex.clone(),
                Customer::new(self.plan.process, number),
                Arc::clone(&requests),
                Arc::clone(&tally),
                Arc::clone(&done),
            ));
        }
        while let Some(buyer) = buyers.join_next().await {
            let broken = |error: tokio::task::JoinError| Trouble::Process(error.to_string());
            buyer.map_err(broken)??;
        }
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(keeper) = &self.keeper {
            keeper.close().await;
            tally.round_trips += keeper.round_trips();
        }
        tally.round_trips += self.stock.round_trips();
        Ok(tally)
    }
}

/// One buyer tries to buy, again and again, until all requests are made.
async fn come_in<S: Stock>(
    strategy: Strategy,
    stock: S,
    mutex: Option<Mutex>,
    mut customer: Customer,
    requests: Arc<AtomicU64>,
    tally: Arc<Shared<Tally>>,
    done: Arc<AtomicU64>,
) -> Result<(), Trouble> {
    let one_less = |left: u64| left.checked_sub(1);
    while requests
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
        .is_ok()
    {
        let Purchase { outcome, waited } = match (strategy, &mutex) {
            (Strategy::None, _) => none::buy(&stock, &mut customer).await?,
            (Strategy::Optimistic, _) => optimistic::buy(&stock, &mut customer).await?,
            (Strategy::Spin, _) => spin::buy(&stock, &mut customer).await?,
            (Strategy::Mutex, Some(mutex)) => mutex::buy(&stock, mutex, &mut customer).await?,
            (Strategy::Mutex, None) => return Err(Trouble::Process("it has no mutex".to_owned())),
        };
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.count(outcome, waited);
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
