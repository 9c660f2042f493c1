//! Closing while calls are on their way.

use std::time::Duration;

use lockkeeper::{Error, Keeper};
use lockkeeper_testkit::{Matcher, Proxy, RedisServer};
use redis::cmd;

use super::soon;

/// An attempt that is answered "busy" after the keeper was closed must not queue up and wait.
#[tokio::test]
async fn a_lone_caller_is_told_that_the_keeper_closed() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    drop(keeper.mutex("warm").lock().await.unwrap());
    let other = Keeper::connect(&server.url()).await.unwrap();
    let held = other.mutex("seat").lock().await.unwrap();
    let slow = proxy.on(Matcher::scripts().containing("seat")).times(1).hold_requests();
    let mutex = keeper.mutex("seat");
    let lone = tokio::spawn(async move { mutex.lock().await });
    slow.fired().await;
    keeper.close().await;
    slow.release();
    let told = soon("the end of the call", lone).await.unwrap();
    assert!(matches!(told, Err(Error::Closed)), "{told:?}");
    drop(held);
}

/// A grant that is under way when the keeper closes: closing waits until it is given back.
#[tokio::test]
async fn closing_waits_for_attempts_on_their_way() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    drop(keeper.mutex("warm").lock().await.unwrap());
    let slow = proxy.on(Matcher::scripts().containing("seat")).times(1).hold_replies();
    let mutex = keeper.mutex("seat");
    let lone = tokio::spawn(async move { mutex.lock().await });
    slow.fired().await;
    let closing = tokio::spawn(async move { keeper.close().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    slow.release();
    let report = soon("the close", closing).await.unwrap();
    let left: bool = server.query(cmd("EXISTS").arg("seat")).await;
    assert!(!left, "{report:?}");
    soon("the call", lone).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_release_that_the_server_refused_is_not_told_as_freed() {
    let server = RedisServer::builder().user("app", "on nopass ~* &* +@all").start();
    let url = format!("redis://app:x@{}", server.address());
    let keeper = Keeper::connect(&url).await.unwrap();
    let guard = keeper.mutex("seat").lock().await.unwrap();
    let () = server
        .query(cmd("ACL").arg("SETUSER").arg("app").arg("-@scripting"))
        .await;
    let report = keeper.close().await;
    let left: bool = server.query(cmd("EXISTS").arg("seat")).await;
    assert!(left);
    assert_eq!((report.freed, report.unconfirmed), (vec![], vec!["seat".to_owned()]));
    drop(guard);
}
