//! A call without a wait of its own puts up with silence for as long as was set, whatever it waits for.

use std::time::{Duration, Instant};

use lockkeeper::{Keeper, Lease};
use lockkeeper_testkit::{Matcher, Proxy, RedisServer, real_time};

const PATIENCE: Duration = Duration::from_secs(2);

async fn stage() -> (RedisServer, Proxy, Keeper) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let builder = Keeper::builder()
        .unreachable_after(PATIENCE)
        .response_limit(Duration::from_millis(500));
    let keeper = builder.connect(&proxy.url()).await.unwrap();
    drop(keeper.mutex("warm").lock().await.unwrap());
    (server, proxy, keeper)
}

async fn told_in_time(mutex: &lockkeeper::Mutex) {
    let started = Instant::now();
    let told = real_time::timeout(PATIENCE * 4, mutex.lock()).await;
    let took = started.elapsed();
    let error = told.unwrap_or_else(|_| panic!("not told in {took:?}")).unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    assert!(took < PATIENCE + Duration::from_millis(1_500), "{took:?}");
}

/// The release before it is never answered: the line waits for that, though not for the whole lease.
#[tokio::test]
async fn behind_a_release_that_is_never_answered() {
    let (_server, proxy, keeper) = stage().await;
    let mutex = keeper.mutex("seat").lease(Lease::fixed(Duration::from_secs(60)));
    let guard = mutex.lock().await.unwrap();
    let _hole = proxy.on(Matcher::any()).black_hole();
    drop(guard);
    told_in_time(&mutex).await;
}

#[tokio::test]
async fn at_a_lock_that_nobody_asked_for_before() {
    let (_server, proxy, keeper) = stage().await;
    let _hole = proxy.on(Matcher::any()).black_hole();
    told_in_time(&keeper.mutex("seat").lease(Lease::renewed(Duration::from_secs(6)))).await;
}

/// What an earlier caller went through is not held against a later one.
#[tokio::test]
async fn after_an_outage_that_is_long_over() {
    let (_server, proxy, keeper) = stage().await;
    let mutex = keeper.mutex("seat").lease(Lease::renewed(Duration::from_secs(3)));
    let hole = proxy.on(Matcher::any()).black_hole();
    let early = mutex
        .clone()
        .wait(Duration::from_millis(1_500))
        .lock()
        .await
        .unwrap_err();
    assert!(early.is_unreachable(), "{early:?}");
    hole.remove();
    real_time::sleep(PATIENCE).await;
    let hole = proxy.on(Matcher::any()).black_hole();
    let started = Instant::now();
    let error = mutex.lock().await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    assert!(
        started.elapsed() >= PATIENCE - Duration::from_millis(100),
        "{:?}",
        started.elapsed()
    );
    drop(hole);
}

/// A try that comes while the line waits for its subscription must not be told an old "busy".
#[tokio::test]
async fn a_try_asks_while_a_subscription_hangs() {
    let (server, proxy, keeper) = stage().await;
    let other = Keeper::connect(&server.url()).await.unwrap();
    let _held = other.mutex("seat").lock().await.unwrap();
    let hanging = proxy.on(Matcher::command("SUBSCRIBE")).black_hole();
    let waiting = keeper.mutex("seat");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    hanging.fired().await;
    let _hole = proxy.on(Matcher::any()).black_hole();
    // What the line was told counts for a tenth of a second.
    real_time::sleep(Duration::from_millis(150)).await;
    let error = keeper.mutex("seat").try_lock().await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    waiting.abort();
}
