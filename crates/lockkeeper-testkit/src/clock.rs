//! The clock that histories are stamped with: one for all processes of the machine, and never set back.

/// Nanoseconds since the machine was started, sleep included (`CLOCK_BOOTTIME`).
///
/// Every process of one machine reads the same clock, so stamps of several workers can be compared. On systems
/// other than Linux the monotonic clock stands in.
///
/// # Panics
///
/// If the machine has been running for more than 584 years.
#[must_use]
pub fn boot_time_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).expect("the boot clock is never negative");
    let nanoseconds = u64::try_from(now.tv_nsec).expect("nanoseconds are never negative");
    seconds
        .checked_mul(1_000_000_000)
        .and_then(|whole| whole.checked_add(nanoseconds))
        .expect("the boot clock fits 64 bits")
}
