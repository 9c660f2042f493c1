//! Tasks that lock and unlock for a while, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::{JoinSet, yield_now};

use crate::client::Lock;
use crate::processor::processor_time;

/// No task ever does more sections than this, whatever becomes of the clock.
const MOST_SECTIONS: u64 = 200_000_000;

/// How long the last sections may take to end once time is up.
const WIND_DOWN: Duration = Duration::from_secs(60);

/// What a load is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) time: Duration,
    /// Whether each section gives way once while it holds the lock.
    pub(crate) gives_way: bool,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Sections that ended in time.
    pub(crate) sections: u64,
    pub(crate) elapsed: Duration,
    /// Seconds of processor time of this process meanwhile.
    pub(crate) processor: f64,
    /// How long each caller waited, in nanoseconds; empty unless asked for.
    pub(crate) waits: Histogram<u64>,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        count(self.sections) / self.elapsed.as_secs_f64()
    }

    /// Microseconds of processor time for each section.
    pub(crate) fn processor_each(&self) -> f64 {
        self.processor * 1e6 / count(self.sections.max(1))
    }
}

/// A count as a number to reckon with; counts here are far below the 2^53 from which that is inexact.
#[expect(clippy::cast_precision_loss)]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

impl Load {
    /// One task for each lock. Nothing but locking is done, so that the figure is that of the lock.
    pub(crate) async fn rate<L: Lock>(self, locks: Vec<L>) -> Outcome {
        self.run::<L, false>(locks).await
    }

    /// As [`rate`](Self::rate), with two looks at the clock in each section.
    pub(crate) async fn waits<L: Lock>(self, locks: Vec<L>) -> Outcome {
        self.run::<L, true>(locks).await
    }

    async fn run<L: Lock, const TIMED: bool>(self, locks: Vec<L>) -> Outcome {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let (start, processor) = (Instant::now(), processor_time());
        for lock in locks {
            tasks.spawn(sections::<L, TIMED>(lock, self.gives_way, Arc::clone(&stop)));
        }
        tokio::time::sleep(self.time).await;
        stop.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        let processor = processor_time() - processor;

        let mut outcome = Outcome {
            sections: 0,
            elapsed,
            processor,
            waits: waits(),
        };
        let wind_down = async {
            while let Some(ended) = tasks.join_next().await {
                let (sections, waits) = ended.expect("no task fails");
                outcome.sections += sections;
                outcome.waits.add(&waits).expect("the histograms are alike");
            }
        };
        tokio::time::timeout(WIND_DOWN, wind_down)
            .await
            .expect("every caller gets its turn in the end");
        outcome
    }
}

fn waits() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000_000, 3).expect("the bounds are valid")
}

async fn sections<L: Lock, const TIMED: bool>(
    lock: L,
    gives_way: bool,
    stop: Arc<AtomicBool>,
) -> (u64, Histogram<u64>) {
    let mut waits = waits();
    let mut sections = 0;
    while sections < MOST_SECTIONS && !stop.load(Ordering::Relaxed) {
        let asked = TIMED.then(Instant::now);
        let held = lock.take().await;
        if let Some(asked) = asked {
            let waited = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            waits.saturating_record(waited.max(1));
        }
        if gives_way {
            yield_now().await;
        }
        lock.give_back(held).await;
        if !stop.load(Ordering::Relaxed) {
            sections += 1;
        }
    }
    (sections, waits)
}
