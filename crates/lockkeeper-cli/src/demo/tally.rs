//! What came of the purchases, and the report made of it.

use crate::arguments::Strategy;
use crate::output::SaleReport;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An hour: longer waits count as this.
const LONGEST_WAIT_US: u64 = 3_600_000_000;

/// Waits in microseconds, to three digits. Travels as pairs of value and count.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
struct Waits(Histogram<u64>);

impl Default for Waits {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts.
        Self(Histogram::new_with_bounds(1, LONGEST_WAIT_US, 3).expect("constant bounds"))
    }
}

impl From<Vec<(u64, u64)>> for Waits {
    fn from(pairs: Vec<(u64, u64)>) -> Self {
        let mut waits = Self::default();
        for (value, count) in pairs {
            waits.0.saturating_record_n(value, count);
        }
        waits
    }
}

impl From<Waits> for Vec<(u64, u64)> {
    fn from(waits: Waits) -> Self {
        let recorded = waits.0.iter_recorded();
        recorded
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }
}

/// How a purchase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The buyer was told "yours".
    Sold,
    /// The buyer was told "sold out".
    SoldOut,
    /// The buyer never got a turn within the bounds of the strategy.
    GaveUp,
}

/// What came of some purchases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Sales that buyers were told of.
    pub(super) sold: u64,
    /// Requests that never got a turn.
    pub(super) gave_up: u64,
    /// Requests to the server, or steps of the embedded engine and its stock.
    pub(super) round_trips: u64,
    waits: Waits,
}

impl Tally {
    /// Counts one purchase, and how long the buyer waited for the turn in which it was decided.
    pub(super) fn count(&mut self, outcome: Outcome, waited: Duration) {
        match outcome {
            Outcome::Sold => self.sold += 1,
            Outcome::GaveUp => self.gave_up += 1,
            Outcome::SoldOut => {}
        }
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waits.0.saturating_record(waited);
    }

    /// Takes another tally in.
    pub(super) fn add(&mut self, other: &Self) {
        self.sold += other.sold;
        self.gave_up += other.gave_up;
        self.round_trips += other.round_trips;
        // Both have the same bounds, the only thing that can be wrong here.
        self.waits.0 += &other.waits.0;
    }

    /// The report, from what buyers were told and what the stock says in the end.
    #[allow(clippy::cast_precision_loss)] // Counts of a demo are far below 2^53.
    pub(super) fn report(
        &self,
        strategy: Strategy,
        stock: u64,
        requests: u64,
        left: u64,
        time: Duration,
    ) -> SaleReport {
        let seconds = time.as_secs_f64();
        SaleReport {
            strategy: strategy.name().to_owned(),
            stock,
            requests,
            sold: self.sold,
            oversold: self.sold.saturating_sub(stock),
            lost_updates: self.sold.saturating_sub(stock.saturating_sub(left)),
            seconds,
            requests_per_second: requests as f64 / seconds.max(1e-9),
            wait_p50_us: self.waits.0.value_at_quantile(0.5),
            wait_p99_us: self.waits.0.value_at_quantile(0.99),
            round_trips_per_sale: self.round_trips as f64 / self.sold.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sold: u64) -> Tally {
        let mut tally = Tally::default();
        for number in 1..=sold {
            tally.count(Outcome::Sold, Duration::from_micros(number * 10));
        }
        tally.count(Outcome::SoldOut, Duration::ZERO);
        tally.round_trips = 2 * sold;
        tally
    }

    #[test]
    fn oversold_is_beyond_the_stock_and_lost_is_what_the_stock_never_felt() {
        let report = |sold, left| {
            let report = tally(sold).report(Strategy::None, 100, 300, left, Duration::from_secs(2));
            (report.sold, report.oversold, report.lost_updates)
        };
        assert_eq!(report(100, 0), (100, 0, 0));
        assert_eq!(report(130, 0), (130, 30, 30));
        assert_eq!(report(130, 90), (130, 30, 120));
        assert_eq!(report(50, 50), (50, 0, 0));
        assert_eq!(report(50, 70), (50, 0, 20));
    }

    #[test]
    fn tallies_merge_after_a_journey_as_if_counted_in_one_place() {
        let travelled: Tally =
            serde_json::from_str(&serde_json::to_string(&tally(40)).expect("text")).expect("a tally");
        let mut whole = tally(60);
        whole.add(&travelled);
        let report = whole.report(Strategy::Mutex, 100, 102, 0, Duration::from_secs(1));
        assert_eq!((report.sold, report.round_trips_per_sale), (100, 2.0));
        assert_eq!(report.wait_p99_us, 590);
        assert!((240..=260).contains(&report.wait_p50_us), "{}", report.wait_p50_us);
    }
}
