use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

use super::hold::Hold;
use crate::error::LossReason;

/// The metrics of one keeper. Handles are made once, since looking a metric up costs more than a local turn takes.
///
/// The table of names in the guide's chapter on observing is checked against this file by a test.
pub(crate) struct Meters {
    pub(crate) acquired: Counter,
    pub(crate) busy: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) failed: Counter,
    pub(crate) handed_over: Counter,
    pub(crate) clean_ups: Counter,
    pub(crate) wait: Histogram,
    pub(crate) hold: Histogram,
    pub(crate) renewal_slack: Histogram,
    lost: [(LossReason, Counter); 5],
}

impl Meters {
    /// Uses the recorder that is installed now.
    pub(crate) fn new() -> Self {
        let lost = |reason: LossReason| (reason, counter!("lockkeeper_lost_total", "reason" => reason.as_str()));
        Self {
            acquired: counter!("lockkeeper_acquired_total"),
            busy: counter!("lockkeeper_busy_total"),
            timed_out: counter!("lockkeeper_timed_out_total"),
            failed: counter!("lockkeeper_failed_total"),
            handed_over: counter!("lockkeeper_handed_over_total"),
            clean_ups: counter!("lockkeeper_clean_ups_total"),
            wait: histogram!("lockkeeper_wait_seconds"),
            hold: histogram!("lockkeeper_hold_seconds"),
            renewal_slack: histogram!("lockkeeper_renewal_slack_seconds"),
            lost: [
                lost(LossReason::DeadlinePassed),
                lost(LossReason::GoneOnServer),
                lost(LossReason::LongestHoldReached),
                lost(LossReason::Forked),
                lost(LossReason::KeeperClosed),
            ],
        }
    }

    pub(crate) fn lost(&self, hold: &Hold, reason: LossReason) {
        if let Some((_, counter)) = self.lost.iter().find(|(known, _)| *known == reason) {
            counter.increment(1);
        }
        tracing::warn!(name = %hold.target.name, owner = %hold.owner, reason = reason.as_str(), "lock lost");
    }

    pub(crate) fn waited(&self, span: Duration) {
        self.wait.record(span.as_secs_f64());
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}
