//! Waking may run foreign code, such as the end of a task whose executor has gone: never under a lock of ours.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockkeeper::{Keeper, Lease};
use lockkeeper_testkit::real_time;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task of the simplest executor there is, after that executor has gone: only its waker keeps it, so waking ends it.
struct Orphan(Mutex<Option<Work>>);

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

fn orphan(work: impl Future<Output = ()> + Send + 'static) {
    let task = Arc::new(Orphan(Mutex::new(Some(Box::pin(work)))));
    let waker = Waker::from(Arc::clone(&task));
    let mut work = task.0.lock().unwrap();
    let polled = work.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(polled, Poll::Pending);
}

/// Runs the case on a thread of its own, since what may fail is a deadlock.
fn ends(case: impl Future<Output = ()> + Send + 'static) {
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || {
        // One thread, so that nothing is answered before the orphan was polled.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(case);
        done.send(()).unwrap();
        runtime.shutdown_background();
    });
    told.recv_timeout(Duration::from_secs(10))
        .expect("a deadlock, or a failed case");
}

#[test]
fn telling_a_try_that_it_is_busy_may_end_its_task() {
    ends(async {
        let keeper = Keeper::embedded();
        let other = keeper.embedded_peer().unwrap();
        let _held = other.mutex("seat").lock().await.unwrap();
        let waiting = keeper.mutex("seat");
        let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
        // Past the time for which the server's "busy" counts, a try asks again, by the pump.
        real_time::sleep(Duration::from_millis(300)).await;
        let tried = keeper.mutex("seat");
        orphan(async move { drop(tried.try_lock().await) });
        real_time::sleep(Duration::from_millis(300)).await;
        let tried = keeper.mutex("seat").try_lock().await;
        assert!(tried.is_err());
        waiting.abort();
    });
}

#[test]
fn telling_of_a_loss_may_end_the_holder() {
    ends(async {
        let keeper = Keeper::embedded();
        let mutex = keeper.mutex("seat").lease(Lease::fixed(Duration::from_millis(200)));
        let guard = mutex.lock().await.unwrap();
        orphan(async move {
            guard.lost().await;
            drop(guard);
        });
        real_time::sleep(Duration::from_millis(100)).await;
        // Asked in the very moment at which the deadline passes, who asks tells of the loss.
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(3) {
            if let Ok(guard) = mutex.try_lock().await {
                guard.unlock().await.unwrap();
                return;
            }
        }
        panic!("never free");
    });
}
