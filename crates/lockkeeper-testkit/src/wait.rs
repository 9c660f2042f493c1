//! Wait for an observable state instead of sleeping for luck.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::real_time;

/// How long to rest between two looks.
const REST: Duration = Duration::from_millis(3);

/// What one look at the system told.
///
/// `bool` is the plain form. A `Result` carries more: `Ok` is the awaited state and becomes the result of the wait,
/// `Err` is what was seen instead and is shown if the wait fails.
pub trait Observation: Debug + Sized {
    /// What the awaited state brings.
    type Reached;

    /// The awaited state, or the observation back if this is not it.
    ///
    /// # Errors
    ///
    /// The observation itself, if the state is not reached.
    fn reached(self) -> Result<Self::Reached, Self>;
}

impl Observation for bool {
    type Reached = ();

    fn reached(self) -> Result<(), Self> {
        if self { Ok(()) } else { Err(self) }
    }
}

impl<T: Debug, E: Debug> Observation for Result<T, E> {
    type Reached = T;

    fn reached(self) -> Result<T, Self> {
        self.map_err(Err)
    }
}

/// Looks every few milliseconds until the state is reached, and returns what it brings.
///
/// Uses real time throughout, so it also works while tokio's clock is paused. A look that hangs counts against
/// the same limit. Dropping the future just stops looking.
///
/// ```
/// # use std::time::Duration;
/// # use lockkeeper_testkit::wait_until;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut looks = 0;
/// wait_until("the third look", Duration::from_secs(1), async || {
///     looks += 1;
///     if looks >= 3 { Ok(()) } else { Err(looks) }
/// })
/// .await;
/// # });
/// ```
///
/// # Panics
///
/// With the description and the last observation, if the state is not reached within `limit`.
pub async fn wait_until<O: Observation>(
    description: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> O,
) -> O::Reached {
    let start = Instant::now();
    let mut last: Option<O> = None;
    loop {
        let left = limit.saturating_sub(start.elapsed());
        // The last look always gets a moment of its own, else a short limit might never look.
        let Ok(seen) = real_time::timeout(left.max(REST), look()).await else {
            panic!("waited {limit:?} for {description}: the last look did not end; seen before it: {last:?}");
        };
        let seen = match seen.reached() {
            Ok(reached) => return reached,
            Err(seen) => seen,
        };
        assert!(
            start.elapsed() < limit,
            "waited {limit:?} for {description}: last seen {seen:?}"
        );
        last = Some(seen);
        real_time::sleep(REST).await;
    }
}
