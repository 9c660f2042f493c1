//! Holders of a mutex that are killed on either side.

use std::time::Duration;

use lockkeeper::{Error, Lease};

use super::stage::{LONG, soon, stage};

#[tokio::test]
async fn a_killed_java_holder_is_survived() {
    let java = stage().another_java();
    let keeper = stage().keeper().await;
    java.thread("holder").tell("mutex lock killed-java").await;
    // While it lives, its watchdog keeps the lock for longer than one watchdog time.
    let mutex = keeper.mutex("killed-java").lease(Lease::fixed(LONG));
    let refused = mutex.clone().wait(Duration::from_secs(4)).lock().await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    stage().listening("redisson_lock__channel:{killed-java}", 1).await;
    java.kill();
    let guard = soon("the end of a dead process's lease", waiting)
        .await
        .unwrap()
        .unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_killed_rust_holder_is_survived() {
    let mut rust = stage().another_rust("mutex", "killed-rust").await;
    let java = stage().thread("killed-rust");
    // While it lives, the lock is renewed for longer than one lease.
    assert!(!java.ask::<bool>("mutex tryLock killed-rust 3000").await);
    let waiting = java.start("mutex lock killed-rust");
    stage().listening("redisson_lock__channel:{killed-rust}", 1).await;
    rust.kill().unwrap();
    soon("the end of a dead process's lease", waiting.value::<String>()).await;
    java.tell("mutex unlock killed-rust").await;
}

#[tokio::test]
async fn killed_waiters_leave_nothing_behind() {
    let java = stage().another_java();
    let keeper = stage().keeper().await;
    let guard = keeper
        .mutex("killed-waiter")
        .lease(Lease::fixed(LONG))
        .lock()
        .await
        .unwrap();
    let _waiting = java.thread("waiter").start("mutex lock killed-waiter");
    stage().listening("redisson_lock__channel:{killed-waiter}", 1).await;
    java.kill();
    stage().listening("redisson_lock__channel:{killed-waiter}", 0).await;
    guard.unlock().await.unwrap();
    drop(
        keeper
            .mutex("killed-waiter")
            .try_lock()
            .await
            .expect("nobody else is there"),
    );
}
