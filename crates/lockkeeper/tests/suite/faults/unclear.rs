//! Requests whose outcome is unknown: lost, slow and repeated replies, callers that went away, servers that stood still.

use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockkeeper::{Effect, Error, HoldState, Keeper, Layout, Lease, Mutex, Unlocked};
use lockkeeper_testkit::{Matcher, Proxy, wait_until};

use super::bed::{Bed, SOON, acquires, assert_unreachable, locking, releases, renewals, soon, token_key, traffic};
use super::in_both_layouts;

in_both_layouts!(
    a_cancelled_acquire_is_given_back_and_not_renewed,
    a_slow_reply_leaves_one_hold,
    an_acquire_answered_too_late_is_given_back,
    a_frozen_server_grants_nothing_afterwards,
    a_frozen_server_grants_nothing_to_the_dead,
    a_lost_reply_costs_no_token,
    an_acquire_that_runs_late_is_refused,
    an_acquire_that_arrives_after_its_own_release_is_undone,
    a_lost_reply_of_a_release_is_no_theft,
    a_lost_release_is_repeated,
    a_repeated_request_has_one_effect,
    a_cut_request_has_one_effect,
    dropped_calls_never_mix_replies_up,
    a_reply_slower_than_the_drivers_default_is_awaited,
    a_renewal_without_answer_is_repeated_and_never_takes_again,
);

/// B40: the grant comes to a caller that has gone.
async fn a_cancelled_acquire_is_given_back_and_not_renewed(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let held_back = bed.proxy.on(acquires("cancelled")).hold_replies();
    let lease = Lease::renewed(Duration::from_millis(600));
    let call = locking(&bed.mutex(&keeper, "cancelled").lease(lease));
    held_back.fired().await;
    assert!(bed.is_locked("cancelled").await, "granted, and nobody knows");
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // The way back does not wait for the reply, nor for the lease.
    let gone = Instant::now();
    wait_until("the grant given back", Duration::from_millis(500), async || {
        !bed.is_locked("cancelled").await
    })
    .await;
    held_back.release();
    let guard = soon("the lock", bed.mutex(&other, "cancelled").lock()).await.unwrap();
    soon(
        "three renewal periods",
        tokio::time::sleep_until((gone + Duration::from_millis(700)).into()),
    )
    .await;
    assert_eq!(traffic(&bed.proxy, "cancelled").renewals, 0);
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    bed.nothing_is_left_of("cancelled").await;
}

/// B42: the acquire is sent again, and the second copy finds the first one's hold.
async fn a_slow_reply_leaves_one_hold(layout: Layout) {
    let bed = Bed::recorded(layout);
    let limit = Duration::from_millis(250);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let slow = bed.proxy.on(acquires("slow")).times(1).delay_replies(limit * 2);
    let mutex = bed.mutex(&keeper, "slow").wait(SOON);
    let guard = soon("the lock", mutex.lock()).await.unwrap();
    slow.fired().await;
    assert!(traffic(&bed.proxy, "slow").acquires >= 2, "sent again");
    let other = bed.direct().await;
    let seen = other.inspect("slow").await.unwrap();
    assert_eq!((seen.holders.len(), seen.holders[0].holds), (1, 1));
    assert_eq!(seen.holders[0].owner, guard.owner());
    assert_eq!(seen.token, Some(guard.token()), "the repeat was given no other token");
    assert_eq!(bed.grants("slow"), 1);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    drop(
        soon("the lock after one unlock", bed.mutex(&other, "slow").try_lock())
            .await
            .unwrap(),
    );
}

/// B44: the reply comes after the response limit, to a caller that was told so.
async fn an_acquire_answered_too_late_is_given_back(layout: Layout) {
    let bed = Bed::new(layout);
    let limit = Duration::from_millis(100);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let other = bed.direct().await;
    let slow = bed.proxy.on(acquires("late")).delay_replies(limit * 3);
    let lease = Lease::fixed(Duration::from_secs(60));
    let error = bed.mutex(&keeper, "late").lease(lease).try_lock().await.unwrap_err();
    assert_unreachable(&error);
    assert_eq!(error.effect(), Effect::Possible);
    slow.fired().await;
    let mutex = bed.mutex(&other, "late").wait(Duration::from_secs(1));
    let guard = mutex.lock().await.expect("long before the lease ends");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    bed.nothing_is_left_of("late").await;
}

/// H08: what piled up in a frozen server runs when nobody wants it any more.
async fn a_frozen_server_grants_nothing_afterwards(layout: Layout) {
    let bed = Bed::recorded(layout);
    let limit = Duration::from_millis(200);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    bed.server.freeze();
    let refused = bed.mutex(&keeper, "frozen").try_lock().await;
    let error = refused.unwrap_err();
    bed.server.thaw();
    assert_unreachable(&error);
    assert_eq!(error.effect(), Effect::Possible);
    bed.nothing_is_left_of("frozen").await;
    let guard = soon(
        "the lock, on the same keeper",
        bed.mutex(&keeper, "frozen").wait(SOON).lock(),
    )
    .await;
    assert_eq!(guard.unwrap().unlock().await, Ok(Unlocked::Freed));
}

/// H08, with a client that died: nobody is left to clean up, so the request itself must know that it is stale.
async fn a_frozen_server_grants_nothing_to_the_dead(layout: Layout) {
    let bed = Bed::recorded(layout);
    let limit = Duration::from_millis(200);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let ran = bed.server.calls("evalsha").await;
    // What would clean up gets no further than the proxy.
    let buried = bed.proxy.on(releases("dead")).black_hole();
    bed.server.freeze();
    let error = bed.mutex(&keeper, "dead").try_lock().await.unwrap_err();
    assert_unreachable(&error);
    buried.fired().await;
    // Well after the use-by: the keeper knows the server's time only as well as a busy machine lets it.
    tokio::time::sleep(limit).await;
    bed.server.thaw();
    wait_until("the late run", SOON, async || bed.server.calls("evalsha").await > ran).await;
    assert_eq!(bed.grants("dead"), 0);
    assert!(!bed.is_locked("dead").await);
}

/// H26: the reply is lost with its connection; the same owner asks again and is told the same.
async fn a_lost_reply_costs_no_token(layout: Layout) {
    let bed = Bed::recorded(layout);
    let keeper = bed.behind_proxy().await;
    let lost = bed.proxy.on(acquires("lost")).swallow_reply_then_reset();
    let asked = Instant::now();
    let guard = soon("the lock", bed.mutex(&keeper, "lost").lock()).await.unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "no lease had to end: {:?}",
        asked.elapsed()
    );
    lost.fired().await;
    assert_eq!(bed.grants("lost"), 1);
    assert_eq!(bed.writes(&token_key("lost"), "SET"), 1, "one token");
    let seen = keeper.inspect("lost").await.unwrap();
    assert_eq!((seen.token, seen.holders[0].holds), (Some(guard.token()), 1));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    bed.nothing_is_left_of("lost").await;
}

/// H26b: the first copy is stuck on an old connection until everything is over.
async fn an_acquire_that_runs_late_is_refused(layout: Layout) {
    let bed = Bed::recorded(layout);
    let limit = Duration::from_millis(150);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let stuck = bed.proxy.on(acquires("stuck")).nth(1).hold_requests();
    let guard = soon("the lock", bed.mutex(&keeper, "stuck").wait(SOON).lock())
        .await
        .unwrap();
    stuck.fired().await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    soon("all clean-up", keeper.close()).await;
    let ran = bed.server.calls("evalsha").await;
    stuck.release();
    wait_until("the late copy", SOON, async || bed.server.calls("evalsha").await > ran).await;
    assert_eq!(bed.grants("stuck"), 1, "only the copy that was answered");
    assert!(!bed.is_locked("stuck").await);
}

/// H26b within the use-by: the connection broke, the repeat was granted and freed, and only then the first copy arrives,
/// still fresh. Its owner text must not be closed before that is over.
async fn an_acquire_that_arrives_after_its_own_release_is_undone(layout: Layout) {
    let bed = Bed::recorded(layout);
    // Two parts of the way: the near one breaks, the far one is slow.
    let near = Proxy::start(bed.proxy.address());
    let keeper = Keeper::connect(&near.url()).await.unwrap();
    drop(bed.mutex(&keeper, "warm-up").lock().await.unwrap());
    let slow = bed.proxy.on(acquires("fresh")).nth(1).hold_requests();
    let cut = near.on(acquires("fresh")).cut_after_request();
    let lease = Lease::fixed(Duration::from_secs(60));
    let guard = soon("the lock", bed.mutex(&keeper, "fresh").lease(lease).lock())
        .await
        .unwrap();
    cut.fired().await;
    slow.fired().await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    slow.release();
    wait_until("the late copy", SOON, async || bed.grants("fresh") == 2).await;
    // At the latest when no copy can come any more, which is two seconds from its sending.
    wait_until("the orphan given back", Duration::from_secs(4), async || {
        !bed.is_locked("fresh").await
    })
    .await;
    soon("all clean-up", keeper.close()).await;
}

/// H27: the first copy freed the lock, and the second one finds nothing. That is no proof of a theft.
async fn a_lost_reply_of_a_release_is_no_theft(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let guard = bed.mutex(&keeper, "theft").lock().await.unwrap();
    let lost = bed.proxy.on(releases("theft")).swallow_reply_then_reset();
    let outcome = soon("the release", guard.unlock()).await;
    lost.fired().await;
    assert!(matches!(outcome, Err(Error::OutcomeUnknown { .. })), "{outcome:?}");
    let guard = soon("the freed lock", bed.mutex(&other, "theft").try_lock())
        .await
        .unwrap();
    soon("all clean-up", keeper.close()).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed), "no late copy freed it");
    bed.nothing_is_left_of("theft").await;
}

/// H27, the other way round: the release never arrived, and its repeat says so with certainty.
async fn a_lost_release_is_repeated(layout: Layout) {
    let bed = Bed::new(layout);
    let limit = Duration::from_millis(200);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let guard = bed.mutex(&keeper, "swallowed").lock().await.unwrap();
    let hole = bed.proxy.on(releases("swallowed")).nth(1).black_hole();
    let outcome = soon("the release", guard.unlock()).await;
    hole.fired().await;
    assert_eq!(outcome, Ok(Unlocked::Freed));
    bed.nothing_is_left_of("swallowed").await;
}

/// H30: something on the way sends requests twice.
async fn a_repeated_request_has_one_effect(layout: Layout) {
    let bed = Bed::recorded(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let ran = bed.server.calls("evalsha").await;
    let twice = bed
        .proxy
        .on(Matcher::scripts().containing("twice"))
        .times(1_000)
        .repeat_request();
    let mutex = bed.mutex(&keeper, "twice");
    for round in 1..=5 {
        let guard = soon("the lock", mutex.lock()).await.unwrap();
        assert_eq!(bed.grants("twice"), round);
        assert_eq!(bed.writes(&token_key("twice"), "SET"), round);
        assert_eq!(keeper.inspect("twice").await.unwrap().holders[0].holds, 1);
        guard.extend(Duration::from_secs(40)).await.unwrap();
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        assert!(!bed.is_locked("twice").await);
    }
    assert!(bed.server.calls("evalsha").await - ran >= 40 && twice.times_fired() >= 20);
    drop(soon("the lock", bed.mutex(&other, "twice").try_lock()).await.unwrap());
}

/// H28: the connection breaks right behind each request, which the server gets all the same.
async fn a_cut_request_has_one_effect(layout: Layout) {
    let bed = Bed::recorded(layout);
    let keeper = bed.behind_proxy().await;
    let mut token = None;
    for round in 1..=5 {
        let cut = bed.proxy.on(acquires("cut")).cut_after_request();
        let guard = soon("the lock", bed.mutex(&keeper, "cut").lock()).await.unwrap();
        cut.fired().await;
        assert_eq!(bed.grants("cut"), round);
        assert!(token < Some(guard.token()));
        token = Some(guard.token());
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        soon("all that is left of it", async {
            bed.nothing_is_left_of("cut").await;
        })
        .await;
    }
}

/// Polls a future so many times at most; it is dropped with its answer missing if that was not enough.
async fn polled<F: Future + Unpin>(mut future: F, polls: u32) -> Option<F::Output> {
    for _ in 0..polls {
        let seen = std::future::poll_fn(|cx| {
            Poll::Ready(match Pin::new(&mut future).poll(cx) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            })
        })
        .await;
        if seen.is_some() {
            return seen;
        }
        tokio::task::yield_now().await;
    }
    None
}

/// H29: calls that are dropped half way must not shift the replies of the others. Every answer is compared with what
/// only its own question can have told.
async fn dropped_calls_never_mix_replies_up(layout: Layout) {
    const TASKS: u64 = 8;
    const ROUNDS: u32 = 60;
    let seed = seed_of_this_run();
    eprintln!("seed {seed}");
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let keeper = keeper.clone();
        let mut draw = Draw(seed ^ (task + 1));
        tasks.spawn(async move {
            let mut compared = 0;
            for round in 0..ROUNDS {
                let name = format!("mixed{task}-{round}");
                let mutex: Mutex = keeper.mutex(&name).layout(layout);
                drop(polled(Box::pin(mutex.try_lock()), draw.below(6)).await);
                drop(polled(Box::pin(keeper.inspect(&name)), draw.below(6)).await);
                // A dropped attempt may hold it for as long as its clean-up takes.
                let guard = mutex.lock().await.unwrap();
                let seen = keeper.inspect(&name).await.unwrap();
                assert_eq!(seen.holders[0].owner, guard.owner(), "{name}: somebody else's answer");
                // With a block of tokens set aside, the record tells its last one.
                assert!(seen.token >= Some(guard.token()), "{name}: an old answer");
                compared += 1;
                if draw.below(2) == 0 {
                    drop(polled(Box::pin(guard.unlock()), draw.below(4)).await);
                } else {
                    guard.unlock().await.unwrap();
                }
            }
            compared
        });
    }
    let mut compared = 0;
    while let Some(done) = soon("all rounds", tasks.join_next()).await {
        compared += done.unwrap();
    }
    assert_eq!(compared, TASKS * u64::from(ROUNDS));
    let report = soon("all clean-up", keeper.close()).await;
    assert!(report.unconfirmed.is_empty(), "{report:?}");
    wait_until("all locks free", SOON, async || {
        let keys = bed.server.keys().await;
        let left: Vec<_> = keys.into_iter().filter(|key| key.starts_with("mixed")).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    bed.every_key_ends().await;
}

/// A small source of numbers that a seed brings back.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}

fn seed_of_this_run() -> u64 {
    std::env::var("LOCKKEEPER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(lockkeeper_testkit::boot_time_ns)
}

/// H31: the driver's own limit would be half a second.
async fn a_reply_slower_than_the_drivers_default_is_awaited(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let slow = bed
        .proxy
        .on(Matcher::scripts().containing("patient"))
        .delay_replies(Duration::from_millis(700));
    let guard = bed.mutex(&keeper, "patient").try_lock().await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(slow.times_fired(), 2, "neither was sent again");
}

/// A lost renewal is repeated inside the lease; a hold that is gone is not taken again by it.
async fn a_renewal_without_answer_is_repeated_and_never_takes_again(layout: Layout) {
    let bed = Bed::new(layout);
    let limit = Duration::from_millis(150);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let lease = Lease::renewed(Duration::from_millis(1500));
    let guard = bed.mutex(&keeper, "renewed").lease(lease).lock().await.unwrap();
    let lost = bed.proxy.on(renewals("renewed")).swallow_reply_then_reset();
    lost.fired().await;
    let renewed = traffic(&bed.proxy, "renewed").renewals;
    wait_until("the repeat", SOON, async || {
        traffic(&bed.proxy, "renewed").renewals > renewed
    })
    .await;
    wait_until("a hold beyond doubt", SOON, async || {
        guard.state() == HoldState::Held && guard.remaining() > Duration::from_millis(1000)
    })
    .await;
    assert!(bed.ask::<bool>(redis::cmd("DEL").arg("renewed")).await);
    soon("the loss", guard.lost()).await;
    assert!(!bed.is_locked("renewed").await);
    drop(guard);
}
