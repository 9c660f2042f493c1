//! `RCountDownLatch` and the count-down latch.

use std::time::Duration;

use lockkeeper::{Keeper, LatchEnd};
use redis::cmd;

use super::stage::{LONG, soon, stage};

/// Braces are always added, also to names that have some.
fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

async fn waiting(keeper: &Keeper, name: &str) -> tokio::task::JoinHandle<LatchEnd> {
    let latch = keeper.latch(name);
    let waiting = tokio::spawn(async move { latch.wait().await.unwrap() });
    stage().listening(&channel(name), 1).await;
    waiting
}

#[tokio::test]
async fn counts_agree() {
    let (java, keeper) = (stage().thread("latch-1"), stage().keeper().await);
    let latch = keeper.latch("latch-1");
    for round in 0..2 {
        let set = if round == 0 {
            latch.try_set_count(4).await.unwrap()
        } else {
            java.ask("latch trySetCount latch-1 4").await
        };
        assert!(set, "round {round}: an open latch may be set again");
        assert!(!java.ask::<bool>("latch trySetCount latch-1 9").await);
        assert!(!latch.try_set_count(9).await.unwrap());
        for left in [2, 0] {
            java.tell("latch countDown latch-1").await;
            assert_eq!(latch.count().await.unwrap(), left + 1);
            assert_eq!(latch.count_down().await.unwrap(), left);
            assert_eq!(java.ask::<u64>("latch getCount latch-1").await, left);
        }
        java.tell("latch countDown latch-1").await;
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert_eq!(java.ask::<u64>("latch getCount latch-1").await, 0);
        assert!(java.ask::<bool>("latch await latch-1 0").await);
        assert_eq!(latch.wait().await.unwrap(), LatchEnd::Open);
    }
}

#[tokio::test]
async fn java_opens_and_we_go_on() {
    let (java, keeper) = (stage().thread("latch-2"), stage().keeper().await);
    for name in ["latch-2", "{latch}-2"] {
        java.tell(format!("latch trySetCount {name} 2")).await;
        let waiting = waiting(&keeper, name).await;
        java.tell(format!("latch countDown {name}")).await;
        assert!(!waiting.is_finished());
        java.tell(format!("latch countDown {name}")).await;
        assert_eq!(
            soon("the end by Java's message", waiting).await.unwrap(),
            LatchEnd::Open
        );
    }
}

#[tokio::test]
async fn we_open_and_java_goes_on() {
    let keeper = stage().keeper().await;
    for name in ["latch-3", "{latch}-3"] {
        let latch = keeper.latch(name);
        latch.try_set_count(2).await.unwrap();
        let names = [format!("{name}-a"), format!("{name}-b")];
        let waiting = names
            .each_ref()
            .map(|thread| stage().thread(thread).start(format!("latch await {name} 60000")));
        stage().listening(&channel(name), 1).await;
        latch.count_down().await.unwrap();
        assert!(waiting.iter().all(lockkeeper_interop::Pending::is_under_way));
        latch.count_down().await.unwrap();
        for waiting in waiting {
            assert!(soon("the end by our message", waiting.value::<bool>()).await);
        }
    }
}

/// An early `0` makes Java's waiters burn a processor: it is sent by the step that reaches zero, and by no other.
#[tokio::test]
async fn zero_is_said_once_and_only_at_zero() {
    let (java, keeper) = (stage().thread("latch-4"), stage().keeper().await);
    let latch = keeper.latch("latch-4");
    // What the channel carried is what a script of ours or Java's published: each of the two sides sets and counts once.
    let client = redis::Client::open(stage().server.url()).unwrap();
    let mut listener = client.get_async_pubsub().await.unwrap();
    listener.subscribe(channel("latch-4")).await.unwrap();
    listener.subscribe("latch-4-over").await.unwrap();
    latch.try_set_count(3).await.unwrap();
    latch.count_down().await.unwrap();
    java.tell("latch countDown latch-4").await;
    latch.count_down().await.unwrap();
    latch.count_down().await.unwrap();
    java.tell("latch countDown latch-4").await;
    java.tell("latch trySetCount latch-4 1").await;
    latch.count_down().await.unwrap();
    latch.try_set_count(1).await.unwrap();
    latch.remove().await.unwrap();
    let _: i64 = stage()
        .server
        .query(cmd("PUBLISH").arg("latch-4-over").arg("over"))
        .await;
    let mut heard = Vec::new();
    let mut messages = listener.into_on_message();
    loop {
        let next =
            std::future::poll_fn(|context| futures_util::Stream::poll_next(std::pin::Pin::new(&mut messages), context));
        let message = soon("a message", next).await.unwrap();
        let text: String = message.get_payload().unwrap();
        if text == "over" {
            break;
        }
        heard.push(text);
    }
    assert_eq!(heard, ["1", "0", "1", "0", "1", "1"]);
}

#[tokio::test]
async fn a_latch_that_java_deletes_is_told_as_removed() {
    let (java, keeper) = (stage().thread("latch-5"), stage().keeper().await);
    keeper.latch("latch-5").try_set_count(1).await.unwrap();
    let waiting = waiting(&keeper, "latch-5").await;
    assert!(java.ask::<bool>("latch delete latch-5").await);
    assert_eq!(
        soon("the end by Java's message", waiting).await.unwrap(),
        LatchEnd::Removed
    );
    assert!(!keeper.latch("latch-5").remove().await.unwrap());
    assert!(!java.ask::<bool>("latch delete latch-5").await);
}

/// Java's waiters are not woken by a removal, whoever removes: a timed one ends with its time, and says that all is well.
#[tokio::test]
async fn a_latch_that_we_remove_is_gone_for_java() {
    let (java, waiter) = (stage().thread("latch-6"), stage().thread("latch-6-waiter"));
    let keeper = stage().keeper().await;
    java.tell("latch trySetCount latch-6 1").await;
    let waiting = waiter.start("latch await latch-6 2000");
    stage().listening(&channel("latch-6"), 1).await;
    assert!(keeper.latch("latch-6").remove().await.unwrap());
    assert_eq!(java.ask::<u64>("latch getCount latch-6").await, 0);
    assert!(soon("the end of its time", waiting.value::<bool>()).await);
}

#[tokio::test]
async fn a_killed_java_process_disturbs_nobody() {
    let java = stage().another_java();
    let keeper = stage().keeper().await;
    let thread = java.thread("latch");
    thread.tell("latch trySetCount latch-7 2").await;
    thread.tell("latch countDown latch-7").await;
    let _waiting = thread.start(format!("latch await latch-7 {}", LONG.as_millis()));
    stage().listening(&channel("latch-7"), 1).await;
    java.kill();
    stage().listening(&channel("latch-7"), 0).await;
    let ours = waiting(&keeper, "latch-7").await;
    let refused = keeper.latch("latch-7").wait_timeout(Duration::from_millis(100)).await;
    assert!(refused.is_err(), "{refused:?}: the count is still one");
    assert_eq!(keeper.latch("latch-7").count_down().await.unwrap(), 0);
    assert_eq!(soon("the end", ours).await.unwrap(), LatchEnd::Open);
}
