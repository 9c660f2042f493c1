//! Views of a hold, scopes and guards that tell more than is so.

use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, Lease, Unlocked};
use lockkeeper_testkit::{RedisServer, wait_until};
use tokio::time::advance;

use super::{SOON, soon};

#[tokio::test]
async fn a_scope_knows_two_servers_apart() {
    let (here, there) = (Keeper::embedded(), Keeper::embedded());
    here.scope(async |scope| {
        let one = scope.lock(&here.mutex("same")).await.unwrap();
        let two = scope.lock(&there.mutex("same")).await.unwrap();
        assert_ne!(one.owner(), two.owner());
        let other = there.embedded_peer().unwrap();
        let tried = other.mutex("same").try_lock().await;
        assert!(matches!(tried, Err(Error::Busy { .. })), "{tried:?}");
        // Both are known for re-entry.
        let again = scope.lock(&here.mutex("same")).await.unwrap();
        assert_eq!(again.owner(), one.owner());
        let again = scope.lock(&there.mutex("same")).await.unwrap();
        assert_eq!(again.owner(), two.owner());
    })
    .await;
}

/// Passing on locally must look as if each caller had gone to the server.
#[tokio::test(start_paused = true)]
async fn a_view_of_a_turn_that_was_passed_on_is_not_held() {
    let keeper = Keeper::embedded();
    let mutex = keeper.mutex("passed");
    let other = keeper.embedded_peer().unwrap();
    let blocker = other.mutex("passed").lock().await.unwrap();
    let (first, second) = (tokio::spawn(lock(&mutex)), tokio::spawn(lock(&mutex)));
    tokio::time::sleep(Duration::from_millis(1)).await;
    blocker.unlock().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let view = first.handle();
    assert_eq!(view.state(), HoldState::Held);
    assert_eq!(first.unlock().await.unwrap(), Unlocked::PassedOn);
    let second = second.await.unwrap().unwrap();
    assert_ne!(view.token(), second.token());
    assert_eq!(second.state(), HoldState::Held);
    assert!(matches!(view.state(), HoldState::Lost(_)), "{:?}", view.state());
    assert_eq!(view.remaining(), Duration::ZERO);
}

fn lock(mutex: &lockkeeper::Mutex) -> impl Future<Output = Result<lockkeeper::MutexGuard, Error>> + use<> {
    let mutex = mutex.clone();
    async move { mutex.lock().await }
}

/// A turn that lay in the slot until its lease was over is no lock.
#[tokio::test(start_paused = true)]
async fn a_caller_that_was_not_polled_gets_no_hold_that_is_over() {
    let keeper = Keeper::embedded();
    let mutex = keeper.mutex("late").lease(Lease::fixed(Duration::from_millis(300)));
    let guard = mutex.lock().await.unwrap();
    let mut waiting = tokio_test_pin(lock(&mutex));
    assert!(poll_once(&mut waiting).await.is_none());
    drop(guard);
    // The pump takes the lock for the one in line, who is not polled.
    let watcher = keeper.embedded_peer().unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(watcher.inspect("late").await.unwrap().is_held());
    advance(Duration::from_millis(400)).await;
    let guard = soon("a lock", waiting).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
}

fn tokio_test_pin<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    Box::pin(future)
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// The end of `lost()` never comes for a guard that was given up; it must not keep connections and a thread for ever.
#[tokio::test]
async fn waiting_for_a_loss_that_never_comes_keeps_no_keeper() {
    let server = RedisServer::start();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let guard = keeper.mutex("watched").lock().await.unwrap();
    let watching = tokio::spawn(guard.lost());
    guard.unlock().await.unwrap();
    drop(keeper);
    wait_until("no connection of the keeper's", SOON, async || {
        let names: Vec<_> = server
            .client_list()
            .await
            .iter()
            .map(|client| client.name().to_owned())
            .collect();
        let left = names.iter().filter(|name| name.contains("lockkeeper")).count();
        if left == 0 { Ok(()) } else { Err(names) }
    })
    .await;
    assert!(!watching.is_finished());
    watching.abort();
}

/// Waiters that were cancelled at any point leave no thread, no connection and no subscription behind.
#[tokio::test]
async fn a_keeper_ends_after_its_waiters_were_cancelled() {
    let server = RedisServer::start();
    let other = Keeper::connect(&server.url()).await.unwrap();
    let held = other.mutex("seat").lock().await.unwrap();
    let before = server.client_list().await.len();
    for pause in [0, 1, 3, 10, 50] {
        let keeper = Keeper::connect(&server.url()).await.unwrap();
        let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(lock(&keeper.mutex("seat")))).collect();
        drop(keeper);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
    wait_until("the other keeper's connections alone", SOON, async || {
        let (clients, channels) = (server.client_list().await.len(), server.pubsub_channels().await);
        if clients <= before && channels.is_empty() {
            Ok(())
        } else {
            Err((clients, channels))
        }
    })
    .await;
    held.unlock().await.unwrap();
}
