//! Elections by processes that are killed and that stand still.

use std::time::{Duration, Instant};

use lockkeeper::{Layout, Lease};

use super::stage::{SOON, Stage, ms, soon};
use super::worker::Worker;

/// A gap of at most the lease and a re-check, whoever dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_its_lease() {
    let stage = Stage::new(Layout::Redisson);
    let lease = ms(1_200);
    let mut workers = Vec::new();
    for number in 0..3 {
        let mut worker = Worker::start(&stage.server.url(), Layout::Redisson);
        worker.send(&format!("campaign jobs node-{number} {}", lease.as_millis()));
        workers.push(Some(worker));
    }
    let observer = stage.keeper().await;
    let mut observation = observer.election("jobs").observe();
    let (mut last, mut killed) = (None, None);
    for _ in 0..3 {
        let leader = soon("a leader", async {
            loop {
                if let Some(leader) = observation.changed().await.unwrap() {
                    break leader;
                }
            }
        })
        .await;
        assert!(Some(leader.term) > last, "{leader:?} after {last:?}");
        if let Some(killed) = killed {
            let gap = Instant::now() - killed;
            assert!(gap < lease + Duration::from_secs(2), "{gap:?}");
        }
        last = Some(leader.term);
        let number: usize = leader.candidate.strip_prefix("node-").unwrap().parse().unwrap();
        let mut worker = workers[number].take().expect("the dead do not lead");
        assert_eq!(worker.answer().await, leader.term.to_string());
        killed = Some(Instant::now());
        worker.0.kill().unwrap();
    }
}

/// A leader that stood still past its lease knows at its first look that it leads no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_finds_itself_deposed() {
    let stage = Stage::new(Layout::Redisson);
    let keeper = stage.keeper().await;
    let mut worker = Worker::start(&stage.server.url(), Layout::Redisson);
    let term: u64 = worker.ask("campaign jobs old 800").await.parse().unwrap();
    worker.0.freeze();
    let election = keeper.election("jobs").candidate("new").wait(SOON);
    let next = election.lease(Lease::renewed(ms(5_000))).campaign().await.unwrap();
    assert!(next.term().get() > term);
    worker.0.thaw();
    let state = worker.ask("led").await;
    assert!(state.starts_with("Lost"), "{state}");
    assert_eq!(worker.ask("resign").await, "not ours");
    let leader = keeper.election("jobs").leader().await.unwrap().unwrap();
    assert_eq!((leader.candidate.as_str(), leader.term), ("new", next.term()));
}
