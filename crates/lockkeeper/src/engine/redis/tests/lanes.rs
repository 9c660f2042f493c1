//! Which connection a call takes, on whatever runtime it is made, or on none.

use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use super::*;

/// Connections of the engine's on the server.
async fn ours(stage: &Stage) -> usize {
    let clients = stage.server.client_list().await;
    clients.iter().filter(|client| client.name() == "lockkeeper").count()
}

fn step(name: &str) -> Step {
    Step::Acquire(asking(&target(Layout::Redisson, name), &owner()))
}

#[tokio::test]
async fn a_pair_is_two_requests_on_one_connection_of_the_callers_runtime() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    assert_eq!(ours(&stage).await, 1, "the keeper's own");
    for _ in 0..2 {
        stage.granted(&asking(&target, &owner)).await;
        stage.release(&target, &owner).await.unwrap();
    }
    assert_eq!(ours(&stage).await, 2);
    let before = stage.engine.round_trips();
    stage.granted(&asking(&target, &owner)).await;
    stage.release(&target, &owner).await.unwrap();
    assert_eq!(stage.engine.round_trips() - before, 2);
    stage.engine.perform(Lane::Background, step("b"), LIMIT).await.unwrap();
    assert_eq!(ours(&stage).await, 2);
}

#[tokio::test]
async fn on_the_keepers_runtime_there_is_one_connection() {
    let stage = Stage::new().await;
    let engine = Arc::clone(&stage.engine);
    let call = async move { engine.perform(Lane::Foreground, step("a"), LIMIT).await };
    stage.keeper.handle().spawn(call).await.unwrap().unwrap();
    assert_eq!(ours(&stage).await, 1);
}

#[tokio::test]
async fn runtimes_that_ended_leave_nothing_behind() {
    let stage = Stage::new().await;
    for number in 0..6 {
        let engine = Arc::clone(&stage.engine);
        let work = move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let outcome = runtime.block_on(engine.perform(Lane::Foreground, step(&format!("lock{number}")), LIMIT));
            drop(runtime);
            outcome
        };
        tokio::task::spawn_blocking(work).await.unwrap().unwrap();
        assert_eq!(
            stage.engine.lanes.foreground_links(),
            1,
            "only the last one, until the next comes"
        );
    }
    lockkeeper_testkit::wait_until("the connections to be closed", PATIENCE, async || {
        match ours(&stage).await {
            1 => Ok(()),
            more => Err(more),
        }
    })
    .await;
    stage.granted(&asking(&target(Layout::Redisson, "a"), &owner())).await;
}

/// A future of the engine's may be driven by anything: here by nothing but a thread that parks.
#[tokio::test]
async fn without_a_runtime_the_keepers_does_the_work() {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let stage = Stage::new().await;
    let engine = Arc::clone(&stage.engine);
    let (sender, receiver) = mpsc::channel();
    let caller = thread::spawn(move || {
        let mut call = engine.perform(Lane::Foreground, step("a"), LIMIT);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let outcome = loop {
            match call.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => break outcome,
                Poll::Pending => thread::park_timeout(PATIENCE),
            }
        };
        drop(sender.send(outcome));
    });
    let outcome = tokio::task::spawn_blocking(move || receiver.recv_timeout(PATIENCE))
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        outcome.unwrap().reply,
        Reply::Acquired(Acquired::Granted { .. })
    ));
    assert!(caller.join().is_ok());
    assert_eq!(ours(&stage).await, 1);
}
