//! The plain semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper::{CountingSemaphore, Error, PermitsError, blocking};
use lockkeeper_testkit::wait_until;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    none_at_all_is_done_at_once,
    releases_make_permits,
    permits_are_set_once_and_end_with_their_life,
    adding_may_go_below_zero,
    several_releases_let_one_pass_who_wants_several,
    an_addition_lets_one_pass_who_wants_several,
    a_timed_wait_ends_with_the_permits_or_on_time,
    draining_takes_what_is_available,
    a_release_may_ask_that_the_semaphore_is_there,
    one_permit_loses_no_update,
    the_largest_numbers_do_not_overflow,
    taken_permits_stay_taken,
    dropped_waits_take_nothing,
    a_name_of_another_kind_is_refused,
    inspection_tells_what_is_available,
    threads_count,
);

async fn available(semaphore: &CountingSemaphore) -> i64 {
    semaphore.available_permits().await.unwrap()
}

async fn none_at_all_is_done_at_once(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.counting_semaphore("none");
    let before = keeper.round_trips();
    assert_eq!(semaphore.acquire(0).await, Ok(()));
    assert_eq!(semaphore.try_acquire(0).await, Ok(()));
    assert_eq!(semaphore.release(0).await, Ok(()));
    assert_eq!(semaphore.release_if_exists(0).await, Ok(false));
    assert!(matches!(
        semaphore.acquire(u32::MAX).await,
        Err(Error::Permits(PermitsError::TooMany { .. }))
    ));
    assert!(matches!(
        keeper.counting_semaphore("").acquire(1).await,
        Err(Error::Name(_))
    ));
    assert_eq!(keeper.round_trips(), before, "nothing was sent");
    assert_eq!(available(&semaphore).await, 0);
}

async fn releases_make_permits(stage: Stage) {
    let semaphore = stage.keeper().await.counting_semaphore("made");
    assert!(matches!(semaphore.try_acquire(1).await, Err(Error::Busy { .. })));
    semaphore.release(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    assert_eq!(available(&semaphore).await, 2);
    semaphore.acquire(2).await.unwrap();
    assert_eq!(available(&semaphore).await, 0);
    semaphore.release(5).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    semaphore.acquire(3).await.unwrap();
    assert_eq!(available(&semaphore).await, 1);
}

async fn permits_are_set_once_and_end_with_their_life(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.counting_semaphore("set");
    assert_eq!(semaphore.try_set_permits(10).await, Ok(true));
    assert_eq!(semaphore.try_set_permits(15).await, Ok(false));
    assert_eq!(available(&semaphore).await, 10);
    assert_eq!(semaphore.drain_permits().await, Ok(10));
    assert_eq!(
        semaphore.try_set_permits(15).await,
        Ok(false),
        "none left is not the same as none set"
    );
    assert_eq!(semaphore.remove().await, Ok(true));
    assert_eq!(semaphore.remove().await, Ok(false));
    let life = Duration::from_millis(400);
    assert_eq!(semaphore.try_set_permits_for(1, life).await, Ok(true));
    assert_eq!(available(&semaphore).await, 1);
    wait_until("its end", SOON, async || available(&semaphore).await == 0).await;
    assert_eq!(keeper.inspect("set").await.unwrap().kind, None);
}

async fn adding_may_go_below_zero(stage: Stage) {
    let semaphore = stage.keeper().await.counting_semaphore("added");
    semaphore.add_permits(-5).await.unwrap();
    assert_eq!(available(&semaphore).await, -5);
    assert!(matches!(semaphore.try_acquire(1).await, Err(Error::Busy { .. })));
    semaphore.release(10).await.unwrap();
    assert_eq!(available(&semaphore).await, 5);
    semaphore.acquire(5).await.unwrap();
    semaphore.add_permits(4).await.unwrap();
    semaphore.release(10).await.unwrap();
    semaphore.acquire(5).await.unwrap();
    assert_eq!(available(&semaphore).await, 9);
}

async fn several_releases_let_one_pass_who_wants_several(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    for other in [first.counting_semaphore("many"), second.counting_semaphore("many")] {
        let here = first.counting_semaphore("many");
        here.add_permits(2).await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire(4).await });
        tokio::task::yield_now().await;
        here.release(1).await.unwrap();
        assert!(!waiting.is_finished());
        here.release(1).await.unwrap();
        soon("four of four", waiting).await.unwrap().unwrap();
        assert_eq!(available(&here).await, 0);
    }
}

async fn an_addition_lets_one_pass_who_wants_several(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let here = first.counting_semaphore("addition");
    here.try_set_permits(2).await.unwrap();
    here.acquire(1).await.unwrap();
    here.acquire(1).await.unwrap();
    let waiting = tokio::spawn(async move { second.counting_semaphore("addition").acquire(2).await });
    here.release(1).await.unwrap();
    assert!(!waiting.is_finished());
    here.add_permits(1).await.unwrap();
    soon("the two", waiting).await.unwrap().unwrap();
    assert_eq!(available(&here).await, 0);
}

async fn a_timed_wait_ends_with_the_permits_or_on_time(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let here = first.counting_semaphore("timed");
    here.try_set_permits(2).await.unwrap();
    assert!(matches!(here.try_acquire(4).await, Err(Error::Busy { .. })));
    let zero = here.clone().wait(Duration::ZERO).acquire(4).await;
    assert!(matches!(zero, Err(Error::Busy { .. })), "{zero:?}");
    assert_eq!(
        here.clone().wait(Duration::ZERO).acquire(2).await,
        Ok(()),
        "zero is one full attempt"
    );
    here.release(2).await.unwrap();
    let limit = Duration::from_millis(200);
    let short = soon("a short wait", here.clone().wait(limit).acquire(4)).await;
    assert!(
        matches!(&short, Err(Error::TimedOut { waited, .. }) if *waited >= limit),
        "{short:?}"
    );
    let waiting = tokio::spawn(async move { second.counting_semaphore("timed").wait(SOON).acquire(4).await });
    here.release(1).await.unwrap();
    here.release(1).await.unwrap();
    assert_eq!(soon("a long wait", waiting).await.unwrap(), Ok(()));
}

async fn draining_takes_what_is_available(stage: Stage) {
    let semaphore = stage.keeper().await.counting_semaphore("drained");
    assert_eq!(semaphore.drain_permits().await, Ok(0));
    semaphore.try_set_permits(10).await.unwrap();
    semaphore.acquire(3).await.unwrap();
    assert_eq!(semaphore.drain_permits().await, Ok(7));
    assert_eq!(available(&semaphore).await, 0);
    assert_eq!(semaphore.drain_permits().await, Ok(0));
}

async fn a_release_may_ask_that_the_semaphore_is_there(stage: Stage) {
    let semaphore = stage.keeper().await.counting_semaphore("there");
    assert_eq!(semaphore.release_if_exists(2).await, Ok(false));
    assert_eq!(available(&semaphore).await, 0);
    assert_eq!(semaphore.try_set_permits(1).await, Ok(true), "nothing was made");
    assert_eq!(semaphore.release_if_exists(2).await, Ok(true));
    assert_eq!(available(&semaphore).await, 3);
}

async fn one_permit_loses_no_update(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await];
    keepers[0]
        .counting_semaphore("counter")
        .try_set_permits(1)
        .await
        .unwrap();
    let counter = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..15)
        .map(|number| {
            let semaphore = keepers[number % 2].counting_semaphore("counter");
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                for _ in 0..10 {
                    semaphore.acquire(1).await.unwrap();
                    let read = counter.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    counter.store(read + 1, Ordering::SeqCst);
                    semaphore.release(1).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(4 * SOON, task)
            .await
            .expect("nobody starves")
            .unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 150);
    assert_eq!(available(&keepers[1].counting_semaphore("counter")).await, 1);
}

async fn the_largest_numbers_do_not_overflow(stage: Stage) {
    const MOST: u32 = i32::MAX.cast_unsigned();
    let keepers = [stage.keeper().await, stage.keeper().await];
    keepers[0]
        .counting_semaphore("large")
        .try_set_permits(MOST)
        .await
        .unwrap();
    let tasks: Vec<_> = (0..4_usize)
        .map(|number| {
            let semaphore = keepers[number % 2].counting_semaphore("large");
            tokio::spawn(async move {
                for round in 0..10 {
                    let wanted = if (number + round) % 2 == 0 { 1 } else { MOST };
                    semaphore.acquire(wanted).await.unwrap();
                    semaphore.release(wanted).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(4 * SOON, task)
            .await
            .expect("nobody starves")
            .unwrap();
    }
    assert_eq!(
        available(&keepers[0].counting_semaphore("large")).await,
        i64::from(MOST)
    );
}

/// Once acquired they belong to nobody that could lose them: neither a dropped handle nor a closed keeper gives them back.
async fn taken_permits_stay_taken(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let there = second.counting_semaphore("taken");
    there.try_set_permits(3).await.unwrap();
    first.counting_semaphore("taken").acquire(2).await.unwrap();
    let report = first.close().await;
    assert!(report.freed.is_empty() && report.unconfirmed.is_empty(), "{report:?}");
    assert_eq!(available(&there).await, 1);
}

async fn dropped_waits_take_nothing(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let here = first.counting_semaphore("dropped");
    here.try_set_permits(1).await.unwrap();
    for polls in 1..12 {
        let wait = second.counting_semaphore("dropped");
        let mut wait = Box::pin(wait.acquire(1));
        let mut taken = false;
        for _ in 0..polls {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx))).await;
            if polled.is_ready() {
                taken = true;
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(wait);
        if taken {
            here.release(1).await.unwrap();
        }
        wait_until("the permit", SOON, async || {
            let found = available(&here).await;
            if found == 1 { Ok(()) } else { Err(found) }
        })
        .await;
    }
}

async fn a_name_of_another_kind_is_refused(stage: Stage) {
    let keeper = stage.keeper().await;
    let guard = keeper.mutex("other").lock().await.unwrap();
    let semaphore = keeper.counting_semaphore("other");
    for refused in [
        semaphore.acquire(1).await,
        semaphore.try_acquire(1).await,
        semaphore.release(1).await,
        semaphore.release_if_exists(1).await.map(drop),
        semaphore.try_set_permits(1).await.map(drop),
        semaphore.add_permits(1).await,
        semaphore.drain_permits().await.map(drop),
        semaphore.available_permits().await.map(drop),
        semaphore.remove().await.map(drop),
    ] {
        assert!(
            matches!(&refused, Err(Error::WrongKind { wanted: "counting semaphore", found, .. }) if found == "hash"),
            "{refused:?}"
        );
    }
    guard.unlock().await.expect("the lock is as it was");
}

async fn inspection_tells_what_is_available(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.counting_semaphore("told");
    semaphore.try_set_permits(5).await.unwrap();
    semaphore.acquire(2).await.unwrap();
    let found = keeper.inspect("told").await.unwrap();
    assert_eq!((found.kind.as_deref(), found.is_held()), (Some("semaphore"), false));
    assert_eq!(found.counts.get("available"), Some(&3));
}

async fn threads_count(stage: Stage) {
    let keeper = blocking::Keeper::from(stage.keeper().await);
    let done = tokio::task::spawn_blocking(move || {
        let semaphore = keeper.counting_semaphore("threads");
        assert_eq!(semaphore.try_set_permits(1), Ok(true));
        semaphore.acquire(1).unwrap();
        assert!(matches!(semaphore.try_acquire(1), Err(Error::Busy { .. })));
        let short = semaphore.clone().wait(Duration::from_millis(50));
        assert!(matches!(short.acquire(1), Err(Error::TimedOut { .. })));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.acquire(1));
            scope.spawn(|| semaphore.release(1).unwrap());
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
        semaphore.add_permits(3).unwrap();
        assert_eq!(semaphore.release_if_exists(1), Ok(true));
        assert_eq!(
            (semaphore.available_permits(), semaphore.drain_permits()),
            (Ok(4), Ok(4))
        );
        assert_eq!(semaphore.remove(), Ok(true));
    });
    soon("the threads", done).await.unwrap();
}
