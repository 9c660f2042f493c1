//! Everything that an operator needs is logged, and never a secret. One test, since it installs the program's log.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::{Keeper, Lease};
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
fn owner_texts_and_control_characters_never_reach_a_log() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(lines.clone())
        .finish();
    let mut owners = Vec::new();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    in_a_runtime(async || a_day_in_the_life(&Keeper::embedded(), &mut owners).await);
    let text = lines.text();
    for word in [
        "lock acquired",
        "lock given up",
        "lock not acquired",
        "lock lost",
        "token=",
        "reason=\"deadline\"",
    ] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    assert_eq!(owners.len(), 3);
    for owner in &owners {
        let (uuid, number) = owner.split_once(':').unwrap();
        assert!(
            !text.contains(number) && !text.contains(uuid),
            "an owner text in:\n{text}"
        );
    }
    assert!(
        !text.lines().any(|line| line.starts_with("FORGED")),
        "a forged line in:\n{text}"
    );
}
