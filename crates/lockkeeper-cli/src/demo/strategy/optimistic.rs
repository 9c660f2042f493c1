//! Nobody is kept out; a write fails if the stock has changed since it was read.

use crate::demo::customer::{Customer, Purchase, think};
use crate::demo::patience::Patience;
use crate::demo::stock::Stock;
use crate::demo::tally::Outcome;
use crate::demo::trouble::Trouble;
use std::time::{Duration, Instant};

const TRIES: u32 = 100;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// WATCH, read, think, MULTI, write, EXEC; if that fails a growing pause and another try, up to a hundred times.
pub(in crate::demo) async fn buy<S: Stock>(stock: &S, customer: &mut Customer) -> Result<Purchase, Trouble> {
    let asked = Instant::now();
    let mut patience = Patience::new();
    let mut pause = FIRST_PAUSE;
    let mut tries = 0;
    loop {
        let (sight, watch) = match stock.watch(customer.name()).await {
            Ok(seen) => seen,
            Err(trouble) => {
                patience.rest(trouble).await?;
                continue;
            }
        };
        let waited = asked.elapsed();
        let done = |outcome| Ok(Purchase { outcome, waited });
        if customer.recognises(sight) {
            return done(Outcome::Sold);
        }
        // A try without an answer saw tickets; the stock has changed since, so a late copy of it fails.
        if sight.left == 0 {
            return done(Outcome::SoldOut);
        }
        if tries >= TRIES && !customer.is_unclear() {
            return done(Outcome::GaveUp);
        }
        think().await;
        match stock.commit(watch, &customer.take_one(sight, 0)).await {
            Ok(written) => {
                customer.told(written);
                if written {
                    return done(Outcome::Sold);
                }
            }
            Err(trouble) => patience.rest(trouble).await?,
        }
        tries += 1;
        // Any part of the pause is as good as another; equal pauses would bring the same buyers together again.
        tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
