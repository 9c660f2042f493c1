//! Ownership belongs to the guard: not to a thread, not to a task. Waiting and lease are separate.

use std::time::{Duration, Instant};

use lockkeeper::{Error, Keeper, Layout, Lease, Unlocked};
use tokio::sync::oneshot;

use super::in_both_layouts;
use super::stage::{Stage, ms, soon};

in_both_layouts!(
    a_guard_is_given_up_in_another_thread,
    a_wait_may_be_longer_than_its_lease
);

/// Two tasks on one thread are two callers.
#[tokio::test(flavor = "current_thread")]
async fn tasks_of_one_thread_exclude_each_other() {
    for layout in [Layout::Redisson, Layout::Plain] {
        let stage = Stage::new(layout);
        let mutex = stage.mutex(&stage.keeper().await, "one-thread");
        let (locked, first_locked) = oneshot::channel();
        let (go, told) = oneshot::channel();
        let first = mutex.clone();
        let first = tokio::spawn(async move {
            let guard = first.lock().await.unwrap();
            locked.send(guard.token()).unwrap();
            told.await.unwrap();
            guard.unlock().await.unwrap();
        });
        let token = first_locked.await.unwrap();
        assert!(matches!(mutex.try_lock().await, Err(Error::Busy { .. })));
        let refused = mutex.clone().wait(ms(100)).lock().await;
        assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
        let mut second = Box::pin(mutex.lock());
        assert!(tokio::time::timeout(ms(50), &mut second).await.is_err(), "task 2 waits");
        go.send(()).unwrap();
        let guard = soon("task 2", second).await.unwrap();
        assert!(guard.token() > token);
        first.await.unwrap();
        guard.unlock().await.unwrap();
    }
}

async fn a_guard_is_given_up_in_another_thread(layout: Layout) {
    let stage = Stage::new(layout);
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let (mutex, other) = (stage.mutex(&keeper, "moved"), stage.mutex(&other, "moved"));

    // Unlocked on a runtime of its own in another thread.
    let guard = mutex.lock().await.unwrap();
    let unlocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(guard.unlock())
    });
    let unlocked = tokio::task::spawn_blocking(move || unlocked.join().unwrap())
        .await
        .unwrap();
    assert_eq!(unlocked, Ok(Unlocked::Freed));
    drop(soon("the lock unlocked elsewhere", other.lock()).await.unwrap());

    // Dropped in a plain thread.
    let guard = soon("the lock", mutex.lock()).await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    drop(soon("the lock dropped elsewhere", other.lock()).await.unwrap());

    // Taken by one task, extended and given up by another.
    let guard = soon("the lock", mutex.lock()).await.unwrap();
    let unlocked = tokio::spawn(async move {
        guard.extend(Duration::from_secs(40)).await.unwrap();
        guard.unlock().await
    });
    assert_eq!(soon("the other task", unlocked).await.unwrap(), Ok(Unlocked::Freed));
}

async fn a_wait_may_be_longer_than_its_lease(layout: Layout) {
    let stage = Stage::new(layout);
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let guard = stage.mutex(&keeper, "patient").lock().await.unwrap();
    let lease = ms(400);
    let waiter = stage.mutex(&other, "patient").lease(Lease::fixed(lease));
    let started = Instant::now();
    let waiting = tokio::spawn(async move {
        let guard = waiter.wait(Duration::from_secs(20)).lock().await;
        guard.map(|guard| (guard.remaining(), guard))
    });
    // Three leases of the waiter's pass while it waits.
    tokio::time::sleep(lease * 3).await;
    assert!(!waiting.is_finished(), "a wait is not cut by its lease");
    guard.unlock().await.unwrap();
    let (remaining, next) = soon("the waiter", waiting).await.unwrap().unwrap();
    assert!(started.elapsed() >= lease * 3);
    assert!(remaining > lease / 2, "the lease begins with the grant: {remaining:?}");
    drop(next);
}

/// The holder keeps it for 20 s; the waiter, whose lease is 12 s, gets it then and has all 12.
#[tokio::test(start_paused = true)]
async fn a_patient_waiter_gets_its_whole_lease() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let second = Duration::from_secs(1);
    let guard = keeper.mutex("l").lock().await.unwrap();
    let started = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move {
        let guard = other.mutex("l").lease(Lease::fixed(12 * second)).lock().await.unwrap();
        (started.elapsed(), guard.remaining())
    });
    tokio::time::sleep(20 * second).await;
    guard.unlock().await.unwrap();
    let (waited, remaining) = waiting.await.unwrap();
    assert!(waited >= 20 * second && waited < 21 * second, "{waited:?}");
    assert!(remaining > 10 * second && remaining < 12 * second, "{remaining:?}");
}
