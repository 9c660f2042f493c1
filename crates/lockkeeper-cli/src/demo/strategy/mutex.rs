//! Lockkeeper's mutex, as it comes. The stock checks its token, which holds even if a holder is paused past its lease.

use crate::demo::customer::{Customer, LONGEST_WAIT, Purchase, think};
use crate::demo::patience::Patience;
use crate::demo::stock::Stock;
use crate::demo::tally::Outcome;
use crate::demo::trouble::Trouble;
use lockkeeper::Mutex;
use std::time::Instant;

/// Turns of one purchase that all ended before the work was done: each time the hold was lost.
const TURNS: u32 = 100;

/// Lock, read, think, write, unlock.
pub(in crate::demo) async fn buy<S: Stock>(
    stock: &S,
    mutex: &Mutex,
    customer: &mut Customer,
) -> Result<Purchase, Trouble> {
    let asked = Instant::now();
    let mut patience = Patience::new();
    let mut turns = 0;
    while turns < TURNS {
        // Dropping the waiting call leaves the line.
        let left = LONGEST_WAIT.saturating_sub(asked.elapsed());
        let guard = match tokio::time::timeout(left, mutex.lock()).await {
            Ok(Ok(guard)) => guard,
            Ok(Err(error)) => {
                patience.rest(error.into()).await?;
                continue;
            }
            Err(_) => break,
        };
        turns += 1;
        let waited = asked.elapsed();
        let work = with_token(stock, customer, guard.token().get()).await;
        // Whether the lock was still ours is the stock's question, and it has answered by the token. A release
        // without an answer goes on in the background.
        let _ = guard.unlock().await;
        if let Some(outcome) = work? {
            return Ok(Purchase { outcome, waited });
        }
    }
    Ok(Purchase {
        outcome: Outcome::GaveUp,
        waited: asked.elapsed(),
    })
}

/// `None` if a later holder was here before: the sale was not recorded then and never will be.
async fn with_token<S: Stock>(stock: &S, customer: &mut Customer, token: u64) -> Result<Option<Outcome>, Trouble> {
    let Some(sight) = stock.look(customer.name(), token, None).await? else {
        return Ok(None);
    };
    if customer.recognises(sight) {
        return Ok(Some(Outcome::Sold));
    }
    if sight.left == 0 {
        return Ok(Some(Outcome::SoldOut));
    }
    think().await;
    let recorded = stock.record(&customer.take_one(sight, token), None).await?;
    customer.told(recorded);
    Ok(recorded.then_some(Outcome::Sold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::stock::EmbeddedStock;

    #[tokio::test]
    async fn a_holder_who_slept_past_the_lease_cannot_write() {
        let stock = EmbeddedStock::new(10);
        let (mut sleeper, mut other) = (Customer::new(0, 0), Customer::new(0, 1));
        let seen = stock.look(sleeper.name(), 5, None).await;
        let seen = seen.expect("no server").expect("the first token");
        let sold = with_token(&stock, &mut other, 6).await.expect("no server");
        assert_eq!(sold, Some(Outcome::Sold));
        let late = stock.record(&sleeper.take_one(seen, 5), None).await;
        assert_eq!(late, Ok(false));
        sleeper.told(false);
        assert_eq!(with_token(&stock, &mut sleeper, 5).await, Ok(None));
        assert_eq!(with_token(&stock, &mut sleeper, 7).await, Ok(Some(Outcome::Sold)));
        assert_eq!(stock.left(), 8);
    }

    #[tokio::test]
    async fn the_next_holders_reading_bars_a_late_write() {
        let stock = EmbeddedStock::new(10);
        let (mut slow, next) = (Customer::new(0, 0), Customer::new(0, 1));
        let seen = stock.look(slow.name(), 5, None).await;
        let seen = seen.expect("no server").expect("the first token");
        let _ = stock.look(next.name(), 6, None).await;
        assert_eq!(stock.record(&slow.take_one(seen, 5), None).await, Ok(false));
    }

    #[tokio::test]
    async fn a_sale_sent_twice_is_one_sale() {
        let stock = EmbeddedStock::new(10);
        let mut customer = Customer::new(0, 0);
        let seen = stock.look(customer.name(), 5, None).await;
        let sale = customer.take_one(seen.expect("no server").expect("the first"), 5);
        assert_eq!(stock.record(&sale, None).await, Ok(true));
        assert_eq!(stock.record(&sale, None).await, Ok(true));
        assert_eq!(stock.left(), 9);
    }
}
