//! A grant that comes when its lease is over is given to nobody.

use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Layout, Lease};
use lockkeeper_testkit::{Matcher, wait_until};

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms, owners_and_numbers, soon};
use crate::scripts::is_acquire;

in_both_layouts!(
    a_grant_after_its_own_lease_is_not_given_out,
    a_late_grant_to_a_waiter_is_not_given_out,
    a_try_never_gets_a_late_grant,
    a_wait_that_ends_meanwhile_ends_typed,
);

const LEASE: Duration = ms(400);

fn owners_asking(stage: &Stage) -> usize {
    let mut owners: Vec<String> = stage
        .proxy
        .log()
        .iter()
        .filter(|request| is_acquire(request))
        .flat_map(|request| owners_and_numbers(request).0)
        .collect();
    owners.sort();
    owners.dedup();
    owners.len()
}

/// Freezes the server from the moment at which an acquire is on its way until its lease is over.
async fn freeze_over_an_acquire(stage: &Stage) {
    stage.proxy.clear_log();
    stage.server.freeze();
    wait_until("an acquire on its way", SOON, async || owners_asking(stage) > 0).await;
    tokio::time::sleep(LEASE + ms(100)).await;
    stage.server.thaw();
}

/// Scripts are loaded, so that one attempt is one request.
async fn warmed_up(stage: &Stage, keeper: &lockkeeper::Keeper) {
    let guard = stage.mutex(keeper, "warm").lock().await.unwrap();
    guard.unlock().await.unwrap();
}

async fn a_grant_after_its_own_lease_is_not_given_out(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    warmed_up(&stage, &keeper).await;
    let mutex = stage.mutex(&keeper, "late").lease(Lease::fixed(LEASE));
    let freezing = freeze_over_an_acquire(&stage);
    let acquiring = async {
        let guard = mutex.lock().await.unwrap();
        (guard.state(), guard.remaining(), guard)
    };
    let (_, (state, remaining, guard)) = soon("the lock", async { tokio::join!(freezing, acquiring) }).await;
    assert_eq!(state, HoldState::Held);
    assert!(remaining > LEASE / 4, "a lease of its own: {remaining:?}");
    assert_eq!(owners_asking(&stage), 2, "under a new owner text");
    drop(guard);
    stage.nothing_left().await;
}

async fn a_late_grant_to_a_waiter_is_not_given_out(layout: Layout) {
    let stage = Stage::new(layout);
    let holder = stage.mutex(&stage.keeper().await, "late");
    let keeper = stage.far_keeper(ms(2000)).await;
    let guard = holder.lock().await.unwrap();
    let waiter = stage.mutex(&keeper, "late").lease(Lease::fixed(LEASE));
    let waiting = tokio::spawn(async move {
        let guard = waiter.lock().await.unwrap();
        (guard.state(), guard.remaining(), guard)
    });
    wait_until("a subscriber", SOON, async || {
        !stage.server.pubsub_channels().await.is_empty()
    })
    .await;
    // The reply that grants is kept back; in the plain layout other looks may come before.
    let held = stage.proxy.on(Matcher::command("EVALSHA").when(is_acquire)).hold();
    guard.unlock().await.unwrap();
    held.fired().await;
    tokio::time::sleep(LEASE + ms(100)).await;
    held.release();
    let (state, remaining, next) = soon("the waiter", waiting).await.unwrap();
    assert_eq!(state, HoldState::Held);
    assert!(remaining > LEASE / 4, "{remaining:?}");
    assert_eq!(stage.holder("late").await.as_deref(), Some(next.owner()));
    drop(next);
    stage.nothing_left().await;
}

async fn a_try_never_gets_a_late_grant(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    warmed_up(&stage, &keeper).await;
    let mutex = stage.mutex(&keeper, "late").lease(Lease::fixed(LEASE));
    let freezing = freeze_over_an_acquire(&stage);
    let trying = async {
        let outcome = mutex.try_lock().await;
        outcome.map(|guard| (guard.state(), guard))
    };
    let (_, outcome) = soon("the try", async { tokio::join!(freezing, trying) }).await;
    match outcome {
        Ok((state, _guard)) => assert_eq!(state, HoldState::Held),
        Err(error) => assert!(error.is_retryable(), "{error:?}"),
    }
    stage.nothing_left().await;
}

async fn a_wait_that_ends_meanwhile_ends_typed(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    warmed_up(&stage, &keeper).await;
    let mutex = stage.mutex(&keeper, "late").lease(Lease::fixed(LEASE)).wait(ms(300));
    let started = Instant::now();
    let freezing = freeze_over_an_acquire(&stage);
    let waiting = async { (mutex.lock().await, started.elapsed()) };
    let (_, (outcome, took)) = soon("the wait", async { tokio::join!(freezing, waiting) }).await;
    assert!(matches!(outcome, Err(Error::Unreachable { .. })), "{outcome:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    stage.nothing_left().await;
    drop(soon("the lock afterwards", mutex.try_lock()).await.unwrap());
}
