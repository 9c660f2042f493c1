//! A polling caller in front must not hand its pause down to those behind it.

use std::time::Duration;

use lockkeeper::{Error, Keeper, Polling};
use lockkeeper_testkit::{Matcher, Proxy, RedisServer};

use super::soon;

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn the_pause_of_a_cancelled_caller_goes_with_it() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let held = other.mutex("seat").lock().await.unwrap();
    let polling = keeper.mutex("seat").polling(Polling::every(HOUR));
    // One poll: told "busy", in line; gone before the pump has run.
    tokio::select! {
        biased;
        _ = polling.lock() => panic!("it is held"),
        () = std::future::ready(()) => {}
    }
    let mutex = keeper.mutex("seat");
    let behind = mutex.lock();
    tokio::pin!(behind);
    // It, too, is in line before the pump has run.
    tokio::select! {
        biased;
        _ = &mut behind => panic!("it is held"),
        () = std::future::ready(()) => {}
    }
    tokio::time::sleep(SHORT).await;
    held.unlock().await.unwrap();
    drop(soon("the one behind", behind).await.unwrap());
}

#[tokio::test]
async fn the_pause_of_a_caller_whose_attempts_are_used_up_goes_with_it() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let held = other.mutex("seat").lock().await.unwrap();
    let in_front = keeper.mutex("seat").wait(SHORT);
    let in_front = tokio::spawn(async move { in_front.lock().await });
    tokio::task::yield_now().await;
    let polling = keeper.mutex("seat").polling(Polling::every(HOUR).attempts(1));
    let polling = tokio::spawn(async move { polling.lock().await });
    tokio::task::yield_now().await;
    let mutex = keeper.mutex("seat");
    let behind = tokio::spawn(async move { mutex.lock().await });
    assert!(soon("the first", in_front).await.unwrap().is_err());
    let used_up = soon("the polling one", polling).await.unwrap();
    assert!(matches!(used_up, Err(Error::AttemptsUsedUp { .. })), "{used_up:?}");
    held.unlock().await.unwrap();
    drop(soon("the one behind", behind).await.unwrap().unwrap());
}

/// As above, where the attempt was that of a lone caller and others had come meanwhile.
#[tokio::test]
async fn a_lone_caller_whose_attempts_are_used_up_wakes_the_line() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    drop(keeper.mutex("warm").lock().await.unwrap());
    let other = Keeper::connect(&server.url()).await.unwrap();
    let held = other.mutex("seat").lock().await.unwrap();
    let slow = proxy.on(Matcher::scripts().containing("seat")).times(1).hold_requests();
    let polling = keeper.mutex("seat").polling(Polling::every(HOUR).attempts(1));
    let polling = tokio::spawn(async move { polling.lock().await });
    slow.fired().await;
    let mutex = keeper.mutex("seat");
    let behind = tokio::spawn(async move { mutex.lock().await });
    tokio::time::sleep(SHORT).await;
    slow.release();
    let used_up = soon("the polling one", polling).await.unwrap();
    assert!(matches!(used_up, Err(Error::AttemptsUsedUp { .. })), "{used_up:?}");
    let freed = std::time::Instant::now();
    held.unlock().await.unwrap();
    drop(soon("the one behind", behind).await.unwrap().unwrap());
    assert!(freed.elapsed() < Duration::from_secs(3), "{:?}", freed.elapsed());
}
