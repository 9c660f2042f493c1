//! From hand to hand: how fast a lock goes on after a release, and after a death.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper::{Layout, Lease};
use lockkeeper_testkit::Matcher;
use redis::cmd;

use super::bed::{Bed, SOON, locking, soon};
use super::in_both_layouts;

in_both_layouts!(
    short_turns_pass_on_in_milliseconds,
    a_dead_holder_costs_its_lease_and_no_more,
    a_foreign_holder_that_died_costs_its_lease_and_no_more,
);

/// B13: a lost race re-arms the wait, and is no reason for a sleep.
async fn short_turns_pass_on_in_milliseconds(layout: Layout) {
    const KEEPERS: usize = 8;
    const ROUNDS: usize = 6;
    let bed = Bed::new(layout);
    let mut keepers = Vec::new();
    for _ in 0..KEEPERS {
        keepers.push(bed.direct().await);
    }
    let stamps = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    let started = Instant::now();
    for keeper in &keepers {
        let mutex = bed.mutex(keeper, "hands").wait(SOON);
        let stamps = Arc::clone(&stamps);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = mutex.lock().await.unwrap();
                let got = Instant::now();
                guard.unlock().await.unwrap();
                stamps.lock().unwrap().push((got, Instant::now()));
            }
        });
    }
    while let Some(done) = soon("all turns", tasks.join_next()).await {
        done.unwrap();
    }
    let total = started.elapsed();
    let mut stamps = stamps.lock().unwrap().clone();
    stamps.sort();
    let mut gaps: Vec<_> = stamps
        .windows(2)
        .map(|pair| pair[1].0.saturating_duration_since(pair[0].1))
        .collect();
    gaps.sort();
    let median = gaps[gaps.len() / 2];
    assert_eq!(stamps.len(), KEEPERS * ROUNDS);
    assert!(
        median < Duration::from_millis(30),
        "median {median:?}, longest {:?}",
        gaps.last()
    );
    assert!(
        total < Duration::from_secs(4),
        "{total:?} for {} turns",
        KEEPERS * ROUNDS
    );
    bed.nothing_is_left_of("hands").await;
}

/// The life of the lock at this moment: the waiter has it that soon, and not before.
async fn owns_when_the_lease_ends(bed: &Bed, name: &str) {
    let other = bed.direct().await;
    let waiting = locking(&bed.mutex(&other, name));
    bed.somebody_listens(name).await;
    let asked = Instant::now();
    let left = u64::try_from(bed.life(name).await).expect("still locked");
    let left = Duration::from_millis(left);
    let (guard, got) = soon("the lock of the dead", waiting).await.unwrap().unwrap();
    let waited = got - asked;
    // Half a second is for a busy machine; the next timer would be thirty.
    assert!(
        waited + Duration::from_millis(50) > left,
        "{waited:?} of {left:?}: too early"
    );
    assert!(waited < left + Duration::from_millis(500), "{waited:?} of {left:?}");
    guard.unlock().await.unwrap();
    bed.nothing_is_left_of(name).await;
}

/// H48: nobody signals and nobody renews any more. No event of the server's is waited for.
async fn a_dead_holder_costs_its_lease_and_no_more(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let lease = Lease::renewed(Duration::from_millis(1200));
    let guard = bed.mutex(&keeper, "died").lease(lease).lock().await.unwrap();
    // Dead for everybody else: nothing of it arrives any more.
    let grave = bed.proxy.on(Matcher::any()).black_hole();
    bed.proxy.refuse_connections();
    owns_when_the_lease_ends(&bed, "died").await;
    grave.remove();
    drop(guard);
}

/// H48 with a peer of another make, which neither renews nor signals.
async fn a_foreign_holder_that_died_costs_its_lease_and_no_more(layout: Layout) {
    let bed = Bed::new(layout);
    if layout == Layout::Plain {
        let () = bed
            .ask(cmd("SET").arg("foreign").arg("somebody").arg("PX").arg(1200))
            .await;
    } else {
        let () = bed.ask(cmd("HSET").arg("foreign").arg("0a1b:7").arg(1)).await;
        let () = bed.ask(cmd("PEXPIRE").arg("foreign").arg(1200)).await;
    }
    owns_when_the_lease_ends(&bed, "foreign").await;
}
