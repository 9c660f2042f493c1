//! The end of a run made once in a period, when its request or reply is lost: the rest is never cut short.

use std::time::Duration;

use lockkeeper::{Keeper, Layout, Unlocked};
use lockkeeper_testkit::{Matcher, wait_until};

use super::bed::{Bed, SOON, acquires, soon};
use super::in_both_layouts;

in_both_layouts!(
    a_lost_reply_of_a_rest_does_not_free,
    a_lost_rest_is_repeated,
    a_dropped_run_rests_by_clean_up,
    a_repeated_rest_has_one_effect,
    a_start_that_nobody_took_counts_as_no_run,
    a_server_without_memory_keeps_the_hold_until_it_can_rest,
);

const LEAST: Duration = Duration::from_secs(50);
const LIMIT: Duration = Duration::from_millis(200);

/// Requests that lay a name to rest: no other step knows the mark.
fn rests() -> Matcher {
    Matcher::scripts().containing("lockkeeper_resting:")
}

/// A rest and nothing else: nobody holds the name, and it ends with the least time, whatever the lease was.
async fn assert_rests(bed: &Bed, keeper: &Keeper, name: &str) {
    let found = keeper.inspect(name).await.unwrap();
    assert!(found.holders.is_empty(), "{found:?}");
    let left = found.resting.expect("a rest");
    assert!(left <= LEAST && left > LEAST - SOON, "{left:?}");
    bed.nobody_listens().await;
    bed.every_key_ends().await;
}

async fn start(bed: &Bed, name: &str) -> (lockkeeper::PeriodicGuard, Keeper) {
    let keeper = bed.behind_proxy_with(Keeper::builder().response_limit(LIMIT)).await;
    let job = keeper
        .periodic(name)
        .layout(bed.layout)
        .at_least(LEAST)
        .at_most(4 * LEAST);
    let run = job.try_start().await.unwrap().expect("nobody else is here");
    (run, keeper)
}

async fn a_lost_reply_of_a_rest_does_not_free(layout: Layout) {
    let bed = Bed::new(layout);
    let (run, _keeper) = start(&bed, "unheard").await;
    let lost = bed.proxy.on(rests()).nth(1).swallow_reply_then_reset();
    // The repeat finds the mark, and is told the same.
    assert_eq!(soon("the end", run.unlock()).await, Ok(Unlocked::Resting));
    lost.fired().await;
    assert_rests(&bed, &bed.direct().await, "unheard").await;
}

async fn a_lost_rest_is_repeated(layout: Layout) {
    let bed = Bed::new(layout);
    let (run, _keeper) = start(&bed, "swallowed").await;
    let hole = bed.proxy.on(rests()).nth(1).black_hole();
    assert_eq!(soon("the end", run.unlock()).await, Ok(Unlocked::Resting));
    hole.fired().await;
    assert_rests(&bed, &bed.direct().await, "swallowed").await;
}

async fn a_dropped_run_rests_by_clean_up(layout: Layout) {
    let bed = Bed::new(layout);
    let (run, _keeper) = start(&bed, "dropped").await;
    let lost = bed.proxy.on(rests()).nth(1).swallow_reply_then_reset();
    drop(run);
    lost.fired().await;
    let other = bed.direct().await;
    wait_until("the rest", SOON, async || {
        other.inspect("dropped").await.unwrap().resting.is_some()
    })
    .await;
    // Clean-up repeats what it has to do until that is answered, and it is never a release.
    wait_until("a repeat", SOON, async || {
        let log = bed.proxy.log();
        let rests = log.iter().filter(|request| request.contains("lockkeeper_resting:"));
        rests.count() >= 2
    })
    .await;
    assert_rests(&bed, &other, "dropped").await;
}

async fn a_repeated_rest_has_one_effect(layout: Layout) {
    let bed = Bed::recorded(layout);
    let (run, _keeper) = start(&bed, "twice").await;
    let twice = bed.proxy.on(rests()).times(10).repeat_request();
    assert_eq!(soon("the end", run.unlock()).await, Ok(Unlocked::Resting));
    twice.fired().await;
    assert_rests(&bed, &bed.direct().await, "twice").await;
    // One write for the run, and one for its rest.
    wait_until("the record", SOON, async || bed.grants("twice") >= 2).await;
    assert_eq!(bed.grants("twice"), 2);
}

/// The caller went away before it heard of its grant: nothing has begun, so the next one may begin at once.
async fn a_start_that_nobody_took_counts_as_no_run(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let held_back = bed.proxy.on(acquires("cancelled")).hold_replies();
    let job = keeper.periodic("cancelled").layout(layout).at_least(LEAST);
    let call = tokio::spawn(async move { job.try_start().await.map(|run| run.is_some()) });
    held_back.fired().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    held_back.release();
    let other = bed.direct().await;
    let job = other.periodic("cancelled").layout(layout).at_least(LEAST).wait(SOON);
    let run = soon("a run", job.try_start()).await.unwrap();
    assert!(run.is_some());
}

/// The mark needs memory, which a full server refuses: the hold stays until it is there.
async fn a_server_without_memory_keeps_the_hold_until_it_can_rest(layout: Layout) {
    let bed = Bed::new(layout);
    let (run, _keeper) = start(&bed, "full").await;
    let other = bed.direct().await;
    let set = |value: &'static str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(value);
        command
    };
    let _: () = bed.ask(&set("1")).await;
    drop(run);
    wait_until("a refused rest", SOON, async || {
        let log = bed.proxy.log();
        log.iter().any(|request| request.contains("lockkeeper_resting:"))
    })
    .await;
    assert!(other.inspect("full").await.unwrap().is_held());
    let _: () = bed.ask(&set("0")).await;
    wait_until("the rest", SOON, async || {
        other.inspect("full").await.unwrap().resting.is_some()
    })
    .await;
    assert_rests(&bed, &other, "full").await;
}
