//! Taking again what one already holds.

use std::hint::black_box;
use std::time::Instant;

use lockkeeper::Keeper;

use crate::load::count;
use crate::report::{Goal, Row, Table, Unit};
use crate::samples::Samples;
use crate::stage::{Stage, two_workers};

/// Entries a round.
const ENTRIES: u32 = 100_000;

pub(crate) fn measure(stage: &Stage) -> Table {
    let (mut guard, mut scope, mut blocking, mut requests) = (
        Samples::default(),
        Samples::default(),
        Samples::default(),
        Samples::default(),
    );
    let url = stage.server.url();
    let runtime = two_workers();
    let keeper = runtime.block_on(Keeper::connect(&url)).expect("the server answers");
    let threads = lockkeeper::blocking::Keeper::connect(&url).expect("the server answers");
    // The first pair makes connections and loads scripts.
    runtime.block_on(by_guard(&keeper));
    by_thread(&threads);
    for _ in 0..stage.rounds(9) {
        let before = keeper.round_trips();
        runtime.block_on(async {
            guard.push(by_guard(&keeper).await);
            scope.push(by_scope(&keeper).await);
        });
        // Two locks were taken and freed by their outer guards.
        requests.push(count(keeper.round_trips() - before) - 4.0);
        let before = threads.to_async().round_trips();
        blocking.push(by_thread(&threads));
        requests.push(count(threads.to_async().round_trips() - before) - 2.0);
    }
    let time = |what, samples| Row::new(what, Unit::Nanoseconds, samples).goal(Goal::AtMost(1_000.0));
    Table {
        title: "Re-entry".to_owned(),
        note: "Entering again and leaving again, one after the other; the lock is Redisson's layout on a server. The bare driver, \
               rslock and tokio have no re-entry."
            .to_owned(),
        rows: vec![
            time("`guard.reenter()`", &guard),
            time("`scope.lock(..)`", &scope),
            time("`blocking`, by thread", &blocking),
            Row::new("requests beyond the outer pair", Unit::Count, &requests).goal(Goal::AtMost(0.0)),
            Row::dash("rslock 0.10"),
            Row::dash("tokio::sync::Mutex"),
        ],
    }
}

fn nanoseconds_each(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ENTRIES)
}

async fn by_guard(keeper: &Keeper) -> f64 {
    let outer = keeper
        .mutex("bench:re-entry")
        .lock()
        .await
        .expect("the lock is granted");
    let start = Instant::now();
    for _ in 0..ENTRIES {
        drop(black_box(outer.reenter().expect("it is held")));
    }
    let each = nanoseconds_each(start);
    outer.unlock().await.expect("the lock is given up");
    each
}

async fn by_scope(keeper: &Keeper) -> f64 {
    let mutex = keeper.mutex("bench:re-entry");
    keeper
        .scope(async |scope| {
            let outer = scope.lock(&mutex).await.expect("the lock is granted");
            let start = Instant::now();
            for _ in 0..ENTRIES {
                drop(black_box(scope.lock(&mutex).await.expect("it is held")));
            }
            let each = nanoseconds_each(start);
            outer.unlock().await.expect("the lock is given up");
            each
        })
        .await
}

fn by_thread(keeper: &lockkeeper::blocking::Keeper) -> f64 {
    let mutex = keeper.mutex("bench:re-entry");
    let outer = mutex.lock().expect("the lock is granted");
    let start = Instant::now();
    for _ in 0..ENTRIES {
        drop(black_box(mutex.lock().expect("it is held")));
    }
    let each = nanoseconds_each(start);
    outer.unlock().expect("the lock is given up");
    each
}
