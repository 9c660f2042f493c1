//! Re-entry into a read-write lock, by scope in async code and by thread.

use std::thread;
use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, Lease, Unlocked, blocking};
use lockkeeper_testkit::{RedisServer, wait_until};

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    a_scope_that_writes_may_read_and_write,
    a_scope_that_reads_is_told_that_it_would_wait_for_itself,
    a_scope_that_reads_is_not_stopped_by_a_writer_that_waits,
    shared_holds_are_not_converted,
    a_guard_taken_out_of_its_scope_is_a_strangers,
);

fn is_busy<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

/// B22: writing, a caller may also read.
async fn a_scope_that_writes_may_read_and_write(stage: Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let lock = keeper.rwlock("inside");
    keeper
        .scope(async |scope| {
            let outer = scope.write(&lock).await.unwrap();
            let before = keeper.round_trips();
            let reading = scope.read(&lock).await.unwrap();
            let writing = scope.write(&lock).await.unwrap();
            assert_eq!(keeper.round_trips(), before, "no round trip");
            assert_eq!((reading.owner(), writing.token()), (outer.owner(), outer.token()));
            assert_eq!(writing.unlock().await, Ok(Unlocked::StillHeld));
            assert_eq!(outer.unlock().await, Ok(Unlocked::StillHeld));
            // The inner guard keeps the write hold.
            assert!(is_busy(&other.rwlock("inside").try_read().await));
            let writing = scope.write(&lock).await.unwrap();
            drop(reading);
            assert_eq!(writing.unlock().await, Ok(Unlocked::Freed));
            assert!(other.rwlock("inside").try_write().await.is_ok(), "free");
        })
        .await;
}

async fn a_scope_that_reads_is_told_that_it_would_wait_for_itself(stage: Stage) {
    let keeper = stage.keeper().await;
    let lock = keeper.rwlock("itself");
    keeper
        .scope(async |scope| {
            let reading = scope.read(&lock).await.unwrap();
            let before = keeper.round_trips();
            let refused = soon("an answer at once", scope.write(&lock)).await;
            assert!(
                matches!(&refused, Err(error @ Error::WouldWaitForItself { .. }) if error.to_string().contains("try_upgrade")),
                "{refused:?}"
            );
            assert_eq!(keeper.round_trips(), before);
            let writer = reading.into_owned().try_upgrade().await.unwrap();
            assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
        })
        .await;
}

async fn a_scope_that_reads_is_not_stopped_by_a_writer_that_waits(stage: Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let lock = keeper.rwlock("deep");
    keeper
        .scope(async |scope| {
            let outer = scope.read(&lock).await.unwrap();
            let writing = tokio::spawn(async move { other.rwlock("deep").write().await });
            wait_until("the writer", SOON, async || {
                !keeper.inspect("deep").await.unwrap().waiting.is_empty()
            })
            .await;
            assert!(is_busy(&lock.try_read().await), "a stranger is kept out");
            let inner = soon("the inner guard", scope.read(&lock)).await.unwrap();
            assert_eq!(outer.unlock().await, Ok(Unlocked::StillHeld));
            assert_eq!(inner.unlock().await, Ok(Unlocked::Freed));
            drop(soon("the writer", writing).await.unwrap().unwrap());
        })
        .await;
}

async fn shared_holds_are_not_converted(stage: Stage) {
    let keeper = stage.keeper().await;
    let lock = keeper.rwlock("shared");
    keeper
        .scope(async |scope| {
            let (outer, inner) = (scope.read(&lock).await.unwrap(), scope.read(&lock).await.unwrap());
            let (inner, error) = inner.into_owned().try_upgrade().await.unwrap_err();
            assert!(matches!(error, Error::SharedHold { .. }), "{error:?}");
            assert_eq!(inner.state(), HoldState::Held);
            drop(outer);
            let writer = inner.try_upgrade().await.unwrap();
            writer.unlock().await.unwrap();

            let (outer, inner) = (scope.write(&lock).await.unwrap(), scope.read(&lock).await.unwrap());
            let refused = outer.into_owned().downgrade().await;
            assert!(matches!(refused, Err(Error::SharedHold { .. })), "{refused:?}");
            // What shares a write hold is a writer at once.
            let writer = inner.into_owned().try_upgrade().await.unwrap();
            assert!(writer.token().get() > 0);
            assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
        })
        .await;
}

async fn a_guard_taken_out_of_its_scope_is_a_strangers(stage: Stage) {
    let keeper = stage.keeper().await;
    let lock = keeper.rwlock("out");
    let longer = lock.clone().lease(Lease::fixed(Duration::from_secs(60)));
    keeper
        .scope(async |scope| {
            let outer = scope
                .write(&lock.clone().lease(Lease::fixed(Duration::from_secs(20))))
                .await
                .unwrap();
            let refused = scope.read(&longer).await;
            assert!(matches!(refused, Err(Error::InnerLease { .. })), "{refused:?}");
            let owned = outer.into_owned();
            let refused = scope.read(&lock.clone().wait(Duration::ZERO)).await;
            assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
            assert_eq!(owned.unlock().await, Ok(Unlocked::Freed));
        })
        .await;
}

/// Two keepers for threads, on one engine.
struct Pair {
    first: blocking::Keeper,
    second: blocking::Keeper,
    _server: Option<RedisServer>,
}

impl Pair {
    fn embedded() -> Self {
        let first = Keeper::embedded();
        let second = first.embedded_peer().expect("embedded");
        Self {
            first: first.into(),
            second: second.into(),
            _server: None,
        }
    }

    fn redis() -> Self {
        let server = RedisServer::start();
        Self {
            first: blocking::Keeper::connect(&server.url()).unwrap(),
            second: blocking::Keeper::connect(&server.url()).unwrap(),
            _server: Some(server),
        }
    }
}

macro_rules! on_both_pairs {
    ($($case:ident),* $(,)?) => {
        mod threads_on_embedded { $( #[test] fn $case() { super::$case(&super::Pair::embedded()); } )* }
        mod threads_on_redis { $( #[test] fn $case() { super::$case(&super::Pair::redis()); } )* }
    };
}

on_both_pairs!(
    threads_read_together_and_write_alone,
    a_thread_reenters,
    a_thread_converts,
    a_thread_waits_and_is_woken,
    a_side_is_freed_by_force,
);

fn threads_read_together_and_write_alone(pair: &Pair) {
    let (first, second) = (pair.first.rwlock("threads"), pair.second.rwlock("threads"));
    let reader = first.read().unwrap();
    assert!(second.try_read().is_ok());
    assert!(is_busy(&second.try_write()));
    assert_eq!(reader.name(), "threads");
    assert_eq!(reader.unlock(), Ok(Unlocked::Freed));
    let writer = second.write().unwrap();
    assert!(is_busy(&first.try_read()) && is_busy(&first.try_write()));
    let refused = first.wait(Duration::from_millis(100)).read();
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    assert!(writer.remaining() > Duration::from_secs(1));
    assert_eq!(writer.unlock(), Ok(Unlocked::Freed));
}

fn a_thread_reenters(pair: &Pair) {
    let (lock, other) = (pair.first.rwlock("again"), pair.second.rwlock("again"));
    let writer = lock.write().unwrap();
    let (reading, writing) = (lock.read().unwrap(), lock.try_write().unwrap());
    assert_eq!(reading.owner(), writer.owner());
    assert_eq!(writing.token(), writer.token());
    thread::scope(|scope| {
        scope.spawn(|| assert!(is_busy(&lock.try_read()), "another thread is a stranger"));
    });
    assert_eq!(writer.unlock(), Ok(Unlocked::StillHeld));
    assert_eq!(writing.unlock(), Ok(Unlocked::StillHeld));
    assert!(is_busy(&other.try_read()));
    assert_eq!(reading.unlock(), Ok(Unlocked::Freed));

    let reader = lock.read().unwrap();
    let again = lock.read().unwrap();
    for refused in [lock.write(), lock.try_write()] {
        assert!(matches!(refused, Err(Error::WouldWaitForItself { .. })), "{refused:?}");
    }
    assert_eq!(reader.unlock(), Ok(Unlocked::StillHeld));
    assert!(is_busy(&other.try_write()));
    // Made movable, it is nobody's in particular.
    let movable = again.into_async();
    assert!(is_busy(&lock.try_write()));
    drop(movable);
    assert!(other.write().is_ok());
}

fn a_thread_converts(pair: &Pair) {
    let (lock, other) = (pair.first.rwlock("convert"), pair.second.rwlock("convert"));
    let (reader, stranger) = (lock.read().unwrap(), other.read().unwrap());
    let (reader, error) = reader.try_upgrade().unwrap_err();
    assert!(matches!(error, Error::OtherReaders { .. }), "{error:?}");
    stranger.unlock().unwrap();
    let writer = reader.try_upgrade().unwrap();
    assert!(writer.token().get() > 0);
    assert!(lock.read().is_ok(), "the thread writes now");
    let reader = writer.downgrade().unwrap();
    assert!(other.try_read().is_ok() && is_busy(&other.try_write()));
    assert!(lock.read().is_ok());
    assert_eq!(reader.unlock(), Ok(Unlocked::Freed));
    assert!(other.wait(SOON).write().is_ok());
}

fn a_thread_waits_and_is_woken(pair: &Pair) {
    let (first, second) = (pair.first.rwlock("woken"), pair.second.rwlock("woken"));
    for _ in 0..3 {
        let writer = first.write().unwrap();
        let waiting = {
            let second = second.clone();
            thread::spawn(move || second.wait(SOON).read().map(|guard| guard.unlock()))
        };
        writer.unlock().unwrap();
        assert!(matches!(waiting.join().unwrap(), Ok(Ok(Unlocked::Freed))));
        let reader = second.read().unwrap();
        let waiting = {
            let first = first.clone();
            thread::spawn(move || first.wait(SOON).write().map(|guard| guard.unlock()))
        };
        reader.unlock().unwrap();
        assert!(matches!(waiting.join().unwrap(), Ok(Ok(Unlocked::Freed))));
    }
}

fn a_side_is_freed_by_force(pair: &Pair) {
    let (first, second) = (pair.first.rwlock("force"), pair.second.rwlock("force"));
    let reader = first.read().unwrap();
    assert_eq!(second.force_unlock_write(), Ok(false));
    assert_eq!(second.force_unlock_read(), Ok(true));
    let writer = second.write().unwrap();
    assert_eq!(first.force_unlock_read(), Ok(false));
    assert_eq!(first.force_unlock_write(), Ok(true));
    drop((reader, writer));
}
