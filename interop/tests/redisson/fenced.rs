//! `RFencedLock` and the fenced mutex: one row of tokens on Redisson's own key.

use lockkeeper_interop::PeerThread;
use redis::cmd;

use super::stage::{key, stage};

async fn stored(name: &str) -> (u64, i64) {
    let token = key("redisson_lock_token", name);
    let server = &stage().server;
    let value: u64 = server.query(cmd("GET").arg(&token)).await;
    (value, server.query(cmd("PTTL").arg(&token)).await)
}

async fn java_takes_it(java: &PeerThread<'_>, name: &str) -> u64 {
    let token = java.ask(format!("fenced lockAndGetToken {name}")).await;
    java.tell(format!("fenced unlock {name}")).await;
    token
}

#[tokio::test]
async fn one_row_of_tokens() {
    let (java, keeper) = (stage().thread("fenced-1"), stage().keeper().await);
    let mutex = keeper.fenced_mutex("fenced-1");
    let mut last = java_takes_it(&java, "fenced-1").await;
    assert_eq!(last, 1, "Java counts from one");
    for round in 0..5 {
        let guard = mutex.lock().await.unwrap();
        let token = guard.token().get();
        assert!(token > last, "{token} after Java's {last}");
        assert_eq!(java.ask::<u64>("fenced getToken fenced-1").await, token);
        assert_eq!(keeper.inspect("fenced-1").await.unwrap().token, Some(guard.token()));
        guard.unlock().await.unwrap();
        last = java_takes_it(&java, "fenced-1").await;
        assert_eq!(last, token + 1, "Java goes on from ours in round {round}");
        let shown = keeper.inspect("fenced-1").await.unwrap().token;
        assert_eq!(shown.map(lockkeeper::Token::get), Some(last));
        assert_eq!(stored("fenced-1").await, (last, -1), "the key never expires");
    }
}

#[tokio::test]
async fn java_goes_on_from_a_key_that_we_made() {
    let (java, keeper) = (stage().thread("fenced-2"), stage().keeper().await);
    let guard = keeper.fenced_mutex("fenced-2").lock().await.unwrap();
    let token = guard.token().get();
    guard.unlock().await.unwrap();
    assert_eq!(stored("fenced-2").await, (token, -1));
    assert_eq!(java_takes_it(&java, "fenced-2").await, token + 1);
}

#[tokio::test]
async fn every_way_of_javas_to_lock_raises_it() {
    let (java, keeper) = (stage().thread("fenced-3"), stage().keeper().await);
    let mutex = keeper.fenced_mutex("fenced-3");
    let mut last = 0;
    for way in [
        "lock fenced-3",
        "lock fenced-3 60000",
        "tryLock fenced-3",
        "tryLock fenced-3 1000 60000",
    ] {
        java.tell(format!("fenced {way}")).await;
        let theirs: u64 = java.ask("fenced getToken fenced-3").await;
        assert!(theirs > last, "{way}: {theirs} after {last}");
        java.tell("fenced unlock fenced-3").await;
        let guard = mutex.lock().await.unwrap();
        assert!(guard.token().get() > theirs, "{way}");
        last = guard.token().get();
        guard.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn java_waits_for_its_token() {
    let (java, keeper) = (stage().thread("fenced-4"), stage().keeper().await);
    let guard = keeper.fenced_mutex("fenced-4").lock().await.unwrap();
    let refused: String = java.ask("fenced tryLockAndGetToken fenced-4 0").await;
    assert_eq!(refused, "null");
    let waiting = java.start("fenced tryLockAndGetToken fenced-4 60000 60000");
    stage().waiting("fenced", "fenced-4", 1).await;
    let token = guard.token().get();
    guard.unlock().await.unwrap();
    assert_eq!(super::stage::soon("a grant", waiting.value::<u64>()).await, token + 1);
    java.tell("fenced unlock fenced-4").await;
}

/// The plain mutex never makes Redisson's token key, but where there is one it stays above it and raises it.
#[tokio::test]
async fn the_plain_mutex_keeps_to_the_row_too() {
    let (java, keeper) = (stage().thread("fenced-5"), stage().keeper().await);
    let mut last = java_takes_it(&java, "fenced-5").await;
    for _ in 0..3 {
        let guard = keeper.mutex("fenced-5").lock().await.unwrap();
        assert!(guard.token().get() > last);
        last = guard.token().get();
        guard.unlock().await.unwrap();
        let theirs = java_takes_it(&java, "fenced-5").await;
        assert!(theirs > last, "Java's {theirs} after our {last}");
        last = theirs;
    }
    assert_eq!(stored("fenced-5").await, (last, -1));
}
