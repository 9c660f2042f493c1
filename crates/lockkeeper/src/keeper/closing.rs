use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Keeper;
use crate::error::LossReason;
use crate::service::core::Core;
use crate::service::place::Place;
use crate::service::waiting::{sleep_until, until};

/// What closing a keeper could and could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Names of the locks that were freed, or that had been on their way to be.
    pub freed: Vec<String>,
    /// Names of the locks whose release was not confirmed in time; they end with their lease.
    pub unconfirmed: Vec<String>,
}

impl Keeper {
    /// Frees everything that is held, waits until all releases are confirmed, and refuses new calls from then on.
    ///
    /// Callers that wait are told [`Error::Closed`](crate::Error::Closed). Guards that are still alive turn lost with the reason [`LossReason::KeeperClosed`]. Waits at most ten seconds; see
    /// [`close_timeout`](Self::close_timeout) for the blocking form with a limit.
    ///
    /// # Cancelling
    /// The keeper is closed all the same, and releases go on in the background.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let keeper = lockkeeper::Keeper::embedded();
    /// let guard = keeper.mutex("job").lock().await?;
    /// let report = keeper.close().await;
    /// assert_eq!((report.freed.len(), report.unconfirmed.len()), (1, 0));
    /// # drop(guard); Ok::<(), lockkeeper::Error>(()) }).unwrap();
    /// ```
    pub async fn close(&self) -> CloseReport {
        self.close_within(Duration::from_secs(10)).await
    }

    /// As [`close`](Self::close), from a thread that drives no async tasks, within `limit`.
    ///
    /// # Errors
    /// [`Error::BlockingInAsync`](crate::Error::BlockingInAsync) inside async code.
    pub fn close_timeout(&self, limit: Duration) -> Result<CloseReport, crate::Error> {
        crate::blocking::block_on(&self.core, self.close_within(limit))
    }

    async fn close_within(&self, limit: Duration) -> CloseReport {
        let core = &self.core;
        core.mark_closed();
        let mut closing = Vec::new();
        for place in core.all_places() {
            place.dismiss();
            let attempting = place.is_attempting();
            let releasing = Arc::clone(&place).close_holds(LossReason::KeeperClosed) || place.is_releasing();
            if attempting || releasing {
                closing.push(ClosingPlace { place, releasing });
            }
        }
        let over = core.clock_now().plus(limit);
        tokio::select! {
            () = settled(core, &mut closing) => {}
            () = until(core, over) => {}
        }
        let mut report = CloseReport::default();
        for ClosingPlace { place, releasing } in closing {
            let name = place.name().to_string();
            if place.is_attempting() || place.is_releasing() || place.is_unconfirmed() {
                report.unconfirmed.push(name);
            } else if releasing {
                report.freed.push(name);
            }
        }
        report
    }
}

/// A name with something on its way when the keeper closed.
struct ClosingPlace {
    place: Arc<dyn Place>,
    /// Whether there was something to free.
    releasing: bool,
}

/// Ends when nothing is on its way any more: no attempt that may yet be granted, and no release.
async fn settled(core: &Core, closing: &mut [ClosingPlace]) {
    /// Attempts tell nobody of their end, so that they cost nothing; closing looks again.
    const LOOK: Duration = Duration::from_millis(5);
    for ClosingPlace { place, releasing } in closing {
        loop {
            *releasing |= Arc::clone(place).close_holds(LossReason::KeeperClosed) || place.is_releasing();
            if !place.is_attempting() && !place.is_releasing() {
                break;
            }
            sleep_until(core, core.clock_now().plus(LOOK)).await;
        }
    }
    core.pending.settled().await;
}

/// Blocks the thread that drops the last handle until pending releases are sent.
#[derive(Debug)]
pub(super) struct FlushOnDrop {
    core: Weak<Core>,
    limit: Duration,
}

impl FlushOnDrop {
    pub(super) fn new(core: &Arc<Core>, limit: Duration) -> Self {
        Self {
            core: Arc::downgrade(core),
            limit,
        }
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.pending.wait_blocking(self.limit);
        }
    }
}
