use std::time::{Duration, Instant};

use lockkeeper::{Error, Polling};

use super::stage::soon;
use super::{Stage, on_every_stage};

on_every_stage!(
    a_waiter_is_woken_by_the_release,
    a_wait_ends_on_time,
    a_zero_wait_is_one_full_attempt,
    wait_and_lease_do_not_limit_each_other,
    local_waiters_are_served_in_order,
    a_dropped_wait_leaves_the_line,
    dropping_futures_at_any_point_leaves_nothing,
    polling_gives_up_after_its_attempts,
    polling_waits_no_longer_than_asked,
    a_granted_turn_that_nobody_polls_is_passed_on,
);

async fn a_waiter_is_woken_by_the_release(stage: Stage) {
    let (first, second) = stage.two("woken").await;
    for _ in 0..5 {
        let guard = first.lock().await.unwrap();
        let waiting = tokio::spawn({
            let second = second.clone();
            async move { second.lock().await.map(|guard| (Instant::now(), guard)) }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let released = Instant::now();
        guard.unlock().await.unwrap();
        let (got, guard) = soon("the woken waiter", waiting).await.unwrap().unwrap();
        // Far below any timer of the Redisson layout, and about the polling pause of the plain one.
        assert!(got.duration_since(released) < Duration::from_millis(600));
        guard.unlock().await.unwrap();
    }
}

async fn a_wait_ends_on_time(stage: Stage) {
    let (first, second) = stage.two("on-time").await;
    let _guard = first.lock().await.unwrap();
    let (_, third) = stage.two("on-time").await;
    for other in [first.clone(), second, third] {
        let started = Instant::now();
        let refused = other.wait(Duration::from_millis(300)).lock().await;
        let waited = started.elapsed();
        assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
        assert!(
            waited >= Duration::from_millis(300) && waited < Duration::from_millis(900),
            "{waited:?}"
        );
    }
}

async fn a_zero_wait_is_one_full_attempt(stage: Stage) {
    let (first, second) = stage.two("zero").await;
    let guard = first.wait(Duration::ZERO).lock().await.expect("free");
    assert!(matches!(
        second.wait(Duration::ZERO).lock().await,
        Err(Error::Busy { .. })
    ));
    drop(guard);
}

async fn wait_and_lease_do_not_limit_each_other(stage: Stage) {
    use lockkeeper::Lease;
    let (first, second) = stage.two("separate").await;
    let guard = first
        .lease(Lease::fixed(Duration::from_millis(700)))
        .lock()
        .await
        .unwrap();
    let lease = Lease::fixed(Duration::from_millis(200));
    let got = soon(
        "a wait longer than its lease",
        second.lease(lease).wait(Duration::from_secs(5)).lock(),
    )
    .await;
    let got = got.expect("the wait is not capped by the lease");
    assert!(
        got.remaining() > Duration::from_millis(100),
        "the whole lease: {:?}",
        got.remaining()
    );
    drop(guard);
}

async fn local_waiters_are_served_in_order(stage: Stage) {
    let keeper = stage.keeper().await;
    let mutex = stage.mutex(&keeper, "line");
    let guard = mutex.lock().await.unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    // One task that polls all waits once, one after the other, fixes the order of arrival.
    let mut waits: Vec<_> = (0..20)
        .map(|number| {
            let (mutex, order) = (mutex.clone(), std::sync::Arc::clone(&order));
            Box::pin(async move {
                let guard = mutex.lock().await.unwrap();
                order.lock().unwrap().push(number);
                guard.unlock().await.unwrap();
            })
        })
        .collect();
    for wait in &mut waits {
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending())).await);
    }
    drop(guard);
    let all = async {
        let tasks: Vec<_> = waits.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
    };
    soon("all in line", all).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

async fn a_dropped_wait_leaves_the_line(stage: Stage) {
    let (first, second) = stage.two("left").await;
    let guard = first.lock().await.unwrap();
    for mutex in [&first, &second] {
        let wait = tokio::time::timeout(Duration::from_millis(100), mutex.lock()).await;
        assert!(wait.is_err());
    }
    guard.unlock().await.unwrap();
    soon("the lock after others left", second.lock())
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    drop(soon("the lock after others left", first.try_lock()).await.unwrap());
}

/// Each future is polled a number of times and dropped; whatever it had begun must be undone.
async fn dropping_futures_at_any_point_leaves_nothing(stage: Stage) {
    let (first, second) = stage.two("cancelled").await;
    for polls in 0..6 {
        for held in [false, true] {
            let guard = if held { Some(second.lock().await.unwrap()) } else { None };
            for mutex in [&first, &second] {
                let mut wait = Box::pin(mutex.lock());
                for _ in 0..polls {
                    let done =
                        std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_ready())).await;
                    if done {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            drop(guard);
            let (third, fourth) = (first.clone(), second.clone());
            soon("the lock after cancelled calls", third.lock())
                .await
                .unwrap()
                .unlock()
                .await
                .unwrap();
            soon("the lock after cancelled calls", fourth.lock())
                .await
                .unwrap()
                .unlock()
                .await
                .unwrap();
        }
    }
}

async fn polling_gives_up_after_its_attempts(stage: Stage) {
    let (first, second) = stage.two("polled").await;
    let _guard = first.lock().await.unwrap();
    let polling = Polling::every(Duration::from_millis(20)).attempts(5);
    let started = Instant::now();
    let refused = soon("giving up", second.polling(polling).lock()).await;
    assert_eq!(
        refused.map(|_| ()),
        Err(Error::AttemptsUsedUp {
            name: "polled".to_owned(),
            attempts: 5
        })
    );
    assert!(started.elapsed() >= Duration::from_millis(80));
}

async fn polling_waits_no_longer_than_asked(stage: Stage) {
    let (first, second) = stage.two("polled-budget").await;
    let guard = first.lock().await.unwrap();
    let polling = Polling::every(Duration::from_millis(10)).growing(3.0, Duration::from_secs(1));
    let started = Instant::now();
    let refused = second
        .clone()
        .polling(polling)
        .wait(Duration::from_millis(500))
        .lock()
        .await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_millis(500) && waited < Duration::from_millis(900),
        "{waited:?}"
    );
    guard.unlock().await.unwrap();
    drop(soon("the polled lock", second.polling(polling).lock()).await.unwrap());
}

async fn a_granted_turn_that_nobody_polls_is_passed_on(stage: Stage) {
    let (first, second) = stage.two("unpolled").await;
    let guard = first.lock().await.unwrap();
    let mut sleeper = Box::pin(first.lock());
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(sleeper.as_mut().poll(cx).is_pending())).await);
    let behind = tokio::spawn({
        let first = first.clone();
        async move { first.lock().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(guard);
    // Nobody polls the first in line: after the claim time its turn goes to the next one.
    let next = soon("the turn that was passed on", behind).await.unwrap().unwrap();
    next.unlock().await.unwrap();
    drop(soon("the lock for another process", second.lock()).await.unwrap());
    let late = soon("the sleeper, polled again", sleeper).await.unwrap();
    late.unlock().await.unwrap();
}
