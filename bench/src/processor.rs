//! Processor time of this process: what a client costs, however busy the machine is.

use rustix::time::{ClockId, clock_gettime};

use crate::load::count;

/// Seconds of processor time that this process has had so far, all threads together.
pub(crate) fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    count(seconds) + count(nanoseconds) / 1e9
}
