use std::time::Duration;

use lockkeeper::{Error, HoldState, Lease, LossReason, Unlocked};

use super::stage::soon;
use super::{Stage, on_every_stage};

on_every_stage!(
    ownership_belongs_to_the_guard,
    a_guard_reenters,
    a_scope_reenters_what_it_holds,
    a_guard_made_movable_leaves_the_scope,
    an_inner_lease_beyond_the_outer_is_refused,
    a_lost_hold_is_never_entered_again,
);

/// Two tasks of one thread are two callers, and a guard may be given up by another task than the one that locked.
async fn ownership_belongs_to_the_guard(stage: Stage) {
    let (first, second) = stage.two("owned").await;
    let guard = first.lock().await.unwrap();
    let waiting = tokio::spawn({
        let first = first.clone();
        async move { first.lock().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    tokio::spawn(guard.unlock()).await.unwrap().unwrap();
    let guard = soon("the task that waited", waiting).await.unwrap().unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    drop(soon("the lock dropped by a plain thread", second.lock()).await.unwrap());
}

async fn a_guard_reenters(stage: Stage) {
    let (first, second) = stage.two("again").await;
    let outer = first.lock().await.unwrap();
    let inner = outer.reenter().unwrap();
    assert_eq!(outer.token(), inner.token());
    assert_eq!(outer.unlock().await, Ok(Unlocked::StillHeld));
    assert!(matches!(second.try_lock().await, Err(Error::Busy { .. })));
    assert_eq!(inner.unlock().await, Ok(Unlocked::Freed));
    drop(soon("the freed lock", second.try_lock()).await.unwrap());
}

async fn a_scope_reenters_what_it_holds(stage: Stage) {
    let keeper = stage.keeper().await;
    let mutex = stage.mutex(&keeper, "scoped");
    let other = stage.mutex(&keeper, "scoped");
    keeper
        .scope(async |scope| {
            let outer = scope.lock(&mutex).await.unwrap();
            let before = keeper.round_trips();
            let inner = scope.lock(&mutex).await.unwrap();
            let innermost = scope.try_lock(&other).await.unwrap();
            assert_eq!(keeper.round_trips(), before, "re-entry costs no round trip");
            assert_eq!(outer.token(), innermost.token());
            assert!(
                matches!(other.try_lock().await, Err(Error::Busy { .. })),
                "outside of the scope it is busy"
            );
            drop(outer);
            drop(inner);
            assert!(matches!(other.try_lock().await, Err(Error::Busy { .. })));
            assert_eq!(innermost.unlock().await, Ok(Unlocked::Freed));
            drop(scope.lock(&mutex).await.unwrap());
        })
        .await;
    drop(soon("the lock after its scope", mutex.try_lock()).await.unwrap());
}

async fn a_guard_made_movable_leaves_the_scope(stage: Stage) {
    let keeper = stage.keeper().await;
    let mutex = stage.mutex(&keeper, "moved");
    let guard = keeper
        .scope(async |scope| {
            let guard = scope.lock(&mutex).await.unwrap().into_owned();
            assert!(matches!(scope.try_lock(&mutex).await, Err(Error::Busy { .. })));
            guard
        })
        .await;
    assert_eq!(guard.state(), HoldState::Held);
    tokio::spawn(async move { guard.unlock().await.unwrap() })
        .await
        .unwrap();
    drop(soon("the lock given up elsewhere", mutex.try_lock()).await.unwrap());
}

async fn an_inner_lease_beyond_the_outer_is_refused(stage: Stage) {
    let keeper = stage.keeper().await;
    let short = stage
        .mutex(&keeper, "inner")
        .lease(Lease::fixed(Duration::from_secs(5)));
    let long = short.clone().lease(Lease::fixed(Duration::from_secs(6)));
    let endless = short.clone().lease(Lease::default());
    keeper
        .scope(async |scope| {
            let _outer = scope.lock(&short).await.unwrap();
            drop(scope.lock(&short).await.unwrap());
            for unfit in [&long, &endless] {
                assert!(matches!(scope.lock(unfit).await, Err(Error::InnerLease { .. })));
            }
        })
        .await;
}

async fn a_lost_hold_is_never_entered_again(stage: Stage) {
    let keeper = stage.keeper().await;
    let mutex = stage
        .mutex(&keeper, "gone")
        .lease(Lease::fixed(Duration::from_millis(200)));
    keeper
        .scope(async |scope| {
            let outer = scope.lock(&mutex).await.unwrap();
            soon("the end of the lease", outer.lost()).await;
            let refused = scope.lock(&mutex).await.map(|_| ());
            assert_eq!(refused, Err(Error::Lost(LossReason::DeadlinePassed)));
            assert!(matches!(outer.reenter(), Err(Error::Lost(_))));
        })
        .await;
}
