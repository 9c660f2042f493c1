//! The deadline clock.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// A moment on the clock that also counts while the machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanoseconds))
    }

    /// The moment this long after the machine was started.
    #[must_use]
    pub fn since_boot(time: Duration) -> Self {
        Self(time)
    }

    /// How long after the machine was started.
    #[must_use]
    pub fn time_since_boot(self) -> Duration {
        self.0
    }

    /// This much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// From here to a later moment; zero if that has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }

    /// As the kernel's timers take it. Never zero, which would switch a timer off.
    pub(super) fn timespec(self) -> Timespec {
        let time = self.0.max(Duration::from_nanos(1));
        Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        }
    }
}
