//! What is told to metrics, and what `Debug` shows. (Logs: `tests/log_canary.rs`, since a log needs a program of its own.)

use std::time::Duration;

use lockkeeper::{Keeper, Lease};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot};

/// A bit of everything: a lock, a busy try, a wait that times out, a hand-over, a loss, a cancelled call.
async fn a_day_in_the_life(keeper: &Keeper, owners: &mut Vec<String>) {
    let mutex = keeper.mutex("seen\nFORGED");
    let guard = mutex.lock().await.unwrap();
    owners.push(guard.owner().to_owned());
    drop(mutex.try_lock().await.unwrap_err());
    drop(mutex.clone().wait(Duration::from_millis(20)).lock().await.unwrap_err());
    let mut wait = Box::pin(mutex.lock());
    std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending())).await;
    drop(wait);
    tokio::join!(async { drop(mutex.lock().await.unwrap()) }, async {
        guard.unlock().await.unwrap();
        owners.push(mutex.lock().await.unwrap().owner().to_owned());
    });
    let short = keeper
        .mutex("short")
        .lease(Lease::fixed(Duration::from_millis(60)))
        .lock()
        .await
        .unwrap();
    owners.push(short.owner().to_owned());
    short.lost().await;
    drop(format!("{short:?} {keeper:?} {mutex:?} {:?}", short.handle()));
}

fn in_a_runtime<T>(work: impl AsyncFnOnce() -> T) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work())
}

#[test]
fn debug_output_hides_owner_texts() {
    in_a_runtime(async || {
        let guard = Keeper::embedded().mutex("shown").lock().await.unwrap();
        let number = guard.owner().split_once(':').unwrap().1.to_owned();
        assert!(!format!("{guard:?}").contains(&number));
    });
}

fn value(snapshot: Vec<(String, DebugValue)>, name: &str) -> u64 {
    snapshot
        .into_iter()
        .filter(|(key, _)| key == name)
        .map(|(_, value)| match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        })
        .sum()
}

fn flat(snapshot: Snapshot) -> Vec<(String, DebugValue)> {
    let entries = snapshot.into_vec().into_iter();
    entries
        .map(|(key, _, _, value)| (key.key().name().to_owned(), value))
        .collect()
}

#[test]
fn metrics_count_what_happened() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        in_a_runtime(async || a_day_in_the_life(&Keeper::embedded(), &mut Vec::new()).await);
    });
    let snapshot = flat(snapshotter.snapshot());
    let count = |name: &str| {
        let copied = snapshot.iter().map(|(key, value)| {
            let value = match value {
                DebugValue::Counter(count) => DebugValue::Counter(*count),
                DebugValue::Histogram(values) => DebugValue::Histogram(values.clone()),
                DebugValue::Gauge(gauge) => DebugValue::Gauge(*gauge),
            };
            (key.clone(), value)
        });
        value(copied.collect(), name)
    };
    assert_eq!(count("lockkeeper_acquired_total"), 4);
    assert_eq!(count("lockkeeper_busy_total"), 1);
    assert_eq!(count("lockkeeper_timed_out_total"), 1);
    assert_eq!(count("lockkeeper_lost_total"), 1);
    assert_eq!(count("lockkeeper_hold_seconds"), 4);
    assert!(count("lockkeeper_wait_seconds") >= 4);
}
