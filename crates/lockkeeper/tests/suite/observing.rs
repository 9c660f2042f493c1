//! What is told to logs and metrics: everything an operator needs, and never a secret.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::{Keeper, Lease};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

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
    let short = keeper.mutex("short").lease(Lease::fixed(Duration::from_millis(60))).lock().await.unwrap();
    owners.push(short.owner().to_owned());
    short.lost().await;
    drop(format!("{short:?} {keeper:?} {mutex:?} {:?}", short.handle()));
}

fn in_a_runtime<T>(work: impl AsyncFnOnce() -> T) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work())
}

#[test]
fn owner_texts_and_control_characters_never_reach_a_log() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(lines.clone())
        .finish();
    let mut owners = Vec::new();
    tracing::subscriber::with_default(subscriber, || {
        in_a_runtime(async || a_day_in_the_life(&Keeper::embedded(), &mut owners).await);
    });
    let text = lines.text();
    for word in ["lock acquired", "lock given up", "lock not acquired", "lock lost", "token=", "reason=\"deadline\""] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    assert_eq!(owners.len(), 3);
    for owner in &owners {
        let (uuid, number) = owner.split_once(':').unwrap();
        assert!(!text.contains(number) && !text.contains(uuid), "an owner text in:\n{text}");
    }
    assert!(!text.lines().any(|line| line.starts_with("FORGED")), "a forged line in:\n{text}");
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
    entries.map(|(key, _, _, value)| (key.key().name().to_owned(), value)).collect()
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
