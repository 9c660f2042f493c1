use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::core::Core;
use crate::base::clock::Moment;
use crate::engine::{Busy, Kind};

/// How to wait by asking again and again instead of by signals.
///
/// For deployments without pub/sub, or to match a peer's habits. The first pause is `pause`; each next one is `growth`
/// times as long, up to `longest`; a random part of up to a tenth keeps waiters out of step. With a limit on attempts
/// the call ends with [`Error::AttemptsUsedUp`](crate::Error::AttemptsUsedUp) once that many were made.
///
/// ```
/// use lockkeeper::Polling;
/// use std::time::Duration;
///
/// // Retry 50 times, sleep 40 milliseconds in between.
/// let fixed = Polling::every(Duration::from_millis(40)).attempts(50);
/// // 1 ms, 2 ms, 4 ms ... 128 ms.
/// let growing = Polling::every(Duration::from_millis(1)).growing(2.0, Duration::from_millis(128));
/// # let _ = (fixed, growing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Polling {
    pause: Duration,
    growth: f64,
    longest: Duration,
    attempts: Option<u32>,
}

impl Polling {
    /// Asks every `pause` (at least a millisecond).
    pub const fn every(pause: Duration) -> Self {
        Self {
            pause,
            growth: 1.0,
            longest: pause,
            attempts: None,
        }
    }

    /// Lengthens each pause by `growth` (at least 1) up to `longest`.
    pub const fn growing(mut self, growth: f64, longest: Duration) -> Self {
        self.growth = growth;
        self.longest = longest;
        self
    }

    /// Gives up after so many attempts (at least one is made).
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    pub(crate) fn limit(&self) -> Option<u32> {
        self.attempts.map(|attempts| attempts.max(1))
    }

    /// The pause after so many attempts.
    pub(crate) fn pause_after(&self, attempts: u32) -> Duration {
        let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.longest.max(self.pause).as_secs_f64();
        let seconds = (self.pause.as_secs_f64() * self.growth.max(1.0).powi(exponent)).min(longest);
        jittered(Duration::try_from_secs_f64(seconds).unwrap_or(self.longest)).max(Duration::from_millis(1))
    }
}

/// A pause with a random part of up to a tenth on top, so that waiters do not move in step.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause + pause.mul_f64(fastrand::f64() / 10.0)
}

/// A growing back-off with jitter, for repeats after trouble.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// How long a refused caller sleeps at most before it looks again, if no signal comes. `live` tells whether it can rely on
/// its subscription.
pub(crate) fn recheck_after(core: &Core, kind: Kind, busy: Busy, live: bool) -> Duration {
    let settings = &core.settings;
    let mut cap = if kind.is_silent() {
        settings.recheck_plain
    } else if live {
        settings.recheck
    } else {
        settings.recheck_unheard
    };
    if let Some(again) = busy.look_again {
        cap = cap.min(Duration::from_millis(again));
    }
    let cap = jittered(cap);
    busy.time_left
        .map_or(cap, |left| Duration::from_millis(left.saturating_add(1)).min(cap))
        .max(Duration::from_millis(1))
}

/// The longest sleep without a look at the deadline clock. Timers stand still while the machine sleeps, the clock does
/// not: after a resume the passed deadline is noticed within this time.
pub(crate) const GLANCE: Duration = Duration::from_secs(1);

/// A timer that fires when the deadline clock should have reached `moment`, or after a [`GLANCE`]. It only wakes; whoever
/// is woken looks at the clock, and sleeps on if it was too early. Works on any thread: outside a runtime the keeper's own
/// drives the timer.
pub(crate) fn sleep_until(core: &Core, moment: Moment) -> tokio::time::Sleep {
    let mut span = moment.since(core.clock_now());
    // The embedded engine's clock is the runtime's own: its timers are never behind it.
    if !core.engine.is_immediate() {
        span = span.min(GLANCE);
    }
    // The timer's resolution is a millisecond: waking early would only mean going to sleep again.
    let instant = || {
        Instant::now()
            .checked_add(span)
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(365 * 24 * 60 * 60))
    };
    if Handle::try_current().is_ok() {
        return tokio::time::sleep_until(instant());
    }
    let _context = core.executor.handle().enter();
    tokio::time::sleep_until(instant())
}

/// Ends when the deadline clock has reached `moment`.
pub(crate) async fn until(core: &Core, moment: Moment) {
    while core.clock_now() < moment {
        sleep_until(core, moment).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_cap_and_stay_there() {
        let polling = Polling::every(Duration::from_millis(10)).growing(3.0, Duration::from_millis(100));
        let within = |attempts: u32, base: u64| {
            let pause = polling.pause_after(attempts);
            pause >= Duration::from_millis(base) && pause <= Duration::from_millis(base + base / 10 + 1)
        };
        assert!(within(1, 10) && within(2, 30) && within(3, 90) && within(4, 100) && within(4_000_000_000, 100));
    }

    #[test]
    fn nonsense_is_bounded() {
        let polling = Polling::every(Duration::ZERO)
            .growing(f64::NAN, Duration::ZERO)
            .attempts(0);
        assert_eq!(polling.limit(), Some(1));
        assert_eq!(polling.pause_after(7), Duration::from_millis(1));
    }
}
