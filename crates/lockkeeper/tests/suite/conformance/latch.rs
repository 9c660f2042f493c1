//! The count-down latch.

use std::time::Duration;

use lockkeeper::{CountDownLatch, Error, Keeper, LatchEnd, blocking};
use lockkeeper_testkit::wait_until;
use tokio::task::JoinHandle;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    it_counts_down_to_zero_and_below_nothing,
    the_count_is_set_once_and_a_removed_latch_is_none,
    every_local_waiter_goes_on_with_the_last_count_down,
    as_many_count_downs_as_waiters_open_it_for_all,
    a_timed_wait_ends_with_the_latch_or_on_time,
    a_zero_wait_is_one_look,
    a_removed_latch_ends_waits_with_a_result_of_its_own,
    a_wait_outlives_a_latch_that_is_set_again,
    a_name_of_another_kind_is_refused,
    a_name_that_cannot_be_used_is_told_by_the_first_call,
    closing_ends_waits,
    threads_count_down_and_wait,
    inspection_tells_the_count,
);

fn waiting(latch: &CountDownLatch) -> JoinHandle<Result<LatchEnd, Error>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait().await })
}

/// Sets the count, and looks once, so that every script that a wait needs is loaded.
async fn set(latch: &CountDownLatch, count: u32) {
    assert_eq!(latch.try_set_count(count).await, Ok(true));
    let refused = latch.wait_timeout(Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
}

/// Waits until every wait of this keeper has looked twice: it sleeps then, and only a signal or a re-check wakes it.
async fn all_sleep(keeper: &Keeper, before: u64, waits: u64) {
    wait_until("sleeping waiters", SOON, async || {
        let looks = keeper.round_trips() - before;
        if looks >= 2 * waits { Ok(()) } else { Err(looks) }
    })
    .await;
}

async fn it_counts_down_to_zero_and_below_nothing(stage: Stage) {
    let keeper = stage.keeper().await;
    let latch = keeper.latch("steps");
    // A latch that was never set is open, and counting it down changes nothing.
    assert_eq!(latch.count().await, Ok(0));
    assert_eq!(latch.count_down().await, Ok(0));
    assert_eq!(latch.wait().await, Ok(LatchEnd::Open));
    assert_eq!(latch.try_set_count(2).await, Ok(true));
    assert_eq!((latch.count_down().await, latch.count().await), (Ok(1), Ok(1)));
    assert_eq!((latch.count_down().await, latch.count().await), (Ok(0), Ok(0)));
    assert_eq!(latch.count_down().await, Ok(0));
    for _ in 0..3 {
        assert_eq!(soon("an open latch", latch.wait()).await, Ok(LatchEnd::Open));
    }
}

async fn the_count_is_set_once_and_a_removed_latch_is_none(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let (latch, other) = (first.latch("once"), second.latch("once"));
    assert_eq!(latch.try_set_count(0).await, Ok(false), "zero is open already");
    assert_eq!(latch.remove().await, Ok(false));
    assert_eq!(latch.try_set_count(5).await, Ok(true));
    assert_eq!(other.try_set_count(7).await, Ok(false));
    assert_eq!(other.count().await, Ok(5));
    assert_eq!(other.remove().await, Ok(true));
    assert_eq!(latch.remove().await, Ok(false));
    assert_eq!(latch.count().await, Ok(0));
    assert_eq!(latch.try_set_count(7).await, Ok(true));
}

/// Five in async code and two threads, in one process.
async fn every_local_waiter_goes_on_with_the_last_count_down(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let (latch, other) = (first.latch("all"), second.latch("all"));
    set(&latch, 5).await;
    let before = first.round_trips();
    let waits: Vec<_> = (0..5).map(|_| waiting(&latch)).collect();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let latch = blocking::Keeper::from(first.clone()).latch("all");
            tokio::task::spawn_blocking(move || latch.wait())
        })
        .collect();
    all_sleep(&first, before, 7).await;
    for left in (0..5).rev() {
        assert!(waits.iter().chain(&threads).all(|wait| !wait.is_finished()), "{left}");
        assert_eq!(other.count_down().await, Ok(left));
    }
    for wait in waits.into_iter().chain(threads) {
        assert_eq!(soon("a waiter", wait).await.unwrap(), Ok(LatchEnd::Open));
    }
}

async fn as_many_count_downs_as_waiters_open_it_for_all(stage: Stage) {
    const MANY: u32 = 40;
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let latch = first.latch("many");
    latch.try_set_count(MANY).await.unwrap();
    let waits: Vec<_> = (0..MANY)
        .map(|number| waiting(&if number % 2 == 0 { &first } else { &second }.latch("many")))
        .collect();
    let downs: Vec<_> = (0..MANY)
        .map(|_| {
            let latch = second.latch("many");
            tokio::spawn(async move { latch.count_down().await })
        })
        .collect();
    let mut told = Vec::new();
    for down in downs {
        told.push(down.await.unwrap().unwrap());
    }
    told.sort_unstable();
    assert_eq!(told, (0..u64::from(MANY)).collect::<Vec<_>>(), "each number once");
    for wait in waits {
        assert_eq!(soon("a waiter", wait).await.unwrap(), Ok(LatchEnd::Open));
    }
    assert_eq!(latch.count().await, Ok(0));
}

async fn a_timed_wait_ends_with_the_latch_or_on_time(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let latch = first.latch("timed");
    set(&latch, 1).await;
    let limit = Duration::from_millis(200);
    let refused = soon("a short wait", latch.wait_timeout(limit)).await;
    assert!(
        matches!(&refused, Err(Error::TimedOut { waited, .. }) if *waited >= limit),
        "{refused:?}"
    );
    let before = first.round_trips();
    let long = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait_timeout(SOON).await }
    });
    all_sleep(&first, before, 1).await;
    second.latch("timed").count_down().await.unwrap();
    assert_eq!(soon("a long wait", long).await.unwrap(), Ok(LatchEnd::Open));
}

async fn a_zero_wait_is_one_look(stage: Stage) {
    let keeper = stage.keeper().await;
    let latch = keeper.latch("zero");
    assert_eq!(latch.wait_timeout(Duration::ZERO).await, Ok(LatchEnd::Open));
    set(&latch, 1).await;
    let before = keeper.round_trips();
    let refused = latch.wait_timeout(Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    assert_eq!(keeper.round_trips() - before, 1);
}

async fn a_removed_latch_ends_waits_with_a_result_of_its_own(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let latch = first.latch("removed");
    set(&latch, 3).await;
    let before = first.round_trips();
    let waits: Vec<_> = (0..3).map(|_| waiting(&latch)).collect();
    all_sleep(&first, before, 3).await;
    assert_eq!(second.latch("removed").remove().await, Ok(true));
    for wait in waits {
        assert_eq!(soon("a waiter", wait).await.unwrap(), Ok(LatchEnd::Removed));
    }
    // Who comes now finds no latch, and so none that is closed.
    assert_eq!(latch.wait().await, Ok(LatchEnd::Open));
}

/// The latch that was waited for has ended, although there is a closed one of its name when the waiter looks.
async fn a_wait_outlives_a_latch_that_is_set_again(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let (latch, other) = (first.latch("again"), second.latch("again"));
    for ended in [LatchEnd::Open, LatchEnd::Removed] {
        set(&other, 1).await;
        let before = first.round_trips();
        let wait = waiting(&latch);
        all_sleep(&first, before, 1).await;
        if ended == LatchEnd::Open {
            assert_eq!(other.count_down().await, Ok(0));
        } else {
            assert_eq!(other.remove().await, Ok(true));
        }
        assert_eq!(other.try_set_count(5).await, Ok(true));
        assert_eq!(soon("the waiter", wait).await.unwrap(), Ok(ended));
        other.remove().await.unwrap();
    }
}

async fn a_name_of_another_kind_is_refused(stage: Stage) {
    let keeper = stage.keeper().await;
    let guard = keeper.mutex("other").lock().await.unwrap();
    let latch = keeper.latch("other");
    for refused in [
        latch.try_set_count(1).await.map(drop),
        latch.count_down().await.map(drop),
        latch.count().await.map(drop),
        latch.remove().await.map(drop),
        latch.wait().await.map(drop),
        latch.wait_timeout(Duration::ZERO).await.map(drop),
    ] {
        assert!(
            matches!(&refused, Err(Error::WrongKind { wanted: "latch", found, .. }) if found == "hash"),
            "{refused:?}"
        );
    }
    guard.unlock().await.expect("the lock is as it was");
    latch.try_set_count(1).await.unwrap();
    let refused = keeper.mutex("other").try_lock().await;
    assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    assert_eq!(latch.count().await, Ok(1));
}

async fn a_name_that_cannot_be_used_is_told_by_the_first_call(stage: Stage) {
    let keeper = stage.keeper().await;
    let latch = keeper.latch("a{b");
    assert!(matches!(latch.count().await, Err(Error::Name(_))));
    assert!(matches!(latch.wait().await, Err(Error::Name(_))));
}

async fn closing_ends_waits(stage: Stage) {
    let keeper = stage.keeper().await;
    let latch = keeper.latch("closing");
    set(&latch, 1).await;
    let before = keeper.round_trips();
    let wait = waiting(&latch);
    all_sleep(&keeper, before, 1).await;
    keeper.close().await;
    assert_eq!(soon("the waiter", wait).await.unwrap(), Err(Error::Closed));
    assert_eq!(latch.count_down().await, Err(Error::Closed));
}

async fn threads_count_down_and_wait(stage: Stage) {
    let keeper = blocking::Keeper::from(stage.keeper().await);
    let done = tokio::task::spawn_blocking(move || {
        let latch = keeper.latch("threads");
        assert_eq!(latch.try_set_count(3), Ok(true));
        assert!(matches!(
            latch.wait_timeout(Duration::from_millis(50)),
            Err(Error::TimedOut { .. })
        ));
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| latch.wait());
            for _ in 0..3 {
                scope.spawn(|| latch.count_down().unwrap());
            }
            assert_eq!(wait.join().unwrap(), Ok(LatchEnd::Open));
        });
        assert_eq!((latch.count(), latch.remove()), (Ok(0), Ok(false)));
    });
    soon("the threads", done).await.unwrap();
}

async fn inspection_tells_the_count(stage: Stage) {
    let keeper = stage.keeper().await;
    keeper.latch("told").try_set_count(4).await.unwrap();
    keeper.latch("told").count_down().await.unwrap();
    let found = keeper.inspect("told").await.unwrap();
    assert_eq!(found.kind.as_deref(), Some("latch"));
    assert_eq!(found.counts.get("count"), Some(&3));
    assert!(found.holders.is_empty() && found.layout.is_none());
    keeper.latch("told").remove().await.unwrap();
    assert_eq!(keeper.inspect("told").await.unwrap().kind, None);
}
