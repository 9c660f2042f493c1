//! The blocking API does what the async one does; a stage is set up by a runtime of its own beside the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockkeeper::{Error, Layout, Lease, Unlocked, blocking};
use lockkeeper_testkit::RedisServer;

/// Two keepers for threads, on one engine.
struct Pair {
    first: blocking::Keeper,
    second: blocking::Keeper,
    layout: Layout,
    _server: Option<RedisServer>,
}

impl Pair {
    fn embedded(layout: Layout) -> Self {
        let first = blocking::Keeper::embedded();
        let second = first.to_async().embedded_peer().unwrap().into();
        Self {
            first,
            second,
            layout,
            _server: None,
        }
    }

    fn redis(layout: Layout) -> Self {
        let server = RedisServer::start();
        Self {
            first: blocking::Keeper::connect(&server.url()).unwrap(),
            second: blocking::Keeper::connect(&server.url()).unwrap(),
            layout,
            _server: Some(server),
        }
    }

    fn two(&self, name: &str) -> (blocking::Mutex, blocking::Mutex) {
        (
            self.first.mutex(name).layout(self.layout),
            self.second.mutex(name).layout(self.layout),
        )
    }
}

macro_rules! on_every_pair {
    ($($case:ident),* $(,)?) => {
        mod embedded_redisson { $( #[test] fn $case() { super::$case(&super::Pair::embedded(super::Layout::Redisson)); } )* }
        mod embedded_plain { $( #[test] fn $case() { super::$case(&super::Pair::embedded(super::Layout::Plain)); } )* }
        mod redis_redisson { $( #[test] fn $case() { super::$case(&super::Pair::redis(super::Layout::Redisson)); } )* }
        mod redis_plain { $( #[test] fn $case() { super::$case(&super::Pair::redis(super::Layout::Plain)); } )* }
    };
}

on_every_pair!(
    locks_and_excludes,
    a_thread_reenters,
    threads_lose_no_update,
    a_wait_ends_on_time,
    a_movable_guard_ends_in_another_thread,
    a_fixed_lease_ends,
    closing_frees,
);

fn locks_and_excludes(pair: &Pair) {
    let (first, second) = pair.two("a");
    let guard = first.lock().unwrap();
    assert!(matches!(second.try_lock(), Err(Error::Busy { .. })));
    let token = guard.token();
    assert_eq!(guard.unlock(), Ok(Unlocked::Freed));
    let guard = second.try_lock().unwrap();
    assert!(guard.token() > token);
    drop(guard);
    drop(first.lock().unwrap());
}

fn a_thread_reenters(pair: &Pair) {
    let (first, second) = pair.two("again");
    let outer = first.lock().unwrap();
    let inner = first.lock().unwrap();
    let innermost = first.try_lock().unwrap();
    assert_eq!(outer.token(), innermost.token());
    thread::scope(|scope| {
        let elsewhere = scope.spawn(|| first.try_lock().map(drop));
        assert!(
            matches!(elsewhere.join().unwrap(), Err(Error::Busy { .. })),
            "another thread is another caller"
        );
    });
    assert_eq!(outer.unlock(), Ok(Unlocked::StillHeld));
    drop(inner);
    assert!(matches!(second.try_lock(), Err(Error::Busy { .. })));
    assert_eq!(innermost.unlock(), Ok(Unlocked::Freed));
    drop(second.try_lock().unwrap());
}

fn threads_lose_no_update(pair: &Pair) {
    let counter = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..6 {
            let (first, second) = pair.two("counter");
            let mutex = if number % 2 == 0 { first } else { second };
            let counter = Arc::clone(&counter);
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = mutex.lock().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), 120);
}

fn a_wait_ends_on_time(pair: &Pair) {
    let (first, second) = pair.two("on-time");
    let _guard = first.lock().unwrap();
    let started = Instant::now();
    let refused = second.wait(Duration::from_millis(300)).lock();
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    assert!(started.elapsed() >= Duration::from_millis(300) && started.elapsed() < Duration::from_millis(900));
}

fn a_movable_guard_ends_in_another_thread(pair: &Pair) {
    let (first, second) = pair.two("moved");
    let guard = first.lock().unwrap().into_movable();
    assert!(
        matches!(first.try_lock(), Err(Error::Busy { .. })),
        "no re-entry any more"
    );
    thread::spawn(move || guard.unlock()).join().unwrap().unwrap();
    let guard = second.lock().unwrap().into_movable();
    thread::spawn(move || drop(guard.into_thread())).join().unwrap();
    drop(first.lock().unwrap());
}

fn a_fixed_lease_ends(pair: &Pair) {
    let (first, second) = pair.two("fixed");
    let guard = first.lease(Lease::fixed(Duration::from_millis(300))).lock().unwrap();
    let next = second.wait(Duration::from_secs(5)).lock().unwrap();
    assert!(next.token() > guard.token());
    assert!(matches!(guard.extend(Duration::from_secs(1)), Err(Error::Lost(_))));
    assert!(matches!(guard.unlock(), Err(Error::Lost(_))));
    assert_eq!(next.unlock(), Ok(Unlocked::Freed));
}

fn closing_frees(pair: &Pair) {
    let (first, second) = pair.two("closed");
    let guard = first.lock().unwrap();
    let report = pair.first.close_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(report.freed, ["closed"]);
    drop(second.try_lock().unwrap());
    drop(guard);
    assert!(matches!(first.lock(), Err(Error::Closed)));
}
