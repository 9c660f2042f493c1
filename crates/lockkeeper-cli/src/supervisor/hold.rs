//! What the supervisor asks of a hold.

use super::moment::Moment;
use std::time::Duration;

/// How a hold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Held. Both moments rise with each renewal.
    Held {
        /// The deadline: not to be believed from here on, so the command gets TERM.
        stop_at: Moment,
        /// The command must be gone by then, since the key may expire on the server: it gets KILL.
        kill_at: Moment,
    },
    /// Lost: TERM at once, KILL at the moment given.
    Lost {
        /// As above; in the past if the lock may have another holder already.
        kill_at: Moment,
    },
}

/// The hold under which a command runs.
///
/// Asked at the start, after each [`Waker::wake`](super::Waker::wake), before a stopped command goes on, and from time
/// to time, so that renewals need no notice of their own. A loss wants a wake.
pub trait Hold {
    /// How it stands now. Must not block, and must judge by the clock, since everything else stood still while the
    /// program was stopped.
    fn standing(&self) -> Standing;
}

const SHORTEST_LOOK: Duration = Duration::from_millis(20);

/// When to ask again, to see renewals well before the deadline last heard of.
pub(super) fn next_look(now: Moment, stop_at: Moment) -> Moment {
    let half = now.until(stop_at) / 2;
    if half < SHORTEST_LOOK { stop_at } else { now.after(half) }
}
