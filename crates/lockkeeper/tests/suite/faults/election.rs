//! The election, when requests, replies and messages are lost.

use std::time::{Duration, Instant};

use lockkeeper::{Error, Keeper, Layout, Lease, Unlocked};
use lockkeeper_testkit::{Matcher, wait_until};

use super::bed::{Bed, SOON, soon};

const LIMIT: Duration = Duration::from_millis(200);

/// Requests on this election.
fn requests(name: &str) -> Matcher {
    Matcher::scripts().containing(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_costs_no_term() {
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(LIMIT)).await;
    let other = bed.direct().await;
    // The scripts are known by then, so that the first request is the acquire.
    keeper
        .election("warm")
        .campaign()
        .await
        .unwrap()
        .resign()
        .await
        .unwrap();
    let mut observation = other.election("lost").observe();
    assert_eq!(observation.changed().await, Ok(None));
    let lost = bed.proxy.on(requests("lost")).nth(1).swallow_reply_then_reset();
    let election = keeper.election("lost").candidate("one").wait(SOON);
    let leadership = soon("a leader", election.campaign()).await.unwrap();
    lost.fired().await;
    let leader = soon("the change", observation.changed()).await.unwrap().unwrap();
    assert_eq!(leader.term, leadership.term(), "the repeat got the same term");
    let lost = bed.proxy.on(requests("lost")).nth(1).black_hole();
    assert_eq!(soon("the end", leadership.resign()).await, Ok(Unlocked::Freed));
    lost.fired().await;
    assert_eq!(soon("the vacancy", observation.changed()).await, Ok(None));
    drop(observation);
    bed.nothing_is_left_of("lost").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_that_nobody_waits_for_is_withdrawn() {
    let bed = Bed::new(Layout::Redisson);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    keeper
        .election("warm")
        .campaign()
        .await
        .unwrap()
        .resign()
        .await
        .unwrap();
    let held_back = bed.proxy.on(requests("gone")).nth(1).hold_replies();
    let election = keeper.election("gone");
    let call = tokio::spawn(async move { election.campaign().await.map(drop) });
    held_back.fired().await;
    assert!(
        other.election("gone").leader().await.unwrap().is_some(),
        "elected, and nobody knows"
    );
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let next = other.election("gone").wait(Duration::from_secs(5));
    held_back.release();
    let next = next.campaign().await.expect("long before the lease ends");
    next.resign().await.unwrap();
    bed.nothing_is_left_of("gone").await;
}

/// A message that is lost costs a re-check, and no more: by candidates and by those who observe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_costs_one_recheck() {
    let recheck = Duration::from_millis(600);
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy_with(Keeper::builder().recheck(recheck)).await;
    let leadership = bed.direct().await.election("unheard").campaign().await.unwrap();
    let mut observation = keeper.election("unheard").observe();
    let leader = observation.changed().await.unwrap().unwrap();
    assert_eq!(leader.term, leadership.term());
    let observing = tokio::spawn(async move { (observation.changed().await, Instant::now()) });
    bed.somebody_listens("unheard").await;
    // Removed without a word.
    let _: () = bed.ask(redis::cmd("DEL").arg("unheard")).await;
    let removed = Instant::now();
    let (told, at) = soon("the vacancy", observing).await.unwrap();
    assert_eq!(told, Ok(None));
    // A tenth of jitter, and what the machine takes.
    assert!(at - removed < recheck * 2, "{:?}", at - removed);
    drop(leadership);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observation_outlives_an_outage_and_says_so() {
    let bed = Bed::new(Layout::Redisson);
    let builder = Keeper::builder()
        .response_limit(LIMIT)
        .unreachable_after(Duration::from_millis(800));
    let keeper = bed.behind_proxy_with(builder).await;
    let other = bed.direct().await;
    let mut observation = keeper.election("outage").observe();
    assert_eq!(observation.changed().await, Ok(None));
    bed.proxy.refuse_connections();
    bed.proxy.reset_all();
    let error = soon("the outage", observation.changed()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let leadership = other.election("outage").campaign().await.unwrap();
    bed.proxy.accept_connections();
    let leader = soon("what was missed", async {
        loop {
            match observation.changed().await {
                Ok(told) => break told,
                Err(error) => assert!(error.is_unreachable(), "{error:?}"),
            }
        }
    });
    assert_eq!(leader.await.unwrap().term, leadership.term());
}

/// A leader that is cut off stops by its own clock before the next one leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_leader_stops_before_the_next_one_leads() {
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(LIMIT)).await;
    let other = bed.direct().await;
    let lease = Duration::from_millis(1_500);
    let election = keeper.election("cut").lease(Lease::renewed(lease));
    let leadership = election.campaign().await.unwrap();
    let campaigning = tokio::spawn(async move {
        let next = other.election("cut").campaign().await.unwrap();
        (next, Instant::now())
    });
    bed.somebody_listens("cut").await;
    bed.proxy.refuse_connections();
    bed.proxy.reset_all();
    let cut = Instant::now();
    soon("the loss", leadership.lost()).await;
    let stopped = Instant::now();
    let (next, led) = soon("the next leader", campaigning).await.unwrap();
    assert!(stopped < led && next.term() > leadership.term());
    // The lease and a re-check behind it: the timer is set by the time left.
    assert!(led - cut < lease + Duration::from_secs(2), "{:?}", led - cut);
    bed.proxy.accept_connections();
    wait_until("the keeper well again", SOON, async || {
        keeper.inspect("cut").await.is_ok()
    })
    .await;
    assert!(leadership.resign().await.is_err());
    next.resign().await.unwrap();
}
