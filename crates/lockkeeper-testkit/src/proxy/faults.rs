//! The faults on offer.

use std::sync::Arc;
use std::time::Duration;

use super::matcher::Matcher;
use super::rule::{Fault, Rule, RuleBook, Turns, Way, Ways};

/// Makes a fault for the traffic that a matcher chooses. Made by [`Proxy::on`](super::Proxy::on).
///
/// Delays, holds, drips and black holes strike at every match unless [`nth`](Self::nth) or
/// [`times`](Self::times) says otherwise; the others strike once, at the first match. Traffic is
/// counted when it is about to be sent on, for delays when it arrives.
#[derive(Debug)]
#[must_use = "nothing happens until a fault is chosen"]
pub struct Faults {
    pub(super) book: Arc<RuleBook>,
    pub(super) matcher: Matcher,
    pub(super) turns: Option<Turns>,
}

#[allow(
    clippy::must_use_candidate,
    reason = "a fault is in force whether its rule is kept or not"
)]
impl Faults {
    /// Strikes once, at the match with this number (from 1, counted from now on).
    ///
    /// # Panics
    ///
    /// If `number` is 0.
    pub fn nth(mut self, number: u64) -> Self {
        assert!(number > 0, "matches are counted from 1");
        self.turns = Some(Turns {
            first: number,
            count: Some(1),
        });
        self
    }

    /// Strikes at the first `count` matches.
    pub fn times(mut self, count: u64) -> Self {
        self.turns = Some(Turns {
            first: 1,
            count: Some(count),
        });
        self
    }

    /// Requests arrive at the server later by `by`. What follows on the same connection keeps its order.
    pub fn delay_requests(self, by: Duration) -> Rule {
        self.delay_requests_with_jitter(by, Duration::ZERO)
    }

    /// As [`delay_requests`](Self::delay_requests), with up to `jitter` more by chance.
    pub fn delay_requests_with_jitter(self, by: Duration, jitter: Duration) -> Rule {
        self.always(Fault::Delay {
            ways: Ways::Only(Way::Requests),
            by,
            jitter,
        })
    }

    /// Replies arrive at the client later by `by`, and with them all that follows on the connection.
    pub fn delay_replies(self, by: Duration) -> Rule {
        self.delay_replies_with_jitter(by, Duration::ZERO)
    }

    /// As [`delay_replies`](Self::delay_replies), with up to `jitter` more by chance.
    pub fn delay_replies_with_jitter(self, by: Duration, jitter: Duration) -> Rule {
        self.always(Fault::Delay {
            ways: Ways::Only(Way::Replies),
            by,
            jitter,
        })
    }

    /// Keeps requests back, and what follows them on the connection, until [`Rule::release`]. They are sent on
    /// then even if the client has left.
    pub fn hold_requests(self) -> Rule {
        self.always(Fault::Hold {
            ways: Ways::Only(Way::Requests),
        })
    }

    /// Keeps replies back, and what follows them on the connection, until [`Rule::release`].
    pub fn hold_replies(self) -> Rule {
        self.always(Fault::Hold {
            ways: Ways::Only(Way::Replies),
        })
    }

    /// Keeps back both requests and replies until [`Rule::release`].
    pub fn hold(self) -> Rule {
        self.always(Fault::Hold { ways: Ways::Both })
    }

    /// Requests trickle to the server, `bytes` at a time with a `pause` after each.
    pub fn drip_requests(self, bytes: usize, pause: Duration) -> Rule {
        self.always(Fault::Drip {
            ways: Ways::Only(Way::Requests),
            bytes: bytes.max(1),
            pause,
        })
    }

    /// Replies trickle to the client, `bytes` at a time with a `pause` after each.
    pub fn drip_replies(self, bytes: usize, pause: Duration) -> Rule {
        self.always(Fault::Drip {
            ways: Ways::Only(Way::Replies),
            bytes: bytes.max(1),
            pause,
        })
    }

    /// From the first match on, the connection swallows everything both ways and is never closed, also after the
    /// rule's end: bytes that got lost cannot come back. New connections are judged anew.
    pub fn black_hole(self) -> Rule {
        self.always(Fault::BlackHole)
    }

    /// The command runs, its reply is lost, and the client's connection is reset.
    pub fn swallow_reply_then_reset(self) -> Rule {
        self.once(Fault::SwallowReplyThenReset)
    }

    /// The request is sent on and the client's connection is reset at once, without waiting for the reply. The
    /// server still gets the whole request and runs it.
    pub fn cut_after_request(self) -> Rule {
        self.once(Fault::CutAfterRequest)
    }

    /// The request is sent to the server twice; the second reply is dropped, so that replies stay in step.
    pub fn repeat_request(self) -> Rule {
        self.once(Fault::RepeatRequest)
    }

    fn always(self, fault: Fault) -> Rule {
        let turns = self.turns.unwrap_or(Turns { first: 1, count: None });
        RuleBook::add(&self.book, self.matcher, fault, turns)
    }

    fn once(self, fault: Fault) -> Rule {
        let turns = self.turns.unwrap_or(Turns {
            first: 1,
            count: Some(1),
        });
        RuleBook::add(&self.book, self.matcher, fault, turns)
    }
}
