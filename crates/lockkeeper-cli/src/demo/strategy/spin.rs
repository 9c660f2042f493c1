//! The lock that many services write by hand: `SET NX PX` with a value of one's own, asked for again every 40 ms,
//! freed by compare-and-delete. It has no fencing token and tells nobody when it is free.
//!
//! With no server the same lock lives beside the stock in this process, and each buyer asks for it just as often.
//! (The library's mutex with a polling wait would be no fair picture: its callers of one process stand in one line.)

use crate::demo::customer::{Customer, LONGEST_WAIT, Purchase, think};
use crate::demo::patience::Patience;
use crate::demo::stock::Stock;
use crate::demo::tally::Outcome;
use crate::demo::trouble::Trouble;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(40);
const LIFE: Duration = Duration::from_secs(10);
/// Kept back at the end of the lock's life.
const MARGIN: Duration = Duration::from_millis(500);
/// Locks taken for one purchase that all ended before the work was done.
const LOCKS: u32 = 10;

/// Lock, read, think, write, unlock.
pub(in crate::demo) async fn buy<S: Stock>(stock: &S, customer: &mut Customer) -> Result<Purchase, Trouble> {
    let asked = Instant::now();
    let mut patience = Patience::new();
    for _ in 0..LOCKS {
        let value = customer.fresh_value();
        let Some(until) = lock(stock, &value, asked + LONGEST_WAIT).await? else {
            break;
        };
        let waited = asked.elapsed();
        let work = under_lock(stock, customer, until).await;
        let freed = stock.free_lock(&value, Some(until)).await;
        match work {
            Ok(Some(outcome)) => {
                // A lock that cannot be freed ends by itself: no reason to take the ticket back.
                return match freed {
                    Err(trouble) if !trouble.is_transient() => Err(trouble),
                    _ => Ok(Purchase { outcome, waited }),
                };
            }
            Ok(None) => {}
            Err(trouble) => patience.rest(trouble).await?,
        }
    }
    if customer.is_unclear() {
        let text = "the outcome of a sale is not known".to_owned();
        return Err(Trouble::Unreachable(text));
    }
    Ok(Purchase {
        outcome: Outcome::GaveUp,
        waited: asked.elapsed(),
    })
}

/// Takes the lock and tells until when it can be relied on; `None` if it was never free in time.
async fn lock<S: Stock>(stock: &S, value: &str, limit: Instant) -> Result<Option<Instant>, Trouble> {
    while Instant::now() < limit {
        let sent = Instant::now();
        // An answer that came after a long outage is of no use any more.
        let until = sent + LIFE - MARGIN;
        if stock.take_lock(value, LIFE).await? && Instant::now() < until {
            return Ok(Some(until));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// `None` if the sale was not recorded and has to be tried again.
async fn under_lock<S: Stock>(stock: &S, customer: &mut Customer, until: Instant) -> Result<Option<Outcome>, Trouble> {
    let Some(sight) = stock.look(customer.name(), 0, Some(until)).await? else {
        return Ok(None);
    };
    if customer.recognises(sight) {
        return Ok(Some(Outcome::Sold));
    }
    if sight.left == 0 {
        return Ok(Some(Outcome::SoldOut));
    }
    think().await;
    let recorded = stock.record(&customer.take_one(sight, 0), Some(until)).await?;
    customer.told(recorded);
    Ok(recorded.then_some(Outcome::Sold))
}
