//! How long a buyer puts up with a server that does not answer.

use super::trouble::Trouble;
use std::time::{Duration, Instant};

/// A server may be away this long: time to restart with its data.
const LIMIT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Counts from the first trouble on.
#[derive(Debug)]
pub(super) struct Patience {
    ends: Option<Instant>,
    never_after: Option<Instant>,
    pause: Duration,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self {
            ends: None,
            never_after: None,
            pause: FIRST_PAUSE,
        }
    }

    /// As [`new`](Self::new), but no longer than until this moment.
    pub(super) fn until(moment: Option<Instant>) -> Self {
        Self {
            never_after: moment,
            ..Self::new()
        }
    }

    /// Pauses before the same step is tried again.
    ///
    /// # Errors
    ///
    /// The trouble itself, if trying again is of no use or patience is at its end.
    pub(super) async fn rest(&mut self, trouble: Trouble) -> Result<(), Trouble> {
        if !trouble.is_transient() {
            return Err(trouble);
        }
        let now = Instant::now();
        let ends = *self.ends.get_or_insert(now + LIMIT);
        let ends = self.never_after.map_or(ends, |moment| moment.min(ends));
        // Half of each pause is chance, so that buyers do not come back in step.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        if now + pause >= ends {
            return Err(trouble);
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> Trouble {
        Trouble::Unreachable("gone fishing".to_owned())
    }

    #[tokio::test]
    async fn only_what_may_pass_is_waited_for_and_never_beyond_the_end() {
        assert_eq!(Patience::new().rest(Trouble::Gone).await, Err(Trouble::Gone));
        let end = Instant::now() + Duration::from_millis(40);
        let mut patience = Patience::until(Some(end));
        let mut rests = 0;
        while patience.rest(unreachable()).await.is_ok() {
            rests += 1;
            assert!(rests < 100, "patience never ends");
        }
        assert!(rests >= 1);
    }
}
