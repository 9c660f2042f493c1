use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Keeper, Lease, LossReason, RwLock, Unlocked};
use lockkeeper_testkit::wait_until;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    readers_are_together_and_writers_alone,
    all_readers_who_wait_come_in_together,
    a_writer_waits_for_the_last_reader,
    each_reader_has_a_lease_of_its_own,
    a_dead_reader_costs_its_own_lease,
    a_dead_writer_costs_its_lease,
    every_hold_is_renewed,
    a_writer_becomes_a_reader_and_nobody_writes_in_between,
    a_reader_that_was_a_writer_is_renewed,
    the_only_reader_becomes_the_writer,
    two_readers_cannot_both_become_writers,
    tokens_rise_from_writer_to_writer,
    a_lost_hold_is_not_converted,
    a_converted_hold_keeps_its_longest_total_time,
    other_kinds_are_refused_and_kept,
    each_side_is_freed_by_force_alone,
    an_extended_read_hold_keeps_writers_out_for_longer,
    inspection_tells_readers_writers_and_who_waits,
    dropping_guards_frees,
    many_processes_read_and_write_at_random,
);

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The same lock seen by two processes.
async fn two(stage: &Stage, name: &str) -> (RwLock, RwLock) {
    (stage.keeper().await.rwlock(name), stage.keeper().await.rwlock(name))
}

fn is_busy<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

async fn readers_are_together_and_writers_alone(stage: Stage) {
    let (first, second) = two(&stage, "prices").await;
    let readers = [
        first.read().await.unwrap(),
        first.read().await.unwrap(),
        second.try_read().await.unwrap(),
    ];
    assert!(is_busy(&first.try_write().await) && is_busy(&second.try_write().await));
    for reader in readers {
        assert!(is_busy(&second.try_write().await));
        assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    }
    let writer = second.try_write().await.unwrap();
    for lock in [&first, &second] {
        assert!(is_busy(&lock.try_write().await) && is_busy(&lock.try_read().await));
        let waited = lock.clone().wait(ms(100)).read().await;
        assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    }
    assert!(first.try_read().await.is_err());
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
    first.try_read().await.unwrap().unlock().await.unwrap();
}

async fn all_readers_who_wait_come_in_together(stage: Stage) {
    let (first, second) = two(&stage, "gate").await;
    let writer = first.write().await.unwrap();
    let everybody = std::sync::Arc::new(tokio::sync::Barrier::new(20));
    let readers: Vec<_> = (0..20)
        .map(|number| {
            let lock = if number % 2 == 0 { first.clone() } else { second.clone() };
            let everybody = std::sync::Arc::clone(&everybody);
            tokio::spawn(async move {
                let guard = lock.read().await.unwrap();
                // Nobody goes on before all are in.
                everybody.wait().await;
                guard.unlock().await.unwrap();
            })
        })
        .collect();
    assert!(is_busy(&second.try_read().await));
    writer.unlock().await.unwrap();
    for reader in readers {
        soon("a reader", reader).await.unwrap();
    }
}

async fn a_writer_waits_for_the_last_reader(stage: Stage) {
    let (first, second) = two(&stage, "last").await;
    let (one, another) = (first.read().await.unwrap(), second.read().await.unwrap());
    let writing = tokio::spawn({
        let second = second.clone();
        async move { second.write().await }
    });
    one.unlock().await.unwrap();
    assert!(is_busy(&first.try_write().await));
    another.unlock().await.unwrap();
    let writer = soon("the writer", writing).await.unwrap().unwrap();
    assert!(is_busy(&first.try_read().await));
    writer.unlock().await.unwrap();
}

/// B19: the short lease of a second reader, who dies, cuts nobody's.
async fn each_reader_has_a_lease_of_its_own(stage: Stage) {
    let (first, second) = two(&stage, "leases").await;
    let started = Instant::now();
    // Guards of fixed leases that nobody gives up: as if their holders had died.
    let _long = first.clone().lease(Lease::fixed(ms(1500))).read().await.unwrap();
    let _short = second.clone().lease(Lease::fixed(ms(200))).read().await.unwrap();
    let waiting = second.write();
    let writer = soon("the end of the longer lease", waiting).await.unwrap();
    let waited = started.elapsed();
    assert!(waited >= ms(1500), "{waited:?}");
    writer.unlock().await.unwrap();
}

/// The other way round: a hold with a long lease that ends early leaves the hash no longer than the dead reader's own.
async fn a_dead_reader_costs_its_own_lease(stage: Stage) {
    let (first, second) = two(&stage, "dead").await;
    let _dead = first.clone().lease(Lease::fixed(ms(600))).read().await.unwrap();
    let alive = second.read().await.unwrap();
    alive.unlock().await.unwrap();
    assert!(is_busy(&second.try_write().await), "the dead reader's lease is kept");
    let writer = soon("the end of the dead reader's lease", second.write())
        .await
        .unwrap();
    writer.unlock().await.unwrap();
}

async fn a_dead_writer_costs_its_lease(stage: Stage) {
    let (first, second) = two(&stage, "dead").await;
    let started = Instant::now();
    let _dead = first.clone().lease(Lease::fixed(ms(500))).write().await.unwrap();
    let readers = [tokio::spawn(read(first)), tokio::spawn(read(second))];
    for reader in readers {
        let reader = soon("the end of the writer's lease", reader).await.unwrap();
        assert!(started.elapsed() >= ms(500));
        reader.unlock().await.unwrap();
    }
}

async fn read(lock: RwLock) -> lockkeeper::RwLockReadGuard {
    lock.read().await.unwrap()
}

async fn every_hold_is_renewed(stage: Stage) {
    let (first, second) = two(&stage, "renewed").await;
    let lease = Lease::renewed(ms(300));
    let mut readers = Vec::new();
    for number in 0..50 {
        let name = format!("renewed:{}", number % 10);
        let lock = stage.keeper().await.rwlock(name).lease(lease);
        readers.push(lock.read().await.unwrap());
    }
    let writer = first.lease(lease).write().await.unwrap();
    let started = Instant::now();
    while started.elapsed() < ms(1200) {
        assert!(is_busy(&second.try_read().await));
        assert!(readers.iter().all(|reader| reader.remaining() > Duration::ZERO));
        tokio::time::sleep(ms(50)).await;
    }
    for reader in readers {
        assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    }
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
}

async fn a_writer_becomes_a_reader_and_nobody_writes_in_between(stage: Stage) {
    let (first, second) = two(&stage, "down").await;
    let writer = first.write().await.unwrap();
    let writing = tokio::spawn({
        let second = second.clone();
        async move { second.write().await }
    });
    waits(&stage.keeper().await, "down", 1).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.state(), HoldState::Held);
    assert!(is_busy(&first.try_write().await), "it reads");
    assert!(is_busy(&first.try_read().await), "a writer waits");
    reader.unlock().await.unwrap();
    let writer = soon("the writer behind", writing).await.unwrap().unwrap();

    // Readers who wait are woken.
    let readers = [tokio::spawn(read(first.clone())), tokio::spawn(read(second.clone()))];
    let reader = writer.downgrade().await.unwrap();
    for other in readers {
        soon("a reader beside it", other).await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    second.try_write().await.unwrap().unlock().await.unwrap();
}

/// Waits until so many writers have left a notice.
async fn waits(keeper: &Keeper, name: &str, writers: usize) {
    wait_until("writers that wait", SOON, async || {
        let waiting = keeper.inspect(name).await.unwrap().waiting.len();
        if waiting == writers { Ok(()) } else { Err(waiting) }
    })
    .await;
}

/// B20: what was a write hold is renewed as a read hold.
async fn a_reader_that_was_a_writer_is_renewed(stage: Stage) {
    let (first, second) = two(&stage, "down").await;
    let writer = first.lease(Lease::renewed(ms(400))).write().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    let started = Instant::now();
    while started.elapsed() < ms(1400) {
        assert!(is_busy(&second.try_write().await));
        assert_ne!(reader.remaining(), Duration::ZERO);
        tokio::time::sleep(ms(50)).await;
    }
    assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    second.try_write().await.unwrap().unlock().await.unwrap();
}

/// B22: a sole reader need not wait for itself.
async fn the_only_reader_becomes_the_writer(stage: Stage) {
    let (first, second) = two(&stage, "up").await;
    let reader = first.lease(Lease::renewed(ms(400))).read().await.unwrap();
    let view = reader.handle();
    let writer = reader.try_upgrade().await.unwrap();
    assert!(writer.token().get() > 0);
    assert!(matches!(view.state(), HoldState::Lost(_)), "the read hold is given up");
    let started = Instant::now();
    while started.elapsed() < ms(1000) {
        assert!(is_busy(&second.try_read().await));
        assert_ne!(writer.remaining(), Duration::ZERO);
        tokio::time::sleep(ms(50)).await;
    }
    let reader = writer.downgrade().await.unwrap();
    let writer = reader.try_upgrade().await.unwrap();
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
    second.try_write().await.unwrap().unlock().await.unwrap();
}

async fn two_readers_cannot_both_become_writers(stage: Stage) {
    let (first, second) = two(&stage, "up").await;
    let lease = Lease::renewed(ms(400));
    let one = first.lease(lease).read().await.unwrap();
    let another = second.clone().lease(lease).read().await.unwrap();
    let (one, another) = soon("both to be refused", async {
        tokio::join!(one.try_upgrade(), another.try_upgrade())
    })
    .await;
    let (Err((one, error)), Err((another, other_error))) = (one, another) else {
        panic!("two readers beside each other");
    };
    for error in [error, other_error] {
        assert!(matches!(error, Error::OtherReaders { .. }), "{error:?}");
        assert!(error.is_contention());
    }
    // Both still read, and are renewed.
    tokio::time::sleep(ms(700)).await;
    assert!(is_busy(&second.try_write().await));
    assert_eq!(another.unlock().await, Ok(Unlocked::Freed));
    let writer = one.try_upgrade().await.unwrap();
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
}

async fn tokens_rise_from_writer_to_writer(stage: Stage) {
    let (first, second) = two(&stage, "tokens").await;
    let mut last = None;
    for round in 0..9 {
        let lock = if round % 2 == 0 { &first } else { &second };
        let writer = match round % 3 {
            0 => lock.read().await.unwrap().try_upgrade().await.unwrap(),
            _ => lock.write().await.unwrap(),
        };
        assert!(last < Some(writer.token()), "{last:?} then {:?}", writer.token());
        last = Some(writer.token());
        let reader = writer.downgrade().await.unwrap();
        assert_eq!(reader.handle().token().get(), 0);
        reader.unlock().await.unwrap();
    }
    assert_eq!(stage.keeper().await.inspect("tokens").await.unwrap().token, last);
}

async fn a_lost_hold_is_not_converted(stage: Stage) {
    let (first, second) = two(&stage, "lost").await;
    let lease = Lease::fixed(Duration::from_secs(20));
    let reader = first.clone().lease(lease).read().await.unwrap();
    assert_eq!(second.force_unlock_read().await, Ok(true));
    let writer = second.write().await.unwrap();
    let (reader, error) = reader.try_upgrade().await.unwrap_err();
    assert_eq!(error, Error::Lost(LossReason::GoneOnServer));
    assert_eq!(reader.state(), HoldState::Lost(LossReason::GoneOnServer));
    drop(reader);
    assert_eq!(first.force_unlock_write().await, Ok(true));
    let other = first.read().await.unwrap();
    assert_eq!(writer.downgrade().await.unwrap_err(), Error::NotHeld);
    assert_eq!(other.unlock().await, Ok(Unlocked::Freed));
}

async fn a_converted_hold_keeps_its_longest_total_time(stage: Stage) {
    let (first, _) = two(&stage, "longest").await;
    let longest = ms(700);
    let reader = first.longest_hold(longest).read().await.unwrap();
    let writer = reader.try_upgrade().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    assert!(reader.remaining() <= longest);
    let reason = soon("its longest time", reader.lost()).await;
    assert_eq!(reason, LossReason::LongestHoldReached);
}

/// B23: a mutex and a read-write lock of one name are told apart, and neither spoils the other.
async fn other_kinds_are_refused_and_kept(stage: Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let guard = keeper.mutex("one").lock().await.unwrap();
    let lock = other.rwlock("one");
    let refused = [
        lock.try_read().await.map(drop),
        lock.try_write().await.map(drop),
        lock.clone().wait(ms(100)).read().await.map(drop),
        lock.write().await.map(drop),
        lock.force_unlock_read().await.map(drop),
        lock.force_unlock_write().await.map(drop),
    ];
    for refused in refused {
        let wanted = "read-write lock";
        assert!(
            matches!(&refused, Err(Error::WrongKind { wanted: told, .. }) if *told == wanted),
            "{refused:?}"
        );
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));

    let (reader, twin) = (lock.read().await.unwrap(), keeper.mutex("one"));
    let writer = other.rwlock("two").write().await.unwrap();
    for mutex in [
        twin,
        keeper.mutex("two"),
        keeper.fair_mutex("two"),
        keeper.fenced_mutex("one"),
    ] {
        assert!(matches!(mutex.try_lock().await, Err(Error::WrongKind { .. })));
        assert!(matches!(mutex.force_unlock().await, Err(Error::WrongKind { .. })));
    }
    assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
}

async fn each_side_is_freed_by_force_alone(stage: Stage) {
    let (first, second) = two(&stage, "force").await;
    assert_eq!(second.force_unlock_read().await, Ok(false));
    assert_eq!(second.force_unlock_write().await, Ok(false));
    let lease = Lease::fixed(Duration::from_secs(20));
    let reader = first.clone().lease(lease).read().await.unwrap();
    assert_eq!(second.force_unlock_write().await, Ok(false));
    assert_eq!(second.force_unlock_read().await, Ok(true));
    assert_eq!(reader.unlock().await, Err(Error::NotHeld));
    let writer = first.lease(lease).write().await.unwrap();
    let waiting = tokio::spawn(read(second.clone()));
    assert_eq!(second.force_unlock_read().await, Ok(false));
    assert_eq!(second.force_unlock_write().await, Ok(true));
    let reader = soon("the reader who waited", waiting).await.unwrap();
    assert_eq!(writer.unlock().await, Err(Error::NotHeld));
    assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
}

async fn an_extended_read_hold_keeps_writers_out_for_longer(stage: Stage) {
    let (first, second) = two(&stage, "extended").await;
    let short = first.clone().lease(Lease::fixed(ms(300)));
    let (one, another) = (short.read().await.unwrap(), short.read().await.unwrap());
    one.extend(Duration::from_secs(20)).await.unwrap();
    assert!(one.remaining() > Duration::from_secs(15));
    assert!(another.remaining() < Duration::from_secs(1), "each by itself");
    let waited = second.clone().wait(ms(700)).write().await;
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    assert_eq!(one.unlock().await, Ok(Unlocked::Freed));
    second.try_write().await.unwrap().unlock().await.unwrap();
}

async fn inspection_tells_readers_writers_and_who_waits(stage: Stage) {
    let (first, second) = two(&stage, "shown").await;
    let keeper = stage.keeper().await;
    let long = first.clone().lease(Lease::fixed(Duration::from_secs(60)));
    let short = second.clone().lease(Lease::fixed(Duration::from_secs(20)));
    let readers = [long.read().await.unwrap(), short.read().await.unwrap()];
    let found = keeper.inspect("shown").await.unwrap();
    assert_eq!(found.kind.as_deref(), Some("rwlock"));
    for (reader, seconds) in readers.iter().zip([60, 20]) {
        let holder = found.holders.iter().find(|holder| holder.owner == reader.owner());
        let holder = holder.expect("each reader");
        let left = holder.time_left.expect("a life");
        assert!(!holder.writes && holder.holds == 1);
        assert!(
            left <= Duration::from_secs(seconds) && left > Duration::from_secs(seconds - 10),
            "{left:?}"
        );
    }
    let writing = tokio::spawn(async move { second.write().await.unwrap() });
    waits(&keeper, "shown", 1).await;
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    let writer = soon("the writer", writing).await.unwrap();
    let found = keeper.inspect("shown").await.unwrap();
    assert!(found.waiting.is_empty());
    assert_eq!(found.holders.len(), 1);
    assert!(found.holders[0].writes && found.holders[0].owner == writer.owner());
    assert_eq!(found.token, Some(writer.token()));
    writer.unlock().await.unwrap();
    assert!(!keeper.inspect("shown").await.unwrap().is_held());
}

async fn dropping_guards_frees(stage: Stage) {
    let (first, second) = two(&stage, "dropped").await;
    for _ in 0..3 {
        drop((first.read().await.unwrap(), second.read().await.unwrap()));
        let writer = soon("the writer", second.write()).await.unwrap();
        drop(writer);
        drop(soon("the reader", first.read()).await.unwrap());
        let writer = soon("the writer", first.write()).await.unwrap();
        drop(writer.downgrade());
    }
    soon("the last one", second.write())
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

async fn many_processes_read_and_write_at_random(stage: Stage) {
    let mut tasks = Vec::new();
    let written = std::sync::Arc::new(std::sync::Mutex::new((0_u32, 0_u32)));
    for _ in 0..16 {
        let lock = stage.keeper().await.rwlock("random");
        let written = std::sync::Arc::clone(&written);
        tasks.push(tokio::spawn(async move {
            for _ in 0..12 {
                if fastrand::u32(0..3) == 0 {
                    let guard = lock.write().await.unwrap();
                    written.lock().unwrap().0 += 1;
                    tokio::task::yield_now().await;
                    written.lock().unwrap().1 += 1;
                    guard.unlock().await.unwrap();
                } else {
                    let guard = lock.read().await.unwrap();
                    let (one, other) = *written.lock().unwrap();
                    assert_eq!(one, other, "a writer beside a reader");
                    guard.unlock().await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task)
            .await
            .expect("everybody gets in")
            .unwrap();
    }
    drop(stage.keeper().await.rwlock("random").try_write().await.unwrap());
}
