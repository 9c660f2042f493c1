use std::fmt;
use std::time::Duration;

/// A clock for deadlines: it never steps back, and it keeps counting while the machine sleeps.
///
/// Lockkeeper decides by this clock alone whether a hold may still be believed; timers only wake it up to look. Give a
/// keeper one of your own (see [`KeeperBuilder::clock`](crate::KeeperBuilder::clock)) to test how your code meets a
/// pause:
///
/// ```
/// use std::time::Duration;
///
/// /// A clock on which the machine slept for an hour right after start.
/// #[derive(Debug)]
/// struct AfterSleep(std::time::Instant);
///
/// impl lockkeeper::Clock for AfterSleep {
///     fn now(&self) -> Duration {
///         self.0.elapsed() + Duration::from_secs(3600)
///     }
/// }
/// # lockkeeper::Clock::now(&AfterSleep(std::time::Instant::now()));
/// ```
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Time passed since an origin of the clock's choice.
    fn now(&self) -> Duration;
}

/// A moment on the deadline clock, in nanoseconds since its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) const FAR: Self = Self(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self(nanos(clock.now()))
    }

    pub(crate) fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// How long after `earlier` this moment is; zero if it is not.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The system's clock that includes suspend (`CLOCK_BOOTTIME` on Linux; elsewhere the monotonic clock).
#[derive(Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let id = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let id = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(id);
        // Neither part is ever negative on these clocks.
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_rises() {
        let first = Moment::of(&SystemClock);
        let second = Moment::of(&SystemClock);
        assert!(second >= first && first.as_nanos() > 0);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Moment::FAR.plus(Duration::MAX), Moment::FAR);
        assert_eq!(Moment::from_nanos(1).since(Moment::FAR), Duration::ZERO);
    }
}
