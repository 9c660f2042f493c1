//! Semaphores and latches between failing networks and dying holders.

use std::time::{Duration, Instant};

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Error, HoldState, Keeper, LatchEnd, Layout, Lease, LossReason, Semaphore, Unlocked};
use lockkeeper_testkit::{Matcher, RedisServer, wait_until};
use redis::cmd;

use super::bed::{Bed, SOON, acquires, releases, soon};

/// What is free and what is held, together always what was set.
async fn counts(semaphore: &Semaphore) -> (i64, i64) {
    let available = semaphore.available_permits().await.unwrap();
    (available, semaphore.acquired_permits().await.unwrap())
}

async fn counts_become(semaphore: &Semaphore, wanted: (i64, i64)) {
    wait_until("the counts", SOON, async || {
        let found = counts(semaphore).await;
        if found == wanted { Ok(()) } else { Err(found) }
    })
    .await;
}

fn bed() -> Bed {
    Bed::new(Layout::Redisson)
}

/// B02: many names under load, of both kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acquire_waits_out_its_limit_while_permits_are_free() {
    const NAMES: usize = 100;
    let bed = bed();
    let keepers = [bed.direct().await, bed.direct().await];
    for name in 0..NAMES {
        keepers[0]
            .semaphore(format!("leased {name}"))
            .try_set_permits(1)
            .await
            .unwrap();
        keepers[0]
            .counting_semaphore(format!("plain {name}"))
            .try_set_permits(1)
            .await
            .unwrap();
    }
    let workers: Vec<_> = (0..50)
        .map(|worker| {
            let keeper = keepers[worker % 2].clone();
            tokio::spawn(async move {
                for round in 0..12 {
                    // A few names are hot, so that there is something to wait for.
                    let name = (worker * 7 + round * 13) % if round % 3 == 0 { NAMES } else { 5 };
                    let limit = Duration::from_secs(30);
                    if (worker + round) % 2 == 0 {
                        let permit = keeper.semaphore(format!("leased {name}")).wait(limit).acquire().await?;
                        tokio::task::yield_now().await;
                        permit.unlock().await?;
                    } else {
                        let semaphore = keeper.counting_semaphore(format!("plain {name}")).wait(limit);
                        semaphore.acquire(1).await?;
                        tokio::task::yield_now().await;
                        semaphore.release(1).await?;
                    }
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for worker in workers {
        let ended = tokio::time::timeout(6 * SOON, worker).await.expect("nobody hangs");
        assert_eq!(ended.unwrap(), Ok(()));
    }
    for name in 0..NAMES {
        assert_eq!(counts(&keepers[1].semaphore(format!("leased {name}"))).await, (1, 0));
        let plain = keepers[1].counting_semaphore(format!("plain {name}"));
        assert_eq!(plain.available_permits().await, Ok(1));
    }
    bed.nobody_listens().await;
}

/// B02: the message of a release comes when the waiter has long gone to sleep again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_late_wakes_all_the_same() {
    let bed = bed();
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let semaphore = holder.semaphore("late");
    semaphore.try_set_permits(1).await.unwrap();
    let plain = holder.counting_semaphore("late too");
    plain.try_set_permits(1).await.unwrap();
    let permit = semaphore.acquire().await.unwrap();
    plain.acquire(1).await.unwrap();
    let (leased, counted) = (waiter.semaphore("late"), waiter.counting_semaphore("late too"));
    let leased = tokio::spawn(async move { leased.acquire().await });
    let counted = tokio::spawn(async move { counted.acquire(1).await });
    bed.somebody_listens("redisson_sc:{late}").await;
    bed.somebody_listens("redisson_sc:{late too}").await;
    let slow = bed
        .proxy
        .on(Matcher::subscribers())
        .delay_replies(Duration::from_millis(300));
    permit.unlock().await.unwrap();
    plain.release(1).await.unwrap();
    drop(soon("the released permit", leased).await.unwrap().unwrap());
    soon("the released number", counted).await.unwrap().unwrap();
    slow.remove();
}

/// B26: zero wait is one full attempt, however slow the line is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zero_wait_succeeds_on_a_slow_line() {
    let bed = bed();
    let keeper = bed.behind_proxy().await;
    keeper.semaphore("leased").try_set_permits(1).await.unwrap();
    keeper.counting_semaphore("plain").try_set_permits(1).await.unwrap();
    let slow = bed
        .proxy
        .on(Matcher::scripts())
        .delay_replies(Duration::from_millis(20));
    let zero = Duration::ZERO;
    let permit = keeper.semaphore("leased").wait(zero).acquire().await.unwrap();
    keeper.counting_semaphore("plain").wait(zero).acquire(1).await.unwrap();
    assert_eq!(keeper.latch("open").wait_timeout(zero).await, Ok(LatchEnd::Open));
    assert!(slow.times_fired() >= 3);
    let refused = keeper.semaphore("leased").wait(zero).acquire().await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
}

/// B68: the connection breaks when the server has recorded the permit and before it has said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_costs_no_permit() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let (leased, plain) = (other.semaphore("lost"), other.counting_semaphore("lost too"));
    leased.try_set_permits(2).await.unwrap();
    plain.try_set_permits(2).await.unwrap();
    for _ in 0..10 {
        let lost = bed.proxy.on(acquires("lost")).times(2).swallow_reply_then_reset();
        // The call sends it again under the same ids, and is told what the first copy got.
        let permit = soon("the permit", keeper.semaphore("lost").acquire_many(2))
            .await
            .unwrap();
        soon("the number", keeper.counting_semaphore("lost too").acquire(2))
            .await
            .unwrap();
        assert!(lost.times_fired() >= 1);
        lost.remove();
        assert_eq!(counts(&leased).await, (0, 2));
        assert_eq!(plain.available_permits().await, Ok(0));
        assert_eq!(permit.unlock().await, Ok(Unlocked::Freed));
        plain.release(2).await.unwrap();
        assert_eq!(counts(&leased).await, (2, 0));
    }
}

/// B68: the caller goes away while the server has granted already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_acquire_gives_its_permits_back() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let (leased, plain) = (other.semaphore("gone"), other.counting_semaphore("gone too"));
    leased.try_set_permits(2).await.unwrap();
    plain.try_set_permits(2).await.unwrap();
    // The scripts are known to the server from here on.
    leased.acquire().await.unwrap().unlock().await.unwrap();
    plain.acquire(1).await.unwrap();
    plain.release(1).await.unwrap();
    let held_back = bed.proxy.on(acquires("gone")).hold_replies();
    let calls = [
        tokio::spawn({
            let semaphore = keeper.semaphore("gone");
            async move { semaphore.acquire_many(2).await.map(drop) }
        }),
        tokio::spawn({
            let semaphore = keeper.counting_semaphore("gone too");
            async move { semaphore.acquire(2).await }
        }),
    ];
    counts_become(&leased, (0, 2)).await;
    wait_until("the grant", SOON, async || plain.available_permits().await == Ok(0)).await;
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    counts_become(&leased, (2, 0)).await;
    wait_until("what was taken", SOON, async || {
        plain.available_permits().await == Ok(2)
    })
    .await;
    held_back.release();
    drop(soon("both", leased.acquire_many(2)).await.unwrap());
}

/// H30: every script runs twice, with the effect of once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_has_one_effect() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let _twice = bed.proxy.on(Matcher::scripts()).repeat_request();
    let leased = keeper.semaphore("twice");
    leased.try_set_permits(3).await.unwrap();
    leased.add_permits(2).await.unwrap();
    let permit = leased.acquire_many(2).await.unwrap();
    assert_eq!(counts(&other.semaphore("twice")).await, (3, 2));
    permit.unlock().await.unwrap();
    assert_eq!(counts(&other.semaphore("twice")).await, (5, 0));
    let plain = keeper.counting_semaphore("twice too");
    plain.try_set_permits(5).await.unwrap();
    plain.acquire(3).await.unwrap();
    plain.release(1).await.unwrap();
    assert_eq!(other.counting_semaphore("twice too").available_permits().await, Ok(3));
    let latch = keeper.latch("twice latch");
    latch.try_set_count(3).await.unwrap();
    assert_eq!(latch.count_down().await, Ok(2));
    assert_eq!(other.latch("twice latch").count().await, Ok(2));
}

/// A count-down whose answer is lost counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_counts_down_once() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    other.latch("lost").try_set_count(30).await.unwrap();
    for left in (20..30).rev() {
        let lost = bed
            .proxy
            .on(Matcher::scripts().containing("lost"))
            .times(1)
            .swallow_reply_then_reset();
        assert_eq!(soon("the count", keeper.latch("lost").count_down()).await, Ok(left));
        lost.fired().await;
        assert_eq!(other.latch("lost").count().await, Ok(left));
    }
}

/// B70: holders that died give nothing back, and their permits are available when their lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_the_dead_come_back_within_a_lease() {
    let bed = bed();
    let other = bed.direct().await;
    let semaphore = other.semaphore("dead");
    semaphore.try_set_permits(3).await.unwrap();
    let lease = Lease::renewed(Duration::from_millis(1500));
    let mut permits = Vec::new();
    for _ in 0..3 {
        let keeper = bed.behind_proxy().await;
        permits.push(keeper.semaphore("dead").lease(lease).acquire().await.unwrap());
    }
    assert_eq!(counts(&semaphore).await, (0, 3));
    let hole = bed.proxy.on(Matcher::any()).black_hole();
    let died = Instant::now();
    let all = soon("all permits", semaphore.acquire_many(3)).await.unwrap();
    assert!(
        died.elapsed() <= Duration::from_millis(1500 + 500),
        "{:?}",
        died.elapsed()
    );
    for permit in &permits {
        assert_eq!(
            permit.state(),
            HoldState::Lost(LossReason::DeadlinePassed),
            "each knew before"
        );
    }
    // What the dead have to say when they are heard again changes nothing.
    hole.remove();
    bed.proxy.reset_all();
    drop(permits);
    wait_until("their releases", SOON, async || {
        bed.proxy
            .log()
            .iter()
            .filter(|request| crate::scripts::is_release(request) && request.contains("dead"))
            .count()
            >= 3
    })
    .await;
    assert_eq!(counts(&semaphore).await, (0, 3));
    assert_eq!(all.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(counts(&semaphore).await, (3, 0));
}

/// A release whose answer is lost is repeated, and gives back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_release_gives_back_once() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let semaphore = other.semaphore("release");
    semaphore.try_set_permits(2).await.unwrap();
    for cut in [true, false] {
        let permit = keeper.semaphore("release").acquire_many(2).await.unwrap();
        let faults = bed.proxy.on(releases("release")).times(1);
        let lost = if cut {
            faults.cut_after_request()
        } else {
            faults.swallow_reply_then_reset()
        };
        let told = soon("the release", permit.unlock()).await;
        assert!(
            matches!(told, Ok(Unlocked::Freed) | Err(Error::OutcomeUnknown { .. })),
            "{told:?}"
        );
        lost.fired().await;
        counts_become(&semaphore, (2, 0)).await;
    }
}

/// A user who may not subscribe, as one whose messages are all lost.
async fn deaf(bed: &Bed) -> Keeper {
    let config = RedisConfig::from_url(&format!("redis://deaf:x@{}/", bed.server.address())).unwrap();
    Keeper::builder().connect_with(config).await.unwrap()
}

fn bed_for_the_deaf() -> Bed {
    let user = "on nopass ~* resetchannels +@all";
    Bed::on(RedisServer::builder().user("deaf", user).start(), Layout::Redisson)
}

/// Whoever heard no message still learns how a latch of ours ended, one re-check later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_costs_one_look_and_no_truth() {
    let bed = bed_for_the_deaf();
    let (waiter, other) = (deaf(&bed).await, bed.direct().await);
    for (ended, name) in [
        (LatchEnd::Open, "opened"),
        (LatchEnd::Removed, "removed"),
        (LatchEnd::Vanished, "vanished"),
    ] {
        let there = other.latch(name);
        there.try_set_count(1).await.unwrap();
        let before = waiter.round_trips();
        let latch = waiter.latch(name);
        let waiting = tokio::spawn(async move { latch.wait().await });
        wait_until("two looks", SOON, async || waiter.round_trips() >= before + 4).await;
        match ended {
            LatchEnd::Open => drop(there.count_down().await.unwrap()),
            LatchEnd::Removed => drop(there.remove().await.unwrap()),
            _ => {
                let _: u64 = bed.ask(cmd("DEL").arg(name)).await;
            }
        }
        assert_eq!(soon("the end", waiting).await.unwrap(), Ok(ended), "{name}");
    }
}

/// A peer's latch ends with a message and leaves no record of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peers_messages_tell_how_its_latch_ended() {
    let bed = bed();
    let keeper = bed.direct().await;
    for (ended, message) in [(LatchEnd::Open, "0"), (LatchEnd::Removed, "1")] {
        let _: () = bed.ask(cmd("SET").arg("java").arg(1)).await;
        let latch = keeper.latch("java");
        let waiting = tokio::spawn(async move { latch.wait().await });
        bed.somebody_listens("redisson_countdownlatch__channel__{java}").await;
        let before = keeper.round_trips();
        // A count that is set again says nothing of its end.
        let told: u64 = bed
            .ask(cmd("PUBLISH").arg("redisson_countdownlatch__channel__{java}").arg("1"))
            .await;
        assert_eq!(told, 1);
        wait_until("another look", SOON, async || keeper.round_trips() > before).await;
        let mut ending = redis::pipe();
        ending
            .atomic()
            .del("java")
            .publish("redisson_countdownlatch__channel__{java}", message);
        let mut connection = bed.server.connection().await;
        let _: () = ending.query_async(&mut connection).await.unwrap();
        assert_eq!(soon("the end", waiting).await.unwrap(), Ok(ended));
    }
    bed.nobody_listens().await;
}

/// H47: a latch that opens while nobody can be told is found open with the next subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_that_opened_in_the_dark_is_seen_after_reconnecting() {
    let bed = bed();
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    other.latch("dark").try_set_count(1).await.unwrap();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let latch = keeper.latch("dark");
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    bed.somebody_listens("dark").await;
    bed.proxy.refuse_connections();
    assert_eq!(bed.proxy.reset(&Matcher::subscribers()), 1);
    bed.nobody_listens().await;
    other.latch("dark").count_down().await.unwrap();
    bed.proxy.accept_connections();
    for wait in waits {
        assert_eq!(soon("the end", wait).await.unwrap(), Ok(LatchEnd::Open));
    }
}

/// B72: names that are used once leave nothing that stays, where they were given a life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_used_once_leave_only_keys_that_end() {
    let bed = bed();
    let keeper = bed.direct().await;
    let lease = Lease::fixed(Duration::from_millis(100));
    let mut kept = Vec::new();
    for name in 0..200 {
        let semaphore = keeper.semaphore(format!("once {name}")).lease(lease);
        semaphore
            .try_set_permits_for(2, Duration::from_millis(800))
            .await
            .unwrap();
        // Never given back, as by a process that died.
        kept.push(semaphore.acquire().await.unwrap());
        let latch = keeper.latch(format!("latch {name}"));
        latch.try_set_count(1).await.unwrap();
        latch.count_down().await.unwrap();
    }
    bed.every_key_ends().await;
    wait_until("the end of all semaphores", SOON, async || {
        let keys = bed.server.keys().await;
        let left: Vec<_> = keys
            .into_iter()
            .filter(|key| key.contains("once ") && !key.contains("answer"))
            .collect();
        if left.is_empty() { Ok(()) } else { Err(left.len()) }
    })
    .await;
    drop(kept);
}
