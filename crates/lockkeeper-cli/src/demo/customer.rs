//! One buyer, who buys again and again, and how the buyer keeps count.

use super::stock::{Sale, Sight};
use super::tally::Outcome;
use std::time::Duration;

/// What a buyer thinks over between reading the stock and writing it: the same for every strategy. This is where
/// an unguarded sale goes wrong.
pub(super) const THINKING_TIME: Duration = Duration::from_millis(1);
/// How long a buyer stands in line for one ticket before going home.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Thinks it over.
pub(super) async fn think() {
    tokio::time::sleep(THINKING_TIME).await;
}

/// How a purchase ended, and how long the buyer waited for the turn that decided it: from the first wish to the
/// beginning of that reading of the stock after which the outcome was clear.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purchase {
    pub(super) outcome: Outcome,
    pub(super) waited: Duration,
}

/// One buyer.
#[derive(Debug)]
pub(super) struct Customer {
    name: String,
    tries: u64,
    recorded: u64,
    unclear: bool,
}

impl Customer {
    /// A name of its own among all buyers of all processes.
    pub(super) fn new(process: u64, number: u64) -> Self {
        Self {
            name: format!("buyer:{process}:{number}"),
            tries: 0,
            recorded: 0,
            unclear: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A text that no other buyer and no other try has.
    pub(super) fn fresh_value(&mut self) -> String {
        self.tries += 1;
        format!("{}:{}", self.name, self.tries)
    }

    /// The next try to take one ticket of those seen. Its outcome is unclear until the stock tells.
    pub(super) fn take_one(&mut self, sight: Sight, token: u64) -> Sale<'_> {
        self.tries += 1;
        self.unclear = true;
        Sale {
            buyer: &self.name,
            number: self.tries,
            previous: self.recorded,
            left: sight.left.saturating_sub(1),
            token,
        }
    }

    /// The stock told what became of the last try.
    pub(super) fn told(&mut self, recorded: bool) {
        self.unclear = false;
        if recorded {
            self.recorded = self.tries;
        }
    }

    /// Whether the stock shows that an earlier try, whose answer was lost, was recorded after all.
    pub(super) fn recognises(&mut self, sight: Sight) -> bool {
        let after_all = sight.last != self.recorded;
        self.recorded = sight.last;
        if after_all {
            self.unclear = false;
        }
        after_all
    }

    /// Whether a try is still open, so that "I never got one" would be a guess.
    pub(super) fn is_unclear(&self) -> bool {
        self.unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_without_an_answer_is_recognised_once_and_only_if_it_was_recorded() {
        let mut customer = Customer::new(1, 2);
        let start = Sight { left: 9, last: 0 };
        assert!(!customer.recognises(start));
        let sale = customer.take_one(start, 0);
        let (first, left) = (sale.number, sale.left);
        assert_eq!((left, sale.previous), (8, 0));
        assert!(customer.is_unclear());
        assert!(!customer.recognises(start), "it was not recorded");
        assert!(customer.is_unclear(), "a late copy may still come");
        let second = customer.take_one(start, 0).number;
        assert!(second > first);
        let seen = Sight { left: 8, last: second };
        assert!(customer.recognises(seen) && !customer.is_unclear());
        assert!(!customer.recognises(seen), "one ticket, not two");
        assert_eq!(customer.take_one(seen, 0).previous, second);
    }
}
