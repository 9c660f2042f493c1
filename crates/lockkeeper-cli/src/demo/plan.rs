//! Who does what: one plan for each process.

use crate::arguments::Strategy;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What one process has to do. Travels to a child as a line of JSON; the password goes by the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The server's address, without a password; none for the embedded engine.
    pub(super) server: Option<String>,
    /// Begins every key of this sale.
    pub(super) prefix: String,
    strategy: String,
    /// The process's number.
    pub(super) process: u64,
    /// Buyers at the same time.
    pub(super) buyers: u64,
    /// Purchases to try, by all buyers together.
    pub(super) requests: u64,
}

impl Plan {
    /// The whole sale in one process.
    pub(super) fn new(server: Option<String>, prefix: String, strategy: Strategy, buyers: u64, requests: u64) -> Self {
        Self {
            server,
            prefix,
            strategy: strategy.name().to_owned(),
            process: 0,
            buyers,
            requests,
        }
    }

    /// The strategy; `None` if another version of the program made the plan.
    pub(super) fn strategy(&self) -> Option<Strategy> {
        Strategy::from_str(&self.strategy, false).ok()
    }

    /// The sale shared among processes as evenly as it goes; fewer if there is not a buyer and a request for each.
    pub(super) fn share(&self, processes: u64) -> Vec<Self> {
        let processes = processes.min(self.buyers).min(self.requests).max(1);
        let part = |whole: u64, number: u64| whole / processes + u64::from(number < whole % processes);
        (0..processes)
            .map(|process| Self {
                process,
                buyers: part(self.buyers, process),
                requests: part(self.requests, process),
                ..self.clone()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::arguments::Strategy;

    fn plan(buyers: u64, requests: u64) -> Plan {
        Plan::new(None, "p".to_owned(), Strategy::Spin, buyers, requests)
    }

    #[test]
    fn shares_add_up_and_nobody_is_idle() {
        for (buyers, requests, processes, expected) in [(32, 300, 4, 4), (5, 7, 3, 3), (2, 300, 4, 2), (9, 1, 4, 1)] {
            let shares = plan(buyers, requests).share(processes);
            assert_eq!(shares.len(), expected);
            assert_eq!(shares.iter().map(|share| share.buyers).sum::<u64>(), buyers);
            assert_eq!(shares.iter().map(|share| share.requests).sum::<u64>(), requests);
            assert!(shares.iter().all(|share| share.buyers > 0 && share.requests > 0));
        }
    }

    #[test]
    fn a_plan_survives_the_way_to_a_child() {
        let text = serde_json::to_string(&plan(1, 2)).expect("text");
        let back: Plan = serde_json::from_str(&text).expect("a plan");
        assert_eq!((back.strategy(), &back), (Some(Strategy::Spin), &plan(1, 2)));
    }
}
