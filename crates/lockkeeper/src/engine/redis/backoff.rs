use std::time::Duration;

/// Pauses that double up to a cap, each cut short by a random part, so that clients do not come back in step.
#[derive(Debug)]
pub(super) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(shortest: Duration, longest: Duration) -> Self {
        Self {
            shortest,
            longest,
            next: shortest,
        }
    }

    /// For making a connection again.
    pub(super) const fn reconnecting() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// The next pause: between half of the present step and the whole of it.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    pub(super) fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_cap_and_start_again() {
        let mut backoff = Backoff::reconnecting();
        for step in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            let pause = backoff.next();
            let step = Duration::from_millis(step);
            assert!(pause >= step / 2 && pause <= step, "{pause:?} of {step:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(10));
    }
}
