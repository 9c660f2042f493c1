//! Servers that are dead, frozen, paused or out of reach: every call ends on time, says so, and works again afterwards.

use std::time::{Duration, Instant};

use lockkeeper::{Effect, Error, HoldState, Keeper, Layout, Lease, LossReason, Polling, blocking};
use lockkeeper_testkit::{Matcher, Rule, wait_until};
use redis::cmd;
use tokio::time::sleep;

use super::bed::{Bed, SOON, assert_unreachable, ends_on_time, locking, soon, traffic};
use super::in_both_layouts;

in_both_layouts!(
    waits_end_on_time_with_a_dead_server,
    waits_end_on_time_with_a_frozen_server,
    waits_end_on_time_in_a_black_hole,
    waits_end_on_time_when_refused,
    waits_end_on_time_while_writes_are_paused,
    a_black_hole_without_a_reset_is_found_out,
    polling_ends_on_time_on_a_slow_line,
    a_cancelled_wait_leaves_the_holder_alone,
    each_outcome_has_an_error_of_its_own,
    a_paused_server_costs_the_hold_and_says_so,
    a_sleeping_server_costs_the_hold_and_says_so,
);

/// What is wrong with the server or the way to it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Frozen,
    BlackHole,
    /// The door is shut and every connection was reset.
    Refusing,
    /// Only writes are kept back, and so are our scripts.
    Paused,
}

impl Fault {
    async fn begin(self, bed: &Bed) -> Option<Rule> {
        match self {
            Self::Killed => bed.server.kill(),
            Self::Frozen => bed.server.freeze(),
            Self::BlackHole => return Some(bed.proxy.on(Matcher::any()).black_hole()),
            Self::Refusing => {
                bed.proxy.refuse_connections();
                bed.proxy.reset_all();
            }
            Self::Paused => {
                let () = bed.ask(cmd("CLIENT").arg("PAUSE").arg(20_000).arg("WRITE")).await;
            }
        }
        None
    }

    async fn end(self, bed: &Bed, rule: Option<Rule>) {
        match self {
            Self::Killed => bed.server.restart_empty(),
            Self::Frozen => bed.server.thaw(),
            Self::BlackHole => rule.unwrap().remove(),
            Self::Refusing => bed.proxy.accept_connections(),
            Self::Paused => {
                let () = bed.ask(cmd("CLIENT").arg("UNPAUSE")).await;
            }
        }
    }
}

/// B09, B46b: a call that begins in the fault, one that was waiting when it began, a try, and a polling one. None says
/// that somebody else has the lock, none is late, and the next call works on the same keeper.
async fn waits_end_on_time(layout: Layout, fault: Fault) {
    let budget = Duration::from_millis(900);
    let limit = Duration::from_millis(300);
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let holder = bed.direct().await;
    let held = bed.mutex(&holder, "held").lease(Lease::fixed(Duration::from_secs(60)));
    let guard = held.lock().await.unwrap();
    let mutex = |name: &str| bed.mutex(&keeper, name).wait(budget);
    let started = Instant::now();
    let waiting = locking(&mutex("held"));
    bed.somebody_listens("held").await;
    let rule = fault.begin(&bed).await;
    let polling = Polling::every(Duration::from_millis(40));
    let (free, tried) = (mutex("free"), mutex("tried"));
    let (zero, polled) = (mutex("zero").wait(Duration::ZERO), mutex("polled").polling(polling));
    let (free, tried, zero, polled) = tokio::join!(
        ends_on_time(budget, free.lock()),
        ends_on_time(limit, tried.try_lock()),
        ends_on_time(limit, zero.lock()),
        ends_on_time(budget, polled.lock()),
    );
    for error in [&free, &tried, &zero, &polled] {
        assert_unreachable(error);
    }
    let waited = soon("the wait that was under way", waiting).await.unwrap().map(|_| ());
    let late = Duration::from_millis(1500);
    assert!(
        waited.is_err() && started.elapsed() < budget + late,
        "{waited:?} after {:?}",
        started.elapsed()
    );
    fault.end(&bed, rule).await;
    let mutex = bed.mutex(&keeper, "afterwards").wait(SOON);
    let again = soon("a call after the fault", mutex.lock())
        .await
        .expect("the same keeper works on");
    again.unlock().await.unwrap();
    drop(guard);
    // The proxy keeps the server's ends of a black hole open, with the subscription on one of them.
    bed.proxy.reset_all();
    for name in ["held", "free", "tried", "zero", "polled"] {
        bed.nothing_is_left_of(name).await;
    }
}

async fn waits_end_on_time_with_a_dead_server(layout: Layout) {
    waits_end_on_time(layout, Fault::Killed).await;
}

async fn waits_end_on_time_with_a_frozen_server(layout: Layout) {
    waits_end_on_time(layout, Fault::Frozen).await;
}

async fn waits_end_on_time_in_a_black_hole(layout: Layout) {
    waits_end_on_time(layout, Fault::BlackHole).await;
}

async fn waits_end_on_time_when_refused(layout: Layout) {
    waits_end_on_time(layout, Fault::Refusing).await;
}

async fn waits_end_on_time_while_writes_are_paused(layout: Layout) {
    waits_end_on_time(layout, Fault::Paused).await;
}

/// B09 for threads: no runtime of the caller's is there to keep the time.
#[test]
fn a_blocking_wait_ends_on_time_on_a_frozen_server() {
    let server = lockkeeper_testkit::RedisServer::start();
    let keeper = blocking::Keeper::connect(&server.url()).unwrap();
    drop(keeper.mutex("warm").lock().unwrap());
    server.freeze();
    let budget = Duration::from_millis(700);
    let started = Instant::now();
    let error = keeper.mutex("frozen").wait(budget).lock().map(drop).unwrap_err();
    let took = started.elapsed();
    server.thaw();
    assert_unreachable(&error);
    assert!(took >= budget && took < budget + Duration::from_millis(500), "{took:?}");
    drop(
        keeper
            .mutex("frozen")
            .wait(SOON)
            .lock()
            .expect("the same keeper works on"),
    );
}

/// H44c: half-open connections of every kind. Once the way is free the keeper gets out by itself.
async fn a_black_hole_without_a_reset_is_found_out(layout: Layout) {
    let bed = Bed::new(layout);
    let limit = Duration::from_millis(250);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let lease = Lease::renewed(Duration::from_secs(3));
    let guard = bed.mutex(&keeper, "kept").lease(lease).lock().await.unwrap();
    // Only the connections that are open now: new ones are well.
    let connections = bed.proxy.connections();
    let hole = bed
        .proxy
        .on(Matcher::any().when(move |request| request.connection <= connections))
        .black_hole();
    let call = bed.mutex(&keeper, "found-out").wait(Duration::from_secs(4));
    let found = soon("the lock on a new connection", call.lock())
        .await
        .expect("within its wait");
    hole.fired().await;
    assert!(bed.proxy.connections() > connections);
    // Renewal, on its own connection, finds out in time too.
    wait_until("a renewal on a new connection", SOON, async || {
        let log = bed.proxy.log();
        log.iter()
            .any(|request| request.connection > connections && request.contains("kept"))
    })
    .await;
    soon("a hold beyond doubt", async {
        wait_until("a confirmed renewal", SOON, async || {
            guard.state() == HoldState::Held && guard.remaining() > Duration::from_secs(2)
        })
        .await;
    })
    .await;
    found.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

/// B10: pauses and slow answers are both charged to the budget.
async fn polling_ends_on_time_on_a_slow_line(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let _guard = bed.mutex(&holder, "polled").lock().await.unwrap();
    let slow = bed
        .proxy
        .on(Matcher::scripts())
        .delay_replies(Duration::from_millis(50));
    let budget = Duration::from_millis(700);
    let polling = Polling::every(Duration::from_millis(10)).growing(2.0, Duration::from_secs(1));
    let started = Instant::now();
    let mutex = bed.mutex(&waiter, "polled").polling(polling).wait(budget);
    let error = ends_on_time(budget, mutex.lock()).await;
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    assert!(started.elapsed() >= budget);
    assert!(slow.times_fired() >= 3 && traffic(&bed.proxy, "polled").acquires < 10);
}

/// B46a: a cancelled wait returns nothing that could be taken for a lock, and takes nothing with it.
async fn a_cancelled_wait_leaves_the_holder_alone(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let guard = bed.mutex(&holder, "left").lock().await.unwrap();
    let waiting = locking(&bed.mutex(&waiter, "left"));
    bed.somebody_listens("left").await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    bed.nobody_listens().await;
    assert_eq!(
        bed.mutex(&waiter, "left")
            .try_lock()
            .await
            .map(drop)
            .unwrap_err()
            .effect(),
        Effect::None
    );
    let before = traffic(&bed.proxy, "left").acquires;
    guard.unlock().await.unwrap();
    drop(
        soon("the freed lock", bed.mutex(&holder, "left").try_lock())
            .await
            .expect("nobody else took it"),
    );
    assert_eq!(traffic(&bed.proxy, "left").acquires, before);
}

/// B46b: closing has a limit of its own, and says what it could not do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_in_a_black_hole_ends_on_time_and_is_honest() {
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy().await;
    let guard = bed.mutex(&keeper, "stuck").lock().await.unwrap();
    let _hole = bed.proxy.on(Matcher::any()).black_hole();
    let started = Instant::now();
    let closing = keeper.clone();
    let report = tokio::task::spawn_blocking(move || closing.close_timeout(Duration::from_millis(400)));
    let report = soon("the end of closing", report).await.unwrap().unwrap();
    assert!(
        started.elapsed() < Duration::from_millis(900),
        "{:?}",
        started.elapsed()
    );
    assert_eq!((report.freed.len(), report.unconfirmed), (0, vec!["stuck".to_owned()]));
    assert_eq!(guard.state(), HoldState::Lost(LossReason::KeeperClosed));
}

/// B58: busy, unreachable, lost and never held are four things, for each of the calls.
async fn each_outcome_has_an_error_of_its_own(layout: Layout) {
    let bed = Bed::new(layout);
    let limit = Duration::from_millis(200);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(limit)).await;
    let other = bed.direct().await;
    let held = bed.mutex(&other, "typed").lock().await.unwrap();
    let wait = Duration::from_millis(400);
    let mutex = bed.mutex(&keeper, "typed").wait(wait);
    assert!(matches!(
        mutex.try_lock().await,
        Err(Error::Busy { time_left: Some(_), .. })
    ));
    assert!(matches!(mutex.lock().await, Err(Error::TimedOut { .. })));

    let lease = Lease::fixed(Duration::from_millis(1500));
    let ours = bed.mutex(&keeper, "ours").lease(lease).lock().await.unwrap();
    let doomed = bed.mutex(&keeper, "doomed").lock().await.unwrap();
    let forced = bed.mutex(&keeper, "forced").lock().await.unwrap();
    assert_eq!(bed.mutex(&other, "forced").force_unlock().await, Ok(true));
    assert_eq!(forced.unlock().await, Err(Error::NotHeld));

    let hole = bed.proxy.on(Matcher::any()).black_hole();
    assert_unreachable(&mutex.lock().await.unwrap_err());
    assert_unreachable(&mutex.try_lock().await.unwrap_err());
    assert_unreachable(&keeper.inspect("typed").await.unwrap_err());
    assert_unreachable(&mutex.force_unlock().await.unwrap_err());
    let extended = soon("the end of an extension", ours.extend(Duration::from_millis(1600))).await;
    assert!(
        matches!(
            extended,
            Err(Error::Unreachable { .. } | Error::Lost(LossReason::DeadlinePassed))
        ),
        "{extended:?}"
    );
    let lease_over = soon("the deadline", ours.lost()).await;
    assert_eq!(lease_over, LossReason::DeadlinePassed);
    assert_eq!(ours.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
    // The release of a lock of 30 seconds cannot be waited for: dropping the call leaves it to the background.
    let release = tokio::time::timeout(Duration::from_millis(300), doomed.unlock()).await;
    assert!(release.is_err(), "{release:?}");
    hole.remove();
    bed.nothing_is_left_of("doomed").await;
    held.unlock().await.unwrap();
    soon("the lock on the same keeper", mutex.wait(SOON).lock())
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

/// H09: no renewal comes through, and the holder's own clock decides; what the server says later changes nothing.
async fn a_paused_server_costs_the_hold_and_says_so(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let lease = Lease::renewed(Duration::from_secs(1));
    let guard = bed.mutex(&keeper, "paused").lease(lease).lock().await.unwrap();
    let started = Instant::now();
    let () = bed.ask(cmd("CLIENT").arg("PAUSE").arg(2_500).arg("WRITE")).await;
    wait_until("doubt", SOON, async || guard.state() != HoldState::Held).await;
    assert_eq!(guard.state(), HoldState::Doubtful, "time is still left");
    assert_eq!(soon("the loss", guard.lost()).await, LossReason::DeadlinePassed);
    assert!(
        started.elapsed() < Duration::from_millis(1500),
        "{:?}",
        started.elapsed()
    );
    let next = soon("the lock after the pause", bed.mutex(&other, "paused").lock())
        .await
        .unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(2),
        "the pause is over: {:?}",
        started.elapsed()
    );
    assert!(next.token() > guard.token());
    assert_eq!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
    assert_eq!(next.state(), HoldState::Held);
    assert_eq!(next.unlock().await, Ok(lockkeeper::Unlocked::Freed));
    bed.nothing_is_left_of("paused").await;
}

/// H09, with a server that does nothing at all for a while.
async fn a_sleeping_server_costs_the_hold_and_says_so(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let lease = Lease::renewed(Duration::from_millis(800));
    let guard = bed.mutex(&keeper, "asleep").lease(lease).lock().await.unwrap();
    let started = Instant::now();
    let mut connection = bed.server.connection().await;
    let asleep = tokio::spawn(async move { cmd("DEBUG").arg("SLEEP").arg("1.6").exec_async(&mut connection).await });
    assert_eq!(soon("the loss", guard.lost()).await, LossReason::DeadlinePassed);
    assert!(
        started.elapsed() < Duration::from_millis(1400),
        "{:?}",
        started.elapsed()
    );
    assert!(!asleep.is_finished(), "told while the server still slept");
    let next = soon("the lock afterwards", bed.mutex(&other, "asleep").lock())
        .await
        .unwrap();
    assert!(next.token() > guard.token());
    drop(guard);
    soon("all clean-up", keeper.close()).await;
    assert_eq!(
        next.unlock().await,
        Ok(lockkeeper::Unlocked::Freed),
        "the loser's clean-up left it alone"
    );
    asleep.await.unwrap().unwrap();
}

/// H44b: many clients and a server that is away for a while. They space their attempts out, and all come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_no_storm_of_connections() {
    const KEEPERS: u64 = 20;
    let bed = Bed::new(Layout::Redisson);
    let mut keepers = Vec::new();
    for _ in 0..KEEPERS {
        keepers.push(bed.behind_proxy().await);
    }
    let waiting: Vec<_> = keepers
        .iter()
        .enumerate()
        .map(|(number, keeper)| {
            let mutex = bed
                .mutex(keeper, &format!("storm{}", number % 4))
                .wait(Duration::from_secs(20));
            tokio::spawn(async move {
                for _ in 0..200 {
                    let guard = mutex.lock().await?;
                    sleep(Duration::from_millis(5)).await;
                    // It may have been lost with the server's memory.
                    drop(guard.unlock().await);
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    bed.somebody_listens("storm").await;
    let before = bed.proxy.connections();
    let away = Instant::now();
    bed.server.kill();
    sleep(Duration::from_millis(2_000)).await;
    let attempts = bed.proxy.connections() - before;
    let away = away.elapsed();
    bed.server.restart_empty();
    // 10, 20, 40 .. milliseconds up to a second, each cut by up to a half: at most some 11 in two seconds, on three
    // connections.
    let most = KEEPERS * 3 * (12 + away.as_secs().saturating_sub(2) * 2);
    assert!(
        attempts > KEEPERS && attempts <= most,
        "{attempts} attempts in {away:?}, {most} expected at most"
    );
    for wait in waiting {
        wait.abort();
        if let Ok(outcome) = wait.await {
            outcome.unwrap();
        }
    }
    for keeper in &keepers {
        let mutex = bed.mutex(keeper, "together").wait(SOON);
        soon("every keeper back", mutex.lock())
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
    }
}
