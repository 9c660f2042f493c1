//! Guards that are not given up in good order: early return, panic, abort, a runtime's end, odd threads.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use lockkeeper::{Error, Keeper, Layout, Mutex, MutexGuard, Unlocked, blocking};
use lockkeeper_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::in_both_layouts;
use super::stage::{Stage, soon};

in_both_layouts!(
    a_task_that_ends_early_frees_at_once,
    a_guard_may_be_dropped_in_any_thread,
    blocking_calls_in_async_code_are_refused
);

/// The lease is 30 s, so whoever gets in now was let in by a release.
async fn is_free_soon(other: &Mutex, what: &str) {
    let started = Instant::now();
    let guard = soon(what, other.lock())
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{what}: {:?}",
        started.elapsed()
    );
    guard.unlock().await.unwrap();
}

async fn a_task_that_ends_early_frees_at_once(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    let other = stage.keeper().await;
    ends_early(&stage.mutex(&keeper, "early"), &stage.mutex(&other, "early")).await;
    stage.nothing_left().await;
}

#[tokio::test]
async fn a_task_that_ends_early_frees_the_embedded_lock() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    ends_early(&keeper.mutex("early"), &other.mutex("early")).await;
}

async fn ends_early(mutex: &Mutex, other: &Mutex) {
    async fn returns_early(mutex: Mutex) -> Result<(), std::num::ParseIntError> {
        let _guard = mutex.lock().await.unwrap();
        "not a number".parse::<u8>()?;
        std::future::pending().await
    }
    assert!(returns_early(mutex.clone()).await.is_err());
    is_free_soon(other, "after an early return").await;

    let holder = mutex.clone();
    let panicking = tokio::spawn(async move {
        let _guard = holder.lock().await.unwrap();
        panic!("on purpose: the holder of a lock panics");
    });
    assert!(panicking.await.unwrap_err().is_panic());
    is_free_soon(other, "after a panic").await;

    let (holds, is_held) = oneshot::channel();
    let holder = mutex.clone();
    let aborted = tokio::spawn(async move {
        let _guard = holder.lock().await.unwrap();
        holds.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    is_held.await.unwrap();
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    is_free_soon(other, "after an abort").await;

    // The same for work that runs under the lock.
    let (holds, is_held) = oneshot::channel();
    let holder = mutex.clone();
    let aborted = tokio::spawn(async move {
        let ran = holder.run(|_| async move {
            holds.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        ran.await.map(drop)
    });
    is_held.await.unwrap();
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    is_free_soon(other, "after aborted work").await;
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

type End = fn(Runtime);

/// How a runtime can go while a task of it holds the lock.
fn ends_of_runtimes() -> [(&'static str, End); 3] {
    [
        ("dropped", |runtime| drop(runtime)),
        ("shut down in the background", Runtime::shutdown_background),
        ("shut down with a limit", |runtime| {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }),
    ]
}

#[test]
fn the_end_of_a_runtime_frees_without_panic_or_hang() {
    let server = RedisServer::start();
    for layout in [Layout::Redisson, Layout::Plain] {
        let other = blocking::Keeper::connect(&server.url()).unwrap();
        let other = other.mutex("runtime").layout(layout).wait(Duration::from_secs(10));
        for (how, end) in ends_of_runtimes() {
            let ending = runtime();
            let guard_of_task = ending.block_on(hold_in_a_task(&server.url(), layout));
            let started = Instant::now();
            end(ending);
            assert!(
                started.elapsed() < Duration::from_secs(8),
                "{how}: {:?}",
                started.elapsed()
            );
            let guard = other.lock().unwrap_or_else(|error| panic!("{how}: {error}"));
            assert_eq!(guard.unlock(), Ok(Unlocked::Freed), "{how}");
            drop(guard_of_task);
        }
    }
}

async fn hold_in_a_task(url: &str, layout: Layout) -> tokio::task::JoinHandle<()> {
    let mutex = Keeper::connect(url).await.unwrap().mutex("runtime").layout(layout);
    let (holds, is_held) = oneshot::channel();
    let task = tokio::spawn(async move {
        let _guard = mutex.lock().await.unwrap();
        holds.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    is_held.await.unwrap();
    task
}

#[test]
fn the_end_of_a_runtime_frees_the_embedded_lock() {
    for (how, end) in ends_of_runtimes() {
        let ending = runtime();
        let keeper = ending.block_on(async { Keeper::embedded() });
        let guard = ending.block_on(keeper.mutex("runtime").lock()).unwrap();
        end(ending);
        // The guard outlives the runtime that its keeper was made in.
        drop(guard);
        let after = runtime();
        let again = after.block_on(keeper.mutex("runtime").try_lock());
        assert!(again.is_ok(), "{how}: {again:?}");
    }
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Option<MutexGuard>> = const { RefCell::new(None) };
}

static OF_THE_PROCESS: std::sync::Mutex<Option<MutexGuard>> = std::sync::Mutex::new(None);

async fn a_guard_may_be_dropped_in_any_thread(layout: Layout) {
    let stage = Stage::new(layout);
    let redis = stage.keeper().await;
    let redis_peer = stage.keeper().await;
    let embedded = Keeper::embedded();
    let embedded_peer = embedded.embedded_peer().unwrap();
    for (keeper, peer) in [(redis, redis_peer), (embedded, embedded_peer)] {
        let (mutex, other) = (stage.mutex(&keeper, "thread"), stage.mutex(&peer, "thread"));
        let taken = async || soon("the lock", mutex.lock()).await.unwrap();

        let guard = taken().await;
        std::thread::spawn(move || drop(guard)).join().unwrap();
        is_free_soon(&other, "dropped in a plain thread").await;

        let guard = taken().await;
        tokio::task::spawn_blocking(move || drop(guard)).await.unwrap();
        is_free_soon(&other, "dropped in a blocking task").await;

        let guard = taken().await;
        let panicked = std::thread::spawn(move || {
            let _guard = guard;
            panic!("on purpose: a thread that holds a lock panics");
        });
        assert!(panicked.join().is_err());
        is_free_soon(&other, "dropped by a panic").await;

        let guard = taken().await;
        std::thread::spawn(move || OF_THIS_THREAD.set(Some(guard)))
            .join()
            .unwrap();
        is_free_soon(&other, "dropped with its thread").await;

        let guard = taken().await;
        *OF_THE_PROCESS.lock().unwrap() = Some(guard);
        std::thread::spawn(|| *OF_THE_PROCESS.lock().unwrap() = None)
            .join()
            .unwrap();
        is_free_soon(&other, "dropped out of a static").await;

        let guard = taken().await;
        let elsewhere = std::thread::spawn(move || {
            let other_runtime = Builder::new_current_thread().enable_all().build().unwrap();
            other_runtime.block_on(async move { drop(guard) });
            other_runtime.shutdown_background();
        });
        elsewhere.join().unwrap();
        is_free_soon(&other, "dropped in a runtime that ends").await;

        // Not even the keeper has to be there any more.
        let guard = taken().await;
        drop((mutex, keeper));
        std::thread::spawn(move || drop(guard)).join().unwrap();
        is_free_soon(&other, "dropped after its keeper").await;
    }
    stage.nothing_left().await;
}

async fn blocking_calls_in_async_code_are_refused(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = blocking::Keeper::from(stage.keeper().await);
    let mutex = keeper.mutex("blocking").layout(layout);
    let sent = keeper.to_async().round_trips();
    assert_eq!(mutex.lock().map(drop), Err(Error::BlockingInAsync));
    assert_eq!(mutex.try_lock().map(drop), Err(Error::BlockingInAsync));
    assert_eq!(mutex.force_unlock(), Err(Error::BlockingInAsync));
    assert_eq!(keeper.inspect("blocking").map(drop), Err(Error::BlockingInAsync));
    assert_eq!(
        keeper.close_timeout(Duration::from_secs(1)).map(drop),
        Err(Error::BlockingInAsync)
    );
    assert_eq!(
        blocking::Keeper::connect(&stage.server.url()).map(drop),
        Err(Error::BlockingInAsync)
    );
    assert_eq!(keeper.to_async().round_trips(), sent, "nothing was sent");

    // Where blocking does no harm it is allowed.
    let elsewhere = mutex.clone();
    let unlocked = tokio::task::spawn_blocking(move || elsewhere.lock().unwrap().unlock().unwrap());
    soon("a blocking task", unlocked).await.unwrap();
    tokio::task::block_in_place(|| drop(mutex.lock().unwrap()));

    // A guard that was taken in good order and is given up in async code is not lost.
    let movable = tokio::task::block_in_place(|| mutex.lock().unwrap().into_movable());
    // `block_in_place` lifts the mark of async code until the task waits again.
    tokio::task::yield_now().await;
    assert_eq!(movable.into_thread().unlock(), Err(Error::BlockingInAsync));
    stage.nothing_left().await;
}

/// The same on the one thread of a small runtime, where a blocking call would hang for ever.
#[tokio::test(flavor = "current_thread")]
async fn a_blocking_call_on_the_only_thread_is_refused() {
    let stage = Stage::new(Layout::Redisson);
    let keeper = blocking::Keeper::from(stage.keeper().await);
    assert_eq!(keeper.mutex("only").lock().map(drop), Err(Error::BlockingInAsync));
    let embedded = blocking::Keeper::from(Keeper::embedded());
    assert_eq!(embedded.mutex("only").lock().map(drop), Err(Error::BlockingInAsync));
}
