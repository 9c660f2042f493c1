use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Inspection, Keeper, Layout, Lease, MutexGuard, Unlocked};
use lockkeeper_testkit::wait_until;
use tokio::task::JoinHandle;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    a_fair_lock_excludes_and_frees,
    callers_of_all_processes_are_served_in_the_order_of_their_coming,
    a_try_overtakes_nobody,
    a_wait_that_ends_leaves_the_line,
    a_dropped_wait_leaves_the_line,
    a_holder_whose_lease_ends_needs_no_message,
    a_zero_wait_is_one_attempt_and_takes_no_place,
    places_last_as_long_as_the_wait,
    short_waits_do_not_push_the_ends_of_others_away,
    everybody_gets_a_turn_in_order_though_nobody_unlocks,
    a_counter_under_a_fair_lock_loses_no_update,
    a_forced_unlock_wakes_the_next,
    closing_the_keeper_frees_the_lock_and_leaves_the_line,
    a_fair_lock_has_no_plain_layout,
);

async fn in_line(keeper: &Keeper, name: &str, count: usize) -> Inspection {
    wait_until(&format!("{count} in line"), SOON, async || {
        let found = keeper.inspect(name).await.unwrap();
        if found.waiting.len() == count {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    keeper.inspect(name).await.unwrap()
}

fn locking(keeper: &Keeper, name: &str) -> JoinHandle<Result<MutexGuard, Error>> {
    let mutex = keeper.fair_mutex(name);
    tokio::spawn(async move { mutex.lock().await })
}

async fn a_fair_lock_excludes_and_frees(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let guard = first.fair_mutex("order:1").lock().await.unwrap();
    assert!(matches!(
        second.fair_mutex("order:1").try_lock().await,
        Err(Error::Busy { .. })
    ));
    assert!(
        matches!(second.mutex("order:1").try_lock().await, Err(Error::Busy { .. })),
        "a plain mutex of this name is the same lock"
    );
    let token = guard.token();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let guard = second.fair_mutex("order:1").try_lock().await.unwrap();
    assert!(guard.token() > token);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn callers_of_all_processes_are_served_in_the_order_of_their_coming(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await, stage.keeper().await];
    let guard = keepers[0].fair_mutex("served").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut callers = Vec::new();
    for number in 0..12 {
        let mutex = keepers[number % 3].fair_mutex("served");
        let served = Arc::clone(&served);
        callers.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            served.lock().unwrap().push(number);
            guard.unlock().await.unwrap();
        }));
        let found = in_line(&keepers[0], "served", number + 1).await;
        assert_eq!(found.kind.as_deref(), Some("fair"));
    }
    guard.unlock().await.unwrap();
    for caller in callers {
        soon("a turn", caller).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>());
    in_line(&keepers[0], "served", 0).await;
}

async fn a_try_overtakes_nobody(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let guard = first.fair_mutex("try").lock().await.unwrap();
    let waiting = locking(&second, "try");
    in_line(&first, "try", 1).await;
    guard.unlock().await.unwrap();
    // The lock may be free for a moment, or the waiter has it already: either way it is not ours.
    assert!(matches!(
        first.fair_mutex("try").try_lock().await,
        Err(Error::Busy { .. })
    ));
    soon("the waiter", waiting)
        .await
        .unwrap()
        .unwrap()
        .unlock()
        .await
        .unwrap();
    soon("the lock that nobody waits for", async {
        while first.fair_mutex("try").try_lock().await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn a_wait_that_ends_leaves_the_line(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let guard = first.fair_mutex("timed").lock().await.unwrap();
    let wait = Duration::from_millis(200);
    let error = second.fair_mutex("timed").wait(wait).lock().await.unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { waited, .. } if *waited >= wait),
        "{error:?}"
    );
    in_line(&first, "timed", 0).await;
    let behind = locking(&second, "timed");
    in_line(&first, "timed", 1).await;
    guard.unlock().await.unwrap();
    drop(soon("the one behind", behind).await.unwrap().unwrap());
}

async fn a_dropped_wait_leaves_the_line(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let guard = first.fair_mutex("dropped").lock().await.unwrap();
    let head = locking(&second, "dropped");
    in_line(&first, "dropped", 1).await;
    let behind = locking(&first, "dropped");
    in_line(&first, "dropped", 2).await;
    head.abort();
    let found = in_line(&first, "dropped", 1).await;
    assert_eq!(found.holders.len(), 1);
    guard.unlock().await.unwrap();
    soon("the one behind", behind)
        .await
        .unwrap()
        .unwrap()
        .unlock()
        .await
        .unwrap();
    in_line(&first, "dropped", 0).await;
}

async fn a_holder_whose_lease_ends_needs_no_message(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lease = Duration::from_millis(400);
    let started = Instant::now();
    let guard = first
        .fair_mutex("ends")
        .lease(Lease::fixed(lease))
        .lock()
        .await
        .unwrap();
    let next = soon("the next", second.fair_mutex("ends").lock()).await.unwrap();
    let waited = started.elapsed();
    assert!(waited >= lease && waited < lease * 4, "{waited:?}");
    assert!(matches!(guard.unlock().await, Err(Error::Lost(_))));
    assert_eq!(
        next.state(),
        HoldState::Held,
        "a late unlock leaves the new holder alone"
    );
}

async fn a_zero_wait_is_one_attempt_and_takes_no_place(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let mutex = second.fair_mutex("zero").wait(Duration::ZERO);
    let guard = mutex.lock().await.unwrap();
    assert!(matches!(
        first.fair_mutex("zero").wait(Duration::ZERO).lock().await,
        Err(Error::Busy { .. })
    ));
    assert_eq!(first.inspect("zero").await.unwrap().waiting, []);
    guard.unlock().await.unwrap();
}

/// The shortest grace, and a holder that stays for longer: the end of a waiter's place moves on while it waits.
async fn places_last_as_long_as_the_wait(stage: Stage) {
    let grace = Duration::from_secs(2);
    let (first, second) = (
        stage.keeper_with_grace(grace).await,
        stage.keeper_with_grace(grace).await,
    );
    let lease = Lease::renewed(Duration::from_millis(600));
    let guard = first.fair_mutex("long").lease(lease).lock().await.unwrap();
    let head = locking(&second, "long");
    let begun = in_line(&first, "long", 1).await;
    let behind = locking(&first, "long");
    in_line(&first, "long", 2).await;
    // Longer than the first end of the head's place.
    let first_end = begun.waiting[0].time_left.unwrap();
    assert!(first_end <= grace + Duration::from_millis(600), "{first_end:?}");
    tokio::time::sleep(first_end + Duration::from_millis(300)).await;
    let found = first.inspect("long").await.unwrap();
    assert_eq!(found.waiting.len(), 2, "{found:?}");
    assert_eq!(found.waiting[0].owner, begun.waiting[0].owner);
    guard.unlock().await.unwrap();
    let guard = soon("the head", head).await.unwrap().unwrap();
    assert!(!behind.is_finished());
    guard.unlock().await.unwrap();
    drop(soon("the one behind", behind).await.unwrap().unwrap());
}

/// B14: however often others come and go, a place ends at most one grace for each place after the lock's own end.
async fn short_waits_do_not_push_the_ends_of_others_away(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let _guard = first.fair_mutex("drift").lock().await.unwrap();
    let _waiting = locking(&second, "drift");
    in_line(&first, "drift", 1).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..3 {
        let mutex = [&first, &second][caller % 2].fair_mutex("drift");
        callers.spawn(async move {
            for _ in 0..20 {
                let wait = Duration::from_millis(20 + 7 * caller as u64);
                assert!(mutex.clone().wait(wait).lock().await.is_err());
            }
        });
    }
    while let Some(caller) = soon("short waits", callers.join_next()).await {
        caller.unwrap();
    }
    let last = locking(&first, "drift");
    let found = in_line(&first, "drift", 2).await;
    let (lease, grace) = (Duration::from_secs(30), Duration::from_secs(5));
    for (place, waiter) in (1..).zip(&found.waiting) {
        let left = waiter.time_left.unwrap();
        assert!(left <= lease + grace * place, "place {place}: {left:?}");
    }
    last.abort();
}

/// As many callers as there are, each with a short lease that nobody gives up.
async fn everybody_gets_a_turn_in_order_though_nobody_unlocks(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await];
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut guards = Vec::new();
    for number in 0..6 {
        let mutex = keepers[number % 2].fair_mutex("lapse");
        let mutex = mutex.lease(Lease::fixed(Duration::from_millis(300)));
        let turns = Arc::clone(&served);
        guards.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            turns.lock().unwrap().push(number);
            // Kept until it is lost.
            guard.lost().await;
        }));
        wait_until("a place or the lock", SOON, async || {
            let found = keepers[0].inspect("lapse").await.unwrap();
            let known = found.waiting.len() + served.lock().unwrap().len();
            if known > number { Ok(()) } else { Err(found) }
        })
        .await;
    }
    for guard in guards {
        soon("a turn", guard).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..6).collect::<Vec<_>>());
}

async fn a_counter_under_a_fair_lock_loses_no_update(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await, stage.keeper().await];
    let counter = Arc::new(Mutex::new((0_u32, false)));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..9 {
        let mutex = keepers[task % 3].fair_mutex("counter");
        let counter = Arc::clone(&counter);
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = mutex.lock().await.unwrap();
                assert!(!std::mem::replace(&mut counter.lock().unwrap().1, true), "two at once");
                tokio::task::yield_now().await;
                {
                    let mut seen = counter.lock().unwrap();
                    seen.0 += 1;
                    seen.1 = false;
                }
                assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
            }
        });
    }
    while let Some(task) = tokio::time::timeout(SOON * 3, tasks.join_next()).await.unwrap() {
        task.unwrap();
    }
    assert_eq!(counter.lock().unwrap().0, 9 * 20);
    in_line(&keepers[0], "counter", 0).await;
}

async fn a_forced_unlock_wakes_the_next(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let _guard = first.fair_mutex("forced").lock().await.unwrap();
    let waiting = locking(&second, "forced");
    in_line(&first, "forced", 1).await;
    assert_eq!(first.fair_mutex("forced").force_unlock().await, Ok(true));
    let next = soon("the next", waiting).await.unwrap().unwrap();
    assert_eq!(first.inspect("forced").await.unwrap().holders[0].owner, next.owner());
    next.unlock().await.unwrap();
    assert_eq!(first.fair_mutex("forced").force_unlock().await, Ok(false));
}

async fn closing_the_keeper_frees_the_lock_and_leaves_the_line(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let _held = first.fair_mutex("held").lock().await.unwrap();
    let held = second.fair_mutex("waited").lock().await.unwrap();
    let waiting = locking(&first, "waited");
    in_line(&second, "waited", 1).await;
    let report = soon("the end", first.close()).await;
    assert_eq!(
        (&*report.freed, &*report.unconfirmed),
        (&["held".to_owned()][..], &[][..])
    );
    assert!(matches!(soon("the waiter", waiting).await.unwrap(), Err(Error::Closed)));
    in_line(&second, "waited", 0).await;
    drop(second.fair_mutex("held").try_lock().await.unwrap());
    held.unlock().await.unwrap();
}

async fn a_fair_lock_has_no_plain_layout(stage: Stage) {
    let mutex = stage.keeper().await.fair_mutex("a").layout(Layout::Plain);
    assert!(matches!(
        mutex.lock().await,
        Err(Error::NoSuchLayout { kind: "fair mutex" })
    ));
}
