use std::sync::atomic::{AtomicI64, Ordering};

use crate::base::clock::Moment;

/// What the server's clock shows beyond ours, in microseconds; every reply makes it better.
///
/// A reply tells two bounds: the server's time was taken after the request was sent and before the reply came. The
/// estimate is moved only if it lies outside of them, so a slow reply never spoils what a fast one has told.
#[derive(Debug)]
pub(super) struct ServerOffset(AtomicI64);

impl ServerOffset {
    /// The first estimate: half way between sending and receiving.
    pub(super) fn new(server_time: u64, sent: Moment, received: Moment) -> Self {
        let (lowest, highest) = bounds(server_time, sent, received);
        Self(AtomicI64::new(lowest + (highest - lowest) / 2))
    }

    pub(super) fn learn(&self, server_time: u64, sent: Moment, received: Moment) {
        let (lowest, highest) = bounds(server_time, sent, received);
        let present = self.0.load(Ordering::Relaxed);
        if present < lowest || present > highest {
            // Two replies at once may overwrite each other: each is as true as the other.
            self.0.store(present.clamp(lowest, highest), Ordering::Relaxed);
        }
    }

    /// The server's time at a moment, in microseconds since 1970.
    pub(super) fn server_time(&self, at: Moment) -> u64 {
        microseconds(at)
            .saturating_add(self.0.load(Ordering::Relaxed))
            .max(0)
            .cast_unsigned()
    }
}

fn bounds(server_time: u64, sent: Moment, received: Moment) -> (i64, i64) {
    let server_time = i64::try_from(server_time).unwrap_or(i64::MAX);
    // The clock's readings are cut to whole microseconds.
    let lowest = server_time.saturating_sub(microseconds(received).saturating_add(1));
    let highest = server_time.saturating_sub(microseconds(sent));
    (lowest, highest.max(lowest))
}

fn microseconds(at: Moment) -> i64 {
    i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Moment {
        Moment::from_nanos(microseconds * 1000)
    }

    #[test]
    fn a_slow_reply_does_not_spoil_what_a_fast_one_told() {
        let offset = ServerOffset::new(1_000_050, at(0), at(100));
        let guess = offset.server_time(at(100));
        assert!((1_000_099..=1_000_100).contains(&guess), "{guess}");
        // Stuck for two seconds on its way there: the middle would be a second off.
        offset.learn(3_000_000, at(200), at(2_000_200));
        assert_eq!(offset.server_time(at(100)), guess);
    }

    #[test]
    fn a_clock_that_stepped_is_followed() {
        let offset = ServerOffset::new(1_000_050, at(0), at(100));
        offset.learn(500, at(200), at(300));
        let guess = offset.server_time(at(300));
        assert!((499..=601).contains(&guess), "{guess}");
        offset.learn(9_000_000, at(400), at(500));
        let guess = offset.server_time(at(500));
        assert!((8_999_999..=9_000_101).contains(&guess), "{guess}");
    }
}
