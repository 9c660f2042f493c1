//! The semaphore whose permits are leased.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, Lease, LossReason, PermitsError, Semaphore, Unlocked, blocking};
use lockkeeper_testkit::wait_until;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    without_permits_there_are_none,
    permits_are_set_once_and_changed_any_time,
    lowering_below_what_is_held_leaves_less_than_none,
    ids_are_redissons_and_counts_agree,
    several_are_taken_together_or_not_at_all,
    numbers_that_cannot_be_are_refused_before_anything_is_sent,
    a_release_wakes_who_waits,
    one_release_wakes_every_waiter_that_can_go,
    who_wants_many_is_not_passed_over,
    several_wants_of_several_are_all_met,
    permits_that_end_are_available_again,
    a_waiter_needs_no_message_when_a_permit_ends,
    an_ended_permit_is_told_and_given_back_once,
    renewed_permits_outlive_their_lease_and_extended_ones_too,
    no_more_are_held_than_there_are,
    one_permit_loses_no_update,
    draining_takes_what_is_available,
    a_removed_semaphore_costs_its_holders_their_permits,
    a_semaphore_with_a_life_leaves_nothing,
    a_dropped_wait_leaves_nothing,
    a_name_of_another_kind_is_refused,
    closing_gives_permits_back,
    inspection_tells_permits_and_holders,
    threads_take_permits,
);

/// Available, held, and all together.
async fn counts(semaphore: &Semaphore) -> (i64, i64, i64) {
    (
        semaphore.available_permits().await.unwrap(),
        semaphore.acquired_permits().await.unwrap(),
        semaphore.permits().await.unwrap(),
    )
}

async fn with_permits(keeper: &Keeper, name: &str, permits: u32) -> Semaphore {
    let semaphore = keeper.semaphore(name);
    assert_eq!(semaphore.try_set_permits(permits).await, Ok(true));
    semaphore
}

async fn counts_become(semaphore: &Semaphore, wanted: (i64, i64, i64)) {
    wait_until("the counts", SOON, async || {
        let found = counts(semaphore).await;
        if found == wanted { Ok(()) } else { Err(found) }
    })
    .await;
}

async fn without_permits_there_are_none(stage: Stage) {
    let semaphore = stage.keeper().await.semaphore("unset");
    assert_eq!(counts(&semaphore).await, (0, 0, 0));
    assert!(matches!(
        semaphore.try_acquire().await,
        Err(Error::Busy { time_left: None, .. })
    ));
    let waited = semaphore.clone().wait(Duration::from_millis(100)).acquire().await;
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    // Who waits goes on once they are set.
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    tokio::task::yield_now().await;
    stage
        .keeper()
        .await
        .semaphore("unset")
        .try_set_permits(1)
        .await
        .unwrap();
    drop(soon("the first permit", waiting).await.unwrap().unwrap());
}

async fn permits_are_set_once_and_changed_any_time(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "set", 10).await;
    assert_eq!(semaphore.try_set_permits(15).await, Ok(false));
    for (more, wanted) in [(5, 15), (-10, 5), (-10, -5), (15, 10)] {
        semaphore.add_permits(more).await.unwrap();
        assert_eq!(counts(&semaphore).await, (wanted, 0, wanted));
    }
    for wanted in [20, 20, 3] {
        semaphore.set_permits(wanted).await.unwrap();
        assert_eq!(counts(&semaphore).await, (wanted.into(), 0, wanted.into()));
    }
    let other = keeper.semaphore("set by set");
    other.set_permits(2).await.unwrap();
    assert_eq!(counts(&other).await, (2, 0, 2));
    let third = keeper.semaphore("set by add");
    third.add_permits(2).await.unwrap();
    assert_eq!(counts(&third).await, (2, 0, 2));
}

async fn lowering_below_what_is_held_leaves_less_than_none(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "lowered", 5).await;
    let permit = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(counts(&semaphore).await, (2, 3, 5));
    semaphore.set_permits(1).await.unwrap();
    assert_eq!(counts(&semaphore).await, (-2, 3, 1));
    assert!(matches!(semaphore.try_acquire().await, Err(Error::Busy { .. })));
    semaphore.set_permits(4).await.unwrap();
    assert_eq!(counts(&semaphore).await, (1, 3, 4));
    assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(counts(&semaphore).await, (4, 0, 4));
}

async fn ids_are_redissons_and_counts_agree(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let (here, there) = (with_permits(&first, "ids", 10).await, second.semaphore("ids"));
    let (one, six) = (here.acquire().await.unwrap(), there.acquire_many(6).await.unwrap());
    assert_eq!((one.permits(), six.permits()), (1, 6));
    let ids: BTreeSet<_> = one.ids().chain(six.ids()).collect();
    assert_eq!(ids.len(), 7, "every permit has an id of its own");
    for id in ids {
        assert!(
            id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            "{id}"
        );
    }
    assert_eq!(counts(&here).await, (3, 7, 10));
    assert_eq!(six.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(one.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(counts(&there).await, (10, 0, 10));
}

async fn several_are_taken_together_or_not_at_all(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "several", 10).await;
    let four = semaphore.try_acquire_many(4).await.unwrap();
    let five = semaphore.try_acquire_many(5).await.unwrap();
    assert_eq!(counts(&semaphore).await, (1, 9, 10));
    assert!(matches!(semaphore.try_acquire_many(2).await, Err(Error::Busy { .. })));
    assert_eq!(
        counts(&semaphore).await,
        (1, 9, 10),
        "nothing is taken by a refused call"
    );
    drop((four, five));
    counts_become(&semaphore, (10, 0, 10)).await;
}

async fn numbers_that_cannot_be_are_refused_before_anything_is_sent(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.semaphore("numbers");
    let before = keeper.round_trips();
    assert!(matches!(
        semaphore.acquire_many(0).await,
        Err(Error::Permits(PermitsError::None))
    ));
    assert!(matches!(
        semaphore.try_acquire_many(1001).await,
        Err(Error::Permits(PermitsError::TooMany {
            wanted: 1001,
            most: 1000
        }))
    ));
    assert!(matches!(
        semaphore.try_set_permits(u32::MAX).await,
        Err(Error::Permits(PermitsError::TooMany { .. }))
    ));
    for life in [Duration::ZERO, Duration::from_micros(900), Duration::MAX] {
        assert!(matches!(
            semaphore.try_set_permits_for(1, life).await,
            Err(Error::Permits(PermitsError::Life))
        ));
    }
    assert!(matches!(
        semaphore.clone().lease(Lease::fixed(Duration::ZERO)).acquire().await,
        Err(Error::Lease(_))
    ));
    assert!(matches!(keeper.semaphore("a}b").acquire().await, Err(Error::Name(_))));
    assert_eq!(keeper.round_trips(), before);
    assert_eq!(semaphore.try_set_permits(i32::MAX.cast_unsigned()).await, Ok(true));
    let most = semaphore.acquire_many(1000).await.unwrap();
    assert_eq!(semaphore.acquired_permits().await, Ok(1000));
    assert_eq!(most.unlock().await, Ok(Unlocked::Freed));
}

async fn a_release_wakes_who_waits(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let here = with_permits(&first, "woken", 1).await;
    for other in [first.semaphore("woken"), second.semaphore("woken")] {
        let permit = here.acquire().await.unwrap();
        assert!(matches!(
            other.try_acquire().await,
            Err(Error::Busy { time_left: Some(_), .. })
        ));
        let waiting = tokio::spawn(async move { other.acquire().await });
        tokio::task::yield_now().await;
        assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
        soon("the released permit", waiting)
            .await
            .unwrap()
            .unwrap()
            .unlock()
            .await
            .unwrap();
    }
}

async fn one_release_wakes_every_waiter_that_can_go(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let here = with_permits(&first, "herd", 6).await;
    let all = here.acquire_many(6).await.unwrap();
    let waits: Vec<_> = (0..6)
        .map(|number| {
            let semaphore = if number % 2 == 0 { &first } else { &second }.semaphore("herd");
            tokio::spawn(async move { semaphore.acquire().await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(all.unlock().await, Ok(Unlocked::Freed));
    let mut permits = Vec::new();
    for wait in waits {
        permits.push(soon("a waiter", wait).await.unwrap().unwrap());
    }
    assert_eq!(counts(&here).await, (0, 6, 6));
}

/// Two permits are hardly ever free at once, unless those who want one stand behind who wants two.
async fn who_wants_many_is_not_passed_over(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "many", 2).await;
    let enough = Arc::new(AtomicBool::new(false));
    let greedy: Vec<_> = (0..6)
        .map(|_| {
            let (semaphore, enough) = (semaphore.clone(), Arc::clone(&enough));
            tokio::spawn(async move {
                while !enough.load(Ordering::SeqCst) {
                    let permit = semaphore.acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    permit.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let both = soon("both permits", semaphore.acquire_many(2)).await.unwrap();
        assert_eq!(both.permits(), 2);
        both.unlock().await.unwrap();
    }
    enough.store(true, Ordering::SeqCst);
    for task in greedy {
        soon("a greedy one", task).await.unwrap();
    }
}

/// Polls once, and tells whether that was not the end.
async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())).await
}

async fn several_wants_of_several_are_all_met(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    drop(with_permits(&first, "wants", 2).await);
    let wants = [(&first, 2), (&second, 2), (&first, 1), (&second, 2), (&first, 1)];
    let tasks: Vec<_> = wants
        .map(|(keeper, permits)| {
            let semaphore = keeper.semaphore("wants").wait(SOON);
            tokio::spawn(async move {
                let permit = semaphore.acquire_many(permits).await?;
                tokio::task::yield_now().await;
                permit.unlock().await
            })
        })
        .into_iter()
        .collect();
    for task in tasks {
        assert_eq!(soon("a want", task).await.unwrap(), Ok(Unlocked::Freed));
    }
    assert_eq!(counts(&first.semaphore("wants")).await, (2, 0, 2));
}

const SHORT: Lease = Lease::fixed(Duration::from_millis(200));

async fn permits_that_end_are_available_again(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "ending", 8).await;
    let short = semaphore.clone().lease(SHORT);
    let ending = [short.acquire().await.unwrap(), short.acquire_many(2).await.unwrap()];
    let kept = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(counts(&semaphore).await, (2, 6, 8));
    counts_become(&semaphore, (5, 3, 8)).await;
    for permit in &ending {
        assert!(matches!(permit.state(), HoldState::Lost(LossReason::DeadlinePassed)));
    }
    let more = semaphore.try_acquire_many(5).await.expect("what ended is available");
    assert_eq!(counts(&semaphore).await, (0, 8, 8));
    drop(ending);
    assert_eq!(more.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(kept.unlock().await, Ok(Unlocked::Freed));
    counts_become(&semaphore, (8, 0, 8)).await;
}

async fn a_waiter_needs_no_message_when_a_permit_ends(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let semaphore = with_permits(&first, "silent end", 1).await;
    let ending = semaphore.clone().lease(SHORT).acquire().await.unwrap();
    let permit = soon("the ended permit", second.semaphore("silent end").acquire())
        .await
        .unwrap();
    assert!(matches!(
        ending.unlock().await,
        Err(Error::Lost(LossReason::DeadlinePassed))
    ));
    assert_eq!(
        counts(&semaphore).await,
        (0, 1, 1),
        "the permit of another is left alone"
    );
    assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
}

async fn an_ended_permit_is_told_and_given_back_once(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "once", 3).await;
    let ending = semaphore.clone().lease(SHORT).acquire_many(2).await.unwrap();
    counts_become(&semaphore, (3, 0, 3)).await;
    let told = ending.unlock().await;
    assert!(matches!(told, Err(Error::Lost(_) | Error::NotHeld)), "{told:?}");
    // Whatever clean-up does behind it, there are never more than were set.
    let kept = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(counts(&semaphore).await, (0, 3, 3));
    assert_eq!(kept.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(counts(&semaphore).await, (3, 0, 3));
}

async fn renewed_permits_outlive_their_lease_and_extended_ones_too(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "renewed", 3).await;
    let renewed = semaphore.clone().lease(Lease::renewed(Duration::from_millis(300)));
    let renewed = renewed.acquire_many(2).await.unwrap();
    let extended = semaphore
        .clone()
        .lease(Lease::fixed(Duration::from_millis(300)))
        .acquire()
        .await
        .unwrap();
    extended.extend(Duration::from_secs(60)).await.unwrap();
    assert!(extended.remaining() > Duration::from_secs(50));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_ne!(renewed.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert_eq!(counts(&semaphore).await, (0, 3, 3));
    assert_eq!(renewed.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(extended.unlock().await, Ok(Unlocked::Freed));
}

async fn no_more_are_held_than_there_are(stage: Stage) {
    const PERMITS: u32 = 4;
    let keepers = [stage.keeper().await, stage.keeper().await];
    let semaphore = with_permits(&keepers[0], "limit", PERMITS).await;
    let inside = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..16_u32)
        .map(|number| {
            let semaphore = keepers[number as usize % 2].semaphore("limit");
            let inside = Arc::clone(&inside);
            tokio::spawn(async move {
                for round in 0..10 {
                    let wanted = 1 + (number + round) % 3;
                    let permit = semaphore.acquire_many(wanted).await.unwrap();
                    let now = inside.fetch_add(wanted.into(), Ordering::SeqCst) + i64::from(wanted);
                    assert!(now <= i64::from(PERMITS), "{now} at once");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(wanted.into(), Ordering::SeqCst);
                    permit.unlock().await.unwrap();
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
    assert_eq!(counts(&semaphore).await, (4, 0, 4));
}

async fn one_permit_loses_no_update(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await];
    drop(with_permits(&keepers[0], "counter", 1).await);
    let counter = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let semaphore = keepers[number % 2].semaphore("counter");
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                for _ in 0..10 {
                    let permit = semaphore.acquire().await.unwrap();
                    // Read, and written after others had their chance.
                    let read = counter.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    counter.store(read + 1, Ordering::SeqCst);
                    permit.unlock().await.unwrap();
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
    assert_eq!(counter.load(Ordering::SeqCst), 200);
}

async fn draining_takes_what_is_available(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.semaphore("drained");
    assert_eq!(semaphore.drain_permits().await, Ok(0));
    semaphore.try_set_permits(10).await.unwrap();
    let permit = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(semaphore.drain_permits().await, Ok(7));
    assert_eq!(semaphore.drain_permits().await, Ok(0));
    assert_eq!(counts(&semaphore).await, (0, 3, 3));
    assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(counts(&semaphore).await, (3, 0, 3));
    semaphore.add_permits(-5).await.unwrap();
    assert_eq!(
        semaphore.drain_permits().await,
        Ok(0),
        "less than none is left as it is"
    );
    assert_eq!(counts(&semaphore).await, (-2, 0, -2));
}

async fn a_removed_semaphore_costs_its_holders_their_permits(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "removed", 3).await;
    let lease = Lease::renewed(Duration::from_millis(600));
    let renewed = semaphore.clone().lease(lease).acquire().await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    assert_eq!(semaphore.remove().await, Ok(true));
    assert_eq!(semaphore.remove().await, Ok(false));
    assert_eq!(soon("the loss", renewed.lost()).await, LossReason::GoneOnServer);
    assert_eq!(held.unlock().await, Err(Error::NotHeld));
    drop(renewed);
    // What is given back to a semaphore that is not there makes none.
    assert_eq!(counts(&semaphore).await, (0, 0, 0));
    assert_eq!(semaphore.try_set_permits(2).await, Ok(true));
    assert_eq!(counts(&semaphore).await, (2, 0, 2));
}

async fn a_semaphore_with_a_life_leaves_nothing(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = keeper.semaphore("brief");
    let life = Duration::from_millis(400);
    assert_eq!(semaphore.try_set_permits_for(2, life).await, Ok(true));
    assert_eq!(semaphore.try_set_permits_for(2, life).await, Ok(false));
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(counts(&semaphore).await, (1, 1, 2));
    counts_become(&semaphore, (0, 0, 0)).await;
    assert_eq!(permit.unlock().await, Err(Error::NotHeld));
    assert_eq!(keeper.inspect("brief").await.unwrap().kind, None);
}

async fn a_dropped_wait_leaves_nothing(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let semaphore = with_permits(&first, "dropped", 1).await;
    let other = second.semaphore("dropped");
    for polls in 0..12 {
        let permit = semaphore.acquire().await.unwrap();
        let mut wait = Box::pin(other.acquire());
        for _ in 0..polls {
            assert!(futures_pending(&mut wait).await, "it is held");
            tokio::task::yield_now().await;
        }
        // The grant may be on its way when its caller goes.
        permit.unlock().await.unwrap();
        drop(wait);
        counts_become(&semaphore, (1, 0, 1)).await;
    }
}

async fn a_name_of_another_kind_is_refused(stage: Stage) {
    let keeper = stage.keeper().await;
    let guard = keeper.mutex("other").lock().await.unwrap();
    let semaphore = keeper.semaphore("other");
    for refused in [
        semaphore.acquire().await.map(drop),
        semaphore.try_acquire().await.map(drop),
        semaphore.try_set_permits(1).await.map(drop),
        semaphore.set_permits(1).await,
        semaphore.add_permits(1).await,
        semaphore.drain_permits().await.map(drop),
        semaphore.permits().await.map(drop),
        semaphore.remove().await.map(drop),
    ] {
        assert!(
            matches!(&refused, Err(Error::WrongKind { wanted: "semaphore", found, .. }) if found == "hash"),
            "{refused:?}"
        );
    }
    guard.unlock().await.expect("the lock is as it was");
    let semaphore = with_permits(&keeper, "other", 2).await;
    let permit = semaphore.acquire().await.unwrap();
    for refused in [
        keeper.mutex("other").try_lock().await.map(drop),
        keeper.counting_semaphore("other").try_acquire(1).await,
        keeper.counting_semaphore("other").release(1).await,
    ] {
        assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    }
    assert_eq!(counts(&semaphore).await, (1, 1, 2));
    assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
}

async fn closing_gives_permits_back(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let semaphore = with_permits(&second, "closing", 3).await;
    let permit = first.semaphore("closing").acquire_many(2).await.unwrap();
    let report = first.close().await;
    assert_eq!((report.freed.len(), report.unconfirmed.len()), (1, 0));
    assert!(matches!(permit.state(), HoldState::Lost(LossReason::KeeperClosed)));
    assert_eq!(counts(&semaphore).await, (3, 0, 3));
}

async fn inspection_tells_permits_and_holders(stage: Stage) {
    let keeper = stage.keeper().await;
    let semaphore = with_permits(&keeper, "told", 5).await;
    let found = keeper.inspect("told").await.unwrap();
    assert_eq!((found.kind.as_deref(), found.is_held()), (Some("permits"), false));
    let permit = semaphore.acquire_many(2).await.unwrap();
    let found = keeper.inspect("told").await.unwrap();
    assert_eq!(found.kind.as_deref(), Some("permits"));
    assert_eq!((found.counts["available"], found.counts["acquired"]), (3, 2));
    let holders: BTreeSet<_> = found.holders.iter().map(|holder| holder.owner.as_str()).collect();
    assert_eq!(holders, permit.ids().collect());
    for holder in &found.holders {
        let left = holder.time_left.expect("a lease");
        assert!(
            left <= Duration::from_secs(30) && left > Duration::from_secs(20),
            "{left:?}"
        );
    }
    drop(permit);
}

async fn threads_take_permits(stage: Stage) {
    let keeper = blocking::Keeper::from(stage.keeper().await);
    let done = tokio::task::spawn_blocking(move || {
        let semaphore = keeper.semaphore("threads").lease(Lease::default());
        assert_eq!(semaphore.try_set_permits(2), Ok(true));
        let (one, two) = (semaphore.acquire().unwrap(), semaphore.try_acquire_many(1).unwrap());
        assert!(matches!(semaphore.try_acquire(), Err(Error::Busy { .. })));
        let short = semaphore.clone().wait(Duration::from_millis(50));
        assert!(matches!(short.acquire_many(2), Err(Error::TimedOut { .. })));
        assert_eq!((one.permits(), one.ids().count(), one.name()), (1, 1, "threads"));
        one.extend(Duration::from_secs(60)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.acquire().unwrap().unlock());
            // A permit may be given up by another thread.
            scope.spawn(move || two.unlock().unwrap());
            assert_eq!(waiting.join().unwrap(), Ok(Unlocked::Freed));
        });
        assert_eq!(one.unlock(), Ok(Unlocked::Freed));
        semaphore.add_permits(3).unwrap();
        semaphore.set_permits(4).unwrap();
        assert_eq!(
            (
                semaphore.permits(),
                semaphore.available_permits(),
                semaphore.acquired_permits()
            ),
            (Ok(4), Ok(4), Ok(0))
        );
        assert_eq!((semaphore.drain_permits(), semaphore.remove()), (Ok(4), Ok(true)));
    });
    soon("the threads", done).await.unwrap();
}
