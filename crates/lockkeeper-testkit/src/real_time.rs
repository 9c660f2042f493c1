//! Time limits that hold while tokio's clock is paused.
//!
//! A paused tokio clock jumps forward whenever the runtime is idle, so a limit made with `tokio::time` ends at
//! once while a real server is still working. The waits here run on one plain thread and know nothing of tokio.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::sync::{LazyLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// A real time limit that passed before the future ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    limit: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing after {:?} of real time", self.limit)
    }
}

impl std::error::Error for Elapsed {}

struct Alarm {
    due: Instant,
    ring: oneshot::Sender<()>,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

static ALARMS: LazyLock<std::sync::Mutex<mpsc::Sender<Alarm>>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("testkit-alarms".to_owned())
        .spawn(move || ring_when_due(&receiver))
        .expect("a thread for real-time alarms");
    std::sync::Mutex::new(sender)
});

fn ring_when_due(receiver: &mpsc::Receiver<Alarm>) {
    let mut alarms: BinaryHeap<Reverse<Alarm>> = BinaryHeap::new();
    loop {
        let now = Instant::now();
        while alarms.peek().is_some_and(|Reverse(first)| first.due <= now) {
            if let Some(Reverse(alarm)) = alarms.pop() {
                // The sleeper may have been dropped: nobody to wake then.
                let _ = alarm.ring.send(());
            }
        }
        let next = match alarms.peek() {
            Some(Reverse(first)) => receiver.recv_timeout(first.due.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(alarm) => alarms.push(Reverse(alarm)),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Sleeps for `duration` of real time, on any executor, whatever tokio's clock does.
///
/// Dropping the future ends the sleep.
///
/// # Panics
///
/// If the thread behind it is gone, which only the end of the process does.
pub async fn sleep(duration: Duration) {
    let (ring, bell) = oneshot::channel();
    let alarm = Alarm {
        due: Instant::now() + duration,
        ring,
    };
    ALARMS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(alarm)
        .expect("the alarm thread lives");
    bell.await.expect("the alarm thread lives");
}

/// Runs `future` for at most `limit` of real time.
///
/// # Errors
///
/// [`Elapsed`] if the limit passed first; the future is dropped then.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut alarm = pin!(sleep(limit));
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
            return std::task::Poll::Ready(Ok(output));
        }
        alarm.as_mut().poll(context).map(|()| Err(Elapsed { limit }))
    })
    .await
}
