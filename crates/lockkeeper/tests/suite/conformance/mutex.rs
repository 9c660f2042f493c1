use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::{Error, HoldState, Lease, LeaseError, LossReason, NameError, Unlocked};

use super::stage::soon;
use super::{Stage, on_every_stage};

on_every_stage!(
    locks_excludes_and_frees,
    tokens_rise_across_processes,
    a_dropped_guard_frees_the_lock,
    a_try_after_a_drop_succeeds,
    a_counter_under_the_lock_loses_no_update,
    a_fixed_lease_ends_and_the_holder_knows,
    a_renewed_lease_outlives_its_length,
    extending_keeps_a_fixed_lease,
    a_forced_unlock_frees_and_is_told,
    the_longest_hold_ends_a_renewed_lease,
    inspection_tells_the_holder,
    closing_frees_what_is_held,
    run_gives_back_the_value_and_frees,
    run_cancels_the_work_when_the_hold_is_lost,
    bad_arguments_are_refused_before_anything_is_sent,
);

async fn locks_excludes_and_frees(stage: Stage) {
    let (first, second) = stage.two("order:1001").await;
    let guard = soon("the lock", first.lock()).await.unwrap();
    assert_eq!(guard.name(), "order:1001");
    assert_eq!(guard.state(), HoldState::Held);
    assert!(guard.remaining() > Duration::from_secs(25) && guard.remaining() < Duration::from_secs(30));
    for other in [&first, &second] {
        assert!(matches!(other.try_lock().await, Err(Error::Busy { .. })));
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let guard = soon("the freed lock", second.try_lock()).await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn tokens_rise_across_processes(stage: Stage) {
    let (first, second) = stage.two("{orders}:tokens").await;
    let mut last = None;
    for round in 0..20 {
        let mutex = if round % 3 == 0 { &second } else { &first };
        let guard = mutex.lock().await.unwrap();
        assert!(last < Some(guard.token()), "{last:?} then {:?}", guard.token());
        last = Some(guard.token());
        guard.unlock().await.unwrap();
    }
}

async fn a_dropped_guard_frees_the_lock(stage: Stage) {
    let (first, second) = stage.two("dropped").await;
    drop(first.lock().await.unwrap());
    let guard = soon("the dropped lock", second.lock()).await.unwrap();
    drop(guard);
    drop(soon("the lock dropped by the other", first.lock()).await.unwrap());
}

async fn a_try_after_a_drop_succeeds(stage: Stage) {
    let (first, _) = stage.two("drop-and-try").await;
    for _ in 0..50 {
        drop(first.try_lock().await.expect("ordered behind the release"));
    }
}

async fn a_counter_under_the_lock_loses_no_update(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await];
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let mutex = stage.mutex(&keepers[task % 2], "counter");
        let counter = Arc::clone(&counter);
        tasks.spawn(async move {
            for _ in 0..25 {
                let guard = mutex.lock().await.unwrap();
                let seen = counter.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::Relaxed);
                assert_eq!(guard.state(), HoldState::Held);
            }
        });
    }
    while let Some(task) = soon("all rounds", tasks.join_next()).await {
        task.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), 16 * 25);
}

async fn a_fixed_lease_ends_and_the_holder_knows(stage: Stage) {
    let (first, second) = stage.two("fixed").await;
    let guard = first
        .lease(Lease::fixed(Duration::from_millis(300)))
        .lock()
        .await
        .unwrap();
    let started = std::time::Instant::now();
    let lost = guard.lost();
    let next = soon("the lock after its lease", second.lock()).await.unwrap();
    let waited = started.elapsed();
    assert!(
        waited > Duration::from_millis(250) && waited < Duration::from_millis(1500),
        "{waited:?}"
    );
    assert_eq!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(soon("the loss", lost).await, LossReason::DeadlinePassed);
    assert!(next.token() > guard.token());
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
    assert_eq!(
        next.state(),
        HoldState::Held,
        "a late unlock leaves the new holder alone"
    );
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}

async fn a_renewed_lease_outlives_its_length(stage: Stage) {
    let (first, second) = stage.two("renewed").await;
    let lease = Lease::renewed(Duration::from_millis(300));
    let guard = first.lease(lease).lock().await.unwrap();
    let refused = second.wait(Duration::from_millis(1000)).lock().await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    assert_ne!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn extending_keeps_a_fixed_lease(stage: Stage) {
    let (first, second) = stage.two("extended").await;
    let guard = first
        .lease(Lease::fixed(Duration::from_millis(400)))
        .lock()
        .await
        .unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        guard.extend(Duration::from_millis(400)).await.unwrap();
        assert!(matches!(second.try_lock().await, Err(Error::Busy { .. })));
    }
    assert!(matches!(
        guard.extend(Duration::ZERO).await,
        Err(Error::Lease(LeaseError::TooShort { .. }))
    ));
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(50));
    guard.extend(Duration::from_secs(1)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(50), "never shortened");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn a_forced_unlock_frees_and_is_told(stage: Stage) {
    let (first, second) = stage.two("forced").await;
    assert_eq!(second.force_unlock().await, Ok(false));
    let guard = first.lock().await.unwrap();
    assert_eq!(second.force_unlock().await, Ok(true));
    let next = soon("the freed lock", second.lock()).await.unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(guard.unlock().await, Err(Error::NotHeld));
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}

async fn the_longest_hold_ends_a_renewed_lease(stage: Stage) {
    let (first, second) = stage.two("hung").await;
    let lease = Lease::renewed(Duration::from_millis(300));
    let guard = first
        .lease(lease)
        .longest_hold(Duration::from_millis(700))
        .lock()
        .await
        .unwrap();
    assert_eq!(
        soon("the end of the hold", guard.lost()).await,
        LossReason::LongestHoldReached
    );
    drop(soon("the lock after the hung work", second.lock()).await.unwrap());
}

async fn inspection_tells_the_holder(stage: Stage) {
    let keeper = stage.keeper().await;
    let other = stage.keeper().await;
    let free = other.inspect("seen").await.unwrap();
    assert!(!free.is_held() && free.kind.is_none());
    let guard = stage.mutex(&keeper, "seen").lock().await.unwrap();
    let held = other.inspect("seen").await.unwrap();
    assert_eq!(held.kind.as_deref(), Some("mutex"));
    assert_eq!(held.layout, Some(stage.layout()));
    assert_eq!(held.token, Some(guard.token()));
    let [holder] = held.holders.as_slice() else {
        panic!("{held:?}")
    };
    assert_eq!((holder.owner.as_str(), holder.holds), (guard.owner(), 1));
    assert!(holder.time_left.unwrap() > Duration::from_secs(28));
    guard.unlock().await.unwrap();
    assert!(!other.inspect("seen").await.unwrap().is_held());
}

async fn closing_frees_what_is_held(stage: Stage) {
    let keeper = stage.keeper().await;
    let other = stage.keeper().await;
    let guard = stage.mutex(&keeper, "closed").lock().await.unwrap();
    let waiting = stage.mutex(&keeper, "closed");
    let mut waiting = Box::pin(waiting.lock());
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    let report = soon("closing", keeper.close()).await;
    assert_eq!(report.freed, ["closed"]);
    assert!(report.unconfirmed.is_empty());
    assert_eq!(guard.state(), HoldState::Lost(LossReason::KeeperClosed));
    assert!(matches!(soon("the wait to end", waiting).await, Err(Error::Closed)));
    drop(
        soon("the lock of a closed keeper", stage.mutex(&other, "closed").try_lock())
            .await
            .unwrap(),
    );
    assert!(matches!(
        stage.mutex(&keeper, "closed").lock().await,
        Err(Error::Closed)
    ));
}

async fn run_gives_back_the_value_and_frees(stage: Stage) {
    let (first, second) = stage.two("run").await;
    let ran = first.run(|hold| async move { hold.token() }).await.unwrap();
    assert!(ran.value.is_some() && ran.lost.is_none());
    assert_eq!(ran.release, Ok(Unlocked::Freed));
    drop(second.try_lock().await.unwrap());
}

async fn run_cancels_the_work_when_the_hold_is_lost(stage: Stage) {
    let (first, _) = stage.two("run-lost").await;
    let ran = first
        .lease(Lease::fixed(Duration::from_millis(200)))
        .run(|_| std::future::pending::<()>())
        .await
        .unwrap();
    assert_eq!((ran.value, ran.lost), (None, Some(LossReason::DeadlinePassed)));
    assert!(ran.release.is_err());
}

async fn bad_arguments_are_refused_before_anything_is_sent(stage: Stage) {
    let keeper = stage.keeper().await;
    let before = keeper.round_trips();
    let mutex = stage.mutex(&keeper, "x");
    for lease in [
        Duration::ZERO,
        Duration::from_micros(400),
        Duration::from_millis(20),
        Duration::MAX,
    ] {
        let refused = mutex.clone().lease(Lease::renewed(lease)).lock().await;
        assert!(matches!(refused, Err(Error::Lease(_))), "{lease:?}: {refused:?}");
    }
    for name in ["", "a{b", "}x", &"n".repeat(513)] {
        let refused = stage.mutex(&keeper, name).try_lock().await;
        assert!(matches!(refused, Err(Error::Name(_))), "{name}: {refused:?}");
    }
    assert!(matches!(
        stage.mutex(&keeper, "").lock().await,
        Err(Error::Name(NameError::Empty))
    ));
    assert_eq!(keeper.round_trips(), before);
}
