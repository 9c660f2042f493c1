use std::time::Duration;

use crate::error::LeaseError;

/// The shortest lease accepted, before the rule on drift and margin is applied.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest lease accepted: beyond it a forgotten lock is an incident, not a lock.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a hold lives on the server unless it is renewed.
///
/// A *renewed* lease is lengthened in the background, every third of it, for as long as the guard lives: it is short, so
/// that a crash frees the lock soon, and yet the work may take as long as it needs. A *fixed* lease is never renewed: the
/// work must be done within it.
///
/// ```
/// use lockkeeper::Lease;
/// use std::time::Duration;
///
/// assert_eq!(Lease::default(), Lease::renewed(Duration::from_secs(30)));
/// let job = Lease::fixed(Duration::from_secs(10));
/// assert_eq!(job.duration(), Duration::from_secs(10));
/// ```
///
/// A lease must be between 10 milliseconds and 24 hours and longer than twice the time that is kept back from it (drift
/// and margin); anything else is a [`LeaseError`] before a single byte is sent. Fractions of a millisecond count as a
/// whole one on the server and as nothing on the holder's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    duration: Duration,
    renewed: bool,
}

impl Lease {
    /// A lease that ends after `duration`, whatever happens.
    #[must_use]
    pub const fn fixed(duration: Duration) -> Self {
        Self {
            duration,
            renewed: false,
        }
    }

    /// A lease of `duration` that is renewed every third of it while the guard lives.
    #[must_use]
    pub const fn renewed(duration: Duration) -> Self {
        Self {
            duration,
            renewed: true,
        }
    }

    /// Its length.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// Whether the background renewal lengthens it.
    #[must_use]
    pub const fn is_renewed(self) -> bool {
        self.renewed
    }

    /// Checks the lease and works out the times that follow from it.
    pub(crate) fn terms(self, margin: Option<Duration>) -> Result<Terms, LeaseError> {
        if self.duration < SHORTEST {
            return Err(LeaseError::TooShort {
                lease: self.duration,
                shortest: SHORTEST,
            });
        }
        if self.duration > LONGEST {
            return Err(LeaseError::TooLong {
                lease: self.duration,
                longest: LONGEST,
            });
        }
        let kept_back = drift(self.duration).saturating_add(margin.unwrap_or_else(|| default_margin(self.duration)));
        if self.duration <= kept_back.saturating_mul(2) {
            return Err(LeaseError::ConsumedByMargin {
                lease: self.duration,
                kept_back,
            });
        }
        Ok(Terms {
            lease: self,
            milliseconds: whole_milliseconds(self.duration),
            margin,
            kept_back,
        })
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::renewed(Duration::from_secs(30))
    }
}

/// A checked lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Lease,
    /// What the server is told: rounded up.
    pub(crate) milliseconds: u64,
    /// The margin that was set, if one was.
    pub(crate) margin: Option<Duration>,
    /// Drift and margin: what the holder must not use.
    pub(crate) kept_back: Duration,
}

impl Terms {
    /// How long after the request was sent the hold may be believed.
    pub(crate) fn trusted(&self) -> Duration {
        self.lease.duration.saturating_sub(self.kept_back)
    }

    /// The time kept back at the end of the lease so that work which is being stopped can end.
    pub(crate) fn effective_margin(&self) -> Duration {
        self.kept_back.saturating_sub(drift(self.lease.duration))
    }

    /// The time between two renewals.
    pub(crate) fn renewal_period(&self) -> Duration {
        self.lease.duration / 3
    }
}

/// Clocks of two machines may run apart by a hundredth; 2 ms cover the server's rounding.
fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

/// A tenth of the lease, at least 20 ms, at most a second.
fn default_margin(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

pub(crate) fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_are_refused_with_their_reason() {
        let refused = |duration| Lease::fixed(duration).terms(None).unwrap_err();
        assert!(matches!(refused(Duration::ZERO), LeaseError::TooShort { .. }));
        assert!(matches!(
            refused(Duration::from_micros(400)),
            LeaseError::TooShort { .. }
        ));
        assert!(matches!(
            refused(Duration::from_millis(20)),
            LeaseError::ConsumedByMargin { .. }
        ));
        assert!(matches!(refused(Duration::MAX), LeaseError::TooLong { .. }));
        assert!(matches!(
            Lease::fixed(Duration::from_secs(1)).terms(Some(Duration::MAX)),
            Err(LeaseError::ConsumedByMargin { .. })
        ));
    }

    #[test]
    fn the_default_keeps_back_a_second_and_the_drift() {
        let terms = Lease::default().terms(None).unwrap();
        assert_eq!(terms.kept_back, Duration::from_millis(1302));
        assert_eq!(terms.milliseconds, 30_000);
        assert_eq!(terms.renewal_period(), Duration::from_secs(10));
    }

    proptest! {
        #[test]
        fn the_server_is_told_at_least_the_lease_and_the_holder_less(nanos in 0_u64..100_000_000_000_000) {
            let lease = Lease::renewed(Duration::from_nanos(nanos));
            if let Ok(terms) = lease.terms(None) {
                prop_assert!(Duration::from_millis(terms.milliseconds) >= lease.duration());
                prop_assert!(terms.milliseconds >= 1);
                prop_assert!(terms.trusted() * 2 > lease.duration());
                prop_assert!(terms.trusted() < lease.duration());
            }
        }
    }
}
