//! Nothing keeps the others out: what everybody writes first and regrets later.

use crate::demo::customer::{Customer, Purchase, think};
use crate::demo::stock::Stock;
use crate::demo::tally::Outcome;
use crate::demo::trouble::Trouble;
use std::time::Instant;

/// Read, decrement, write back.
pub(in crate::demo) async fn buy<S: Stock>(stock: &S, customer: &mut Customer) -> Result<Purchase, Trouble> {
    let asked = Instant::now();
    let sight = stock.look(customer.name(), 0, None).await?;
    let waited = asked.elapsed();
    let left = sight.map_or(0, |sight| sight.left);
    let outcome = if left == 0 {
        Outcome::SoldOut
    } else {
        think().await;
        stock.overwrite(left - 1).await?;
        Outcome::Sold
    };
    Ok(Purchase { outcome, waited })
}
