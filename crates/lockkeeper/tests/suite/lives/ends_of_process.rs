//! The end of the holder's process, in every way it can come; and a fork.

use std::time::{Duration, Instant};

use lockkeeper::{Layout, Lease, Unlocked};

use super::in_both_layouts;
use super::stage::{Stage, ms, soon};
use super::worker::Worker;

in_both_layouts!(
    an_exit_with_a_guard_costs_the_lease,
    an_exit_after_letting_go_costs_nothing,
    killed_holders_cost_at_most_a_lease,
    a_forked_child_holds_nothing,
);

const LEASE: Duration = ms(800);

async fn locked(worker: &mut Worker, name: &str, lease: Duration) {
    worker.ask(&format!("lock {name} {}", lease.as_millis())).await;
}

/// The next holder comes when the dead one's lease is over.
async fn next_within_the_lease(stage: &Stage, name: &str, how: &str) {
    let mutex = stage.mutex(&stage.keeper().await, name);
    let started = Instant::now();
    let next = soon(how, mutex.lock()).await.unwrap();
    let waited = started.elapsed();
    assert!(waited < LEASE + Duration::from_secs(1), "{how}: {waited:?}");
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}

async fn an_exit_with_a_guard_costs_the_lease(layout: Layout) {
    let stage = Stage::new(layout);
    // A guard in a variable, and one in a static: neither is ever dropped.
    for keep in [false, true] {
        let mut worker = Worker::start(&stage.server.url(), layout);
        locked(&mut worker, "exit", LEASE).await;
        if keep {
            worker.ask("keep").await;
        }
        worker.send("exit");
        let status = worker.0.wait(Duration::from_secs(10)).await.unwrap();
        assert!(status.success(), "{status}");
        assert!(stage.exists("exit").await, "nobody could free it");
        next_within_the_lease(&stage, "exit", "the lock of an exited process").await;
    }
}

async fn an_exit_after_letting_go_costs_nothing(layout: Layout) {
    let stage = Stage::new(layout);
    let mutex = stage.mutex(&stage.keeper().await, "flushed");
    // Closed in good order, or flushed as the last handle goes. The lease is much longer than the test.
    for orders in [&["close", "exit"][..], &["leave"]] {
        for _ in 0..3 {
            let mut worker = Worker::start(&stage.server.url(), layout);
            locked(&mut worker, "flushed", Duration::from_secs(600)).await;
            for order in orders {
                worker.send(order);
            }
            let status = worker.0.wait(Duration::from_secs(10)).await.unwrap();
            assert!(status.success(), "{status}");
            let next = mutex.try_lock().await;
            let next = next.unwrap_or_else(|error| panic!("freed before the end by {orders:?}: {error}"));
            assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
        }
    }
}

async fn killed_holders_cost_at_most_a_lease(layout: Layout) {
    let stage = Stage::new(layout);
    let mutex = stage
        .mutex(&stage.keeper().await, "killed")
        .lease(Lease::renewed(Duration::from_secs(20)));
    let mut last = None;
    for _ in 0..3 {
        let mut worker = Worker::start(&stage.server.url(), layout);
        locked(&mut worker, "killed", LEASE).await;
        let waiter = mutex.clone();
        let waiting = tokio::spawn(async move { waiter.lock().await });
        worker.0.kill().unwrap();
        let killed = Instant::now();
        let next = soon("the lock of a killed process", waiting).await.unwrap().unwrap();
        assert!(
            killed.elapsed() < LEASE + Duration::from_secs(1),
            "{:?}",
            killed.elapsed()
        );
        assert!(last < Some(next.token()));
        last = Some(next.token());
        assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
    }
    stage.nothing_left().await;
}

async fn a_forked_child_holds_nothing(layout: Layout) {
    let stage = Stage::new(layout);
    let mut worker = Worker::start(&stage.server.url(), layout);
    let held = worker.ask("lock forked 60000").await;
    let owner = held.split(' ').nth(1).unwrap().to_owned();
    // State of the guard, re-entry, unlock; and whether a lock of its own has another owner.
    let seen = worker.ask("fork other").await;
    assert_eq!(seen, "Lost(Forked) false Err(Lost(Forked)) Ok(true)");
    assert_eq!(
        stage.holder("forked").await.as_deref(),
        Some(owner.as_str()),
        "the child frees nothing of its parent's"
    );
    worker.send("exit");
}
