//! The spin lock and the spin mutex: nobody listens, and nobody sends a message.

use super::stage::{LONG, Stage, soon};
use lockkeeper::Lease;

#[tokio::test]
async fn both_wait_without_any_message() {
    let stage = Stage::new();
    let (java, keeper) = (stage.thread("spin"), stage.keeper().await);
    let mutex = keeper.spin_mutex("spin").lease(Lease::fixed(LONG));

    java.tell("spin lock spin 60000").await;
    let ours = mutex.clone();
    let waiting = tokio::spawn(async move { ours.lock().await });
    stage.waiting("spin", "spin", 1).await;
    assert_eq!(stage.server.pubsub_channels().await, Vec::<String>::new());
    java.tell("spin unlock spin").await;
    let guard = soon("a grant by looking again", waiting).await.unwrap().unwrap();

    let waiting = java.start("spin lock spin 60000");
    stage.waiting("spin", "spin", 1).await;
    assert_eq!(stage.server.pubsub_channels().await, Vec::<String>::new());
    guard.unlock().await.unwrap();
    soon("a grant by looking again", waiting.value::<String>()).await;
    java.tell("spin unlock spin").await;
    assert_eq!(stage.server.calls("publish").await, 0);
}

/// Other locks of the same name are excluded all the same, and their releases are seen by a waiter that polls.
#[tokio::test]
async fn a_lock_of_another_kind_is_kept_out() {
    let stage = Stage::new();
    let (java, keeper) = (stage.thread("other"), stage.keeper().await);
    java.tell("mutex lock other 60000").await;
    let mutex = keeper.spin_mutex("other");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    stage.waiting("spin", "other", 1).await;
    java.tell("mutex unlock other").await;
    let guard = soon("a grant by looking again", waiting).await.unwrap().unwrap();
    assert!(!java.ask::<bool>("mutex tryLock other").await);
    assert!(!java.ask::<bool>("fenced tryLock other").await);
    guard.unlock().await.unwrap();
}
