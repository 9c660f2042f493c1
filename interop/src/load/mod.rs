//! Random work on a few names, by processes of both kinds at once: how a Rust process takes part, and what it was asked.
//!
//! Work under a lock is done in plain keys beside it, `inside:NAME` and `counter:NAME`, and what each process believed to hold is
//! recorded. The Java driver does the very same.

mod contended;
mod section;

use std::path::Path;
use std::time::{Duration, Instant};

use lockkeeper::{Error, Keeper, Lease};
use lockkeeper_testkit::boot_time_ns;
use lockkeeper_testkit::history::{Recorder, Sharing};

pub use contended::{Contended, Limit};
use section::Section;

use crate::holding::Hold;

/// Never runs out during the load: it is renewed.
const LEASE: Lease = Lease::renewed(Duration::from_secs(30));

/// A wait that has to end in a grant: nothing is held for longer than a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one process is to do.
#[derive(Debug, Clone)]
pub struct Order {
    /// The server.
    pub url: String,
    /// The process's name in the history.
    pub process: String,
    /// Where it records what it believes.
    pub file: String,
    /// For how long.
    pub time: Duration,
    /// What it draws its choices from.
    pub seed: u64,
    /// How many tasks work at once.
    pub tasks: u64,
    /// What is fought for, as [`Contended::read`] understands it.
    pub objects: Vec<String>,
}

/// Does it, and returns the number of grants.
///
/// # Panics
///
/// If somebody else was inside, anything changed under a reader, or a call ended in an error that is no refusal.
pub async fn run(order: Order) -> u64 {
    let keeper = Keeper::connect(&order.url).await.expect("a server");
    let recorder = Recorder::open(Path::new(&order.file), &order.process).expect("a file for the history");
    let client = redis::Client::open(order.url.as_str()).expect("a server's address");
    let end = Instant::now() + order.time;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..order.tasks {
        let seed = order.seed.wrapping_mul(31).wrapping_add(task);
        let worker = Worker {
            keeper: keeper.clone(),
            recorder: recorder.clone(),
            section: Section::new(
                client.get_multiplexed_async_connection().await.expect("a connection"),
                fastrand::Rng::with_seed(!seed),
            ),
            random: fastrand::Rng::with_seed(seed),
            all: order.objects.iter().flat_map(|text| Contended::read(text)).collect(),
        };
        tasks.spawn(worker.work(end));
    }
    let mut grants = 0;
    while let Some(done) = tasks.join_next().await {
        grants += done.expect("a worker without a fault");
    }
    let report = keeper.close().await;
    assert!(report.unconfirmed.is_empty(), "{report:?}");
    grants
}

struct Worker {
    keeper: Keeper,
    recorder: Recorder,
    section: Section,
    random: fastrand::Rng,
    all: Vec<Contended>,
}

impl Worker {
    async fn work(mut self, end: Instant) -> u64 {
        let mut grants = 0;
        while Instant::now() < end {
            let contended = self.all[self.random.usize(0..self.all.len())].clone();
            grants += u64::from(self.round(&contended).await);
        }
        grants
    }

    async fn round(&mut self, contended: &Contended) -> bool {
        let patient = self.random.u8(0..4) > 0;
        let wait = if patient {
            PATIENCE
        } else {
            Duration::from_millis(self.random.u64(0..20))
        };
        let sharing = match contended.limit {
            Limit::One => Sharing::Exclusive,
            _ => Sharing::Shared,
        };
        let attempts: Vec<_> = contended
            .names()
            .into_iter()
            .map(|name| self.recorder.call(name, sharing))
            .collect();
        let hold = match contended
            .kind
            .acquire(&self.keeper, &contended.name, Some(wait), LEASE)
            .await
        {
            Ok(hold) => hold,
            Err(error) if error.is_contention() => {
                for attempt in attempts {
                    attempt.refused(if patient { "stuck" } else { "impatient" });
                }
                return false;
            }
            // No time even for an answer. What came of it is cleaned up in the background.
            Err(Error::Unreachable { .. }) if !patient => {
                for attempt in attempts {
                    attempt.refused("impatient");
                }
                return false;
            }
            Err(error) => panic!("{contended:?}: {error}"),
        };
        let recorded: Vec<_> = attempts
            .into_iter()
            .map(|attempt| attempt.granted(hold.owner(), hold.token(), deadline(&hold)))
            .collect();
        self.section.run(contended).await;
        for hold in &recorded {
            hold.release_called();
        }
        if self.random.bool() {
            drop(hold);
        } else {
            hold.release().await.expect("a hold that was kept");
        }
        true
    }
}

fn deadline(hold: &Hold) -> Option<u64> {
    // Read first, so that the deadline is never told too late.
    let now = boot_time_ns();
    let left = hold.remaining()?;
    Some(now + u64::try_from(left.as_nanos()).expect("a lease fits 64 bits"))
}
