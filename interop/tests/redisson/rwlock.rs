//! `RReadWriteLock` and the read-write lock.

use std::time::Duration;

use lockkeeper::{Error, Keeper, Lease, RwLock};
use lockkeeper_testkit::wait_until;
use redis::cmd;

use super::stage::{LONG, SOON, key, ms, soon, stage};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn handle(keeper: &Keeper, name: &str) -> RwLock {
    keeper.rwlock(name).lease(Lease::fixed(LONG))
}

async fn time_left(name: &str) -> i64 {
    stage().server.query(cmd("PTTL").arg(name)).await
}

#[tokio::test]
async fn readers_of_both_come_in_together() {
    let (java, other) = (stage().thread("rwlock-1"), stage().thread("rwlock-1-other"));
    let keeper = stage().keeper().await;
    let lock = handle(&keeper, "rwlock-1");
    java.tell("read lock rwlock-1 30000").await;
    java.tell("read lock rwlock-1 30000").await;
    let guard = lock.read().await.unwrap();
    let found = keeper.inspect("rwlock-1").await.unwrap();
    assert_eq!(found.kind.as_deref(), Some("rwlock"));
    assert!(found.holders.iter().all(|holder| !holder.writes));
    let mut holders: Vec<(String, u64)> = found
        .holders
        .into_iter()
        .map(|holder| (holder.owner, holder.holds))
        .collect();
    holders.sort();
    let mut expected = [
        (
            java.ask::<String>("client owner -").await,
            java.ask("read getHoldCount rwlock-1").await,
        ),
        (guard.owner().to_owned(), 1),
    ];
    expected.sort();
    assert_eq!(holders, expected);
    assert!(other.ask::<bool>("read isLocked rwlock-1").await);

    // Each writer is kept out until the last reader of either side has gone.
    java.tell("read unlock rwlock-1").await;
    assert!(matches!(lock.try_write().await, Err(Error::Busy { .. })));
    java.tell("read unlock rwlock-1").await;
    assert!(matches!(lock.try_write().await, Err(Error::Busy { .. })));
    assert!(!other.ask::<bool>("write tryLock rwlock-1").await);
    guard.unlock().await.unwrap();
    assert!(other.ask::<bool>("write tryLock rwlock-1").await);
    other.tell("write unlock rwlock-1").await;
}

#[tokio::test]
async fn no_reader_shortens_anothers_lease() {
    let (java, keeper) = (stage().thread("rwlock-2"), stage().keeper().await);
    // Ours is the longer one, and then Java's.
    java.tell("read lock rwlock-2 20000").await;
    let guard = handle(&keeper, "rwlock-2").read().await.unwrap();
    assert!(time_left("rwlock-2").await > 20_000);
    java.tell("read unlock rwlock-2").await;
    assert!(time_left("rwlock-2").await > 20_000, "ours lasts on");
    java.tell("read lock rwlock-2 90000").await;
    guard.unlock().await.unwrap();
    assert!(time_left("rwlock-2").await > 60_000, "Java's lasts on");
    java.tell("read unlock rwlock-2").await;

    // A short one of ours that goes leaves no more than what the other has.
    java.tell("read lock rwlock-2 20000").await;
    let guard = handle(&keeper, "rwlock-2").read().await.unwrap();
    guard.unlock().await.unwrap();
    let left = time_left("rwlock-2").await;
    assert!(
        (1..=20_000).contains(&left),
        "a reader that has gone keeps no writer out: {left}"
    );
    java.tell("read unlock rwlock-2").await;
    assert_eq!(time_left("rwlock-2").await, -2);
}

#[tokio::test]
async fn a_writer_of_ours_wakes_all_readers_of_java() {
    let keeper = stage().keeper().await;
    let guard = handle(&keeper, "rwlock-3").write().await.unwrap();
    let names = ["rwlock-3-a", "rwlock-3-b", "rwlock-3-c"];
    let waiting = names.map(|name| stage().thread(name).start("read lock rwlock-3 60000"));
    stage().waiting("read", "rwlock-3", 1).await;
    // All three have asked and been refused, since each asks before it sleeps.
    assert!(waiting.iter().all(lockkeeper_interop::Pending::is_under_way));
    guard.unlock().await.unwrap();
    for (name, waiting) in names.into_iter().zip(waiting) {
        soon("a read lock", waiting.value::<String>()).await;
        assert!(
            stage()
                .thread(name)
                .ask::<bool>("read isHeldByCurrentThread rwlock-3")
                .await
        );
    }
    for name in names {
        stage().thread(name).tell("read unlock rwlock-3").await;
    }
}

#[tokio::test]
async fn a_writer_of_java_wakes_all_readers_of_ours() {
    let (java, keeper) = (stage().thread("rwlock-4"), stage().keeper().await);
    java.tell("write lock rwlock-4 60000").await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let lock = handle(&keeper, "rwlock-4");
            tokio::spawn(async move { lock.read().await.unwrap() })
        })
        .collect();
    stage().waiting("read", "rwlock-4", 1).await;
    java.tell("write unlock rwlock-4").await;
    let mut guards = Vec::new();
    for waiting in waiting {
        guards.push(soon("a read lock", waiting).await.unwrap());
    }
    assert_eq!(keeper.inspect("rwlock-4").await.unwrap().holders.len(), 3);
}

#[tokio::test]
async fn our_downgrade_wakes_javas_readers() {
    let (java, other) = (stage().thread("rwlock-5"), stage().thread("rwlock-5-other"));
    let keeper = stage().keeper().await;
    let writer = handle(&keeper, "rwlock-5").write().await.unwrap();
    let waiting = java.start("read lock rwlock-5 60000");
    stage().waiting("read", "rwlock-5", 1).await;
    let reader = writer.downgrade().await.unwrap();
    soon("a call to Java", waiting.value::<String>()).await;
    assert!(!other.ask::<bool>("write tryLock rwlock-5").await);
    reader.unlock().await.unwrap();
    assert!(!other.ask::<bool>("write tryLock rwlock-5").await);
    java.tell("read unlock rwlock-5").await;
    assert!(other.ask::<bool>("write tryLock rwlock-5").await);
    other.tell("write unlock rwlock-5").await;
}

/// Java's publishes nothing, so a reader of ours comes in when it looks again.
#[tokio::test]
async fn javas_downgrade_lets_our_readers_in() {
    let java = stage().thread("rwlock-6");
    let builder = Keeper::builder().recheck(seconds(1));
    let keeper = builder.connect(&stage().server.url()).await.unwrap();
    java.tell("write lock rwlock-6 60000").await;
    java.tell("read lock rwlock-6 60000").await;
    let lock = handle(&keeper, "rwlock-6");
    for refused in [lock.try_read().await.err(), lock.try_write().await.err()] {
        assert!(matches!(refused, Some(Error::Busy { .. })), "{refused:?}");
    }
    let reading = lock.clone();
    let waiting = tokio::spawn(async move { reading.read().await });
    stage().waiting("read", "rwlock-6", 1).await;
    java.tell("write unlock rwlock-6").await;
    let guard = soon("a read lock by looking again", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    assert!(
        matches!(lock.try_write().await, Err(Error::Busy { .. })),
        "Java still reads"
    );
    java.tell("read unlock rwlock-6").await;
    lock.try_write().await.expect("nobody is in").unlock().await.unwrap();
}

#[tokio::test]
async fn a_reader_becomes_the_writer_when_java_has_gone() {
    let (java, keeper) = (stage().thread("rwlock-7"), stage().keeper().await);
    java.tell("read lock rwlock-7 60000").await;
    let guard = handle(&keeper, "rwlock-7").read().await.unwrap();
    let (guard, error) = guard.try_upgrade().await.expect_err("Java reads too");
    assert!(matches!(error, Error::OtherReaders { .. }), "{error:?}");
    java.tell("read unlock rwlock-7").await;
    let writer = guard.try_upgrade().await.map_err(|(_, error)| error).unwrap();
    assert!(java.ask::<bool>("write isLocked rwlock-7").await);
    assert!(!java.ask::<bool>("read tryLock rwlock-7").await);
    writer.unlock().await.unwrap();
    assert!(java.ask::<bool>("read tryLock rwlock-7").await);
    java.tell("read unlock rwlock-7").await;
}

#[tokio::test]
async fn force_from_either_side() {
    let (java, other) = (stage().thread("rwlock-8"), stage().thread("rwlock-8-other"));
    let keeper = stage().keeper().await;
    let lock = keeper.rwlock("rwlock-8").lease(Lease::renewed(seconds(3)));
    let writer = lock.write().await.unwrap();
    assert!(!java.ask::<bool>("read forceUnlock rwlock-8").await, "nobody reads");
    assert!(java.ask::<bool>("write forceUnlock rwlock-8").await);
    soon("the loss to be noticed", writer.lost()).await;
    let reader = lock.read().await.unwrap();
    assert!(!java.ask::<bool>("write forceUnlock rwlock-8").await, "nobody writes");
    assert!(java.ask::<bool>("read forceUnlock rwlock-8").await);
    soon("the loss to be noticed", reader.lost()).await;

    java.tell("write lock rwlock-8 60000").await;
    let waiting = other.start("read lock rwlock-8 60000");
    stage().waiting("read", "rwlock-8", 1).await;
    assert!(!lock.force_unlock_read().await.unwrap(), "nobody reads");
    assert!(lock.force_unlock_write().await.unwrap());
    soon("a call to Java", waiting.value::<String>()).await;
    let refused = java.attempt("write unlock rwlock-8").await.unwrap_err();
    assert!(refused.0.starts_with("IllegalMonitorStateException"), "{refused}");
    other.tell("read unlock rwlock-8").await;
}

/// A live reader of one side must not keep a dead one of the other alive.
#[tokio::test]
async fn a_dead_reader_is_forgotten_beside_a_live_one() {
    let keeper = stage().keeper().await;
    let theirs = stage().another_java();
    theirs.thread("dead").tell("read lock rwlock-9").await;
    let ours = keeper
        .rwlock("rwlock-9")
        .lease(Lease::renewed(seconds(3)))
        .read()
        .await
        .unwrap();
    theirs.kill();
    wait_until("the end of Java's read hold", SOON, async || {
        let found = keeper.inspect("rwlock-9").await.unwrap();
        let live = |holder: &lockkeeper::Holder| holder.time_left.is_none_or(|left| left > Duration::ZERO);
        let live: Vec<_> = found.holders.into_iter().filter(live).collect();
        if live.len() == 1 { Ok(()) } else { Err(live) }
    })
    .await;
    ours.unlock().await.unwrap();
    let java = stage().thread("rwlock-9");
    assert!(
        java.ask::<bool>("write tryLock rwlock-9").await,
        "only the dead one is left"
    );
    java.tell("write unlock rwlock-9").await;

    let live = stage().another_java();
    live.thread("live").tell("read lock rwlock-9").await;
    let mut dead = stage().another_rust(&["read:rwlock-9".to_owned()]).await;
    dead.kill().unwrap();
    // For two of the dead one's leases the live one is renewed. Then it goes, and a writer need not wait for long: old
    // Redissons keep the dead alive for one watchdog time of three seconds.
    let refused = handle(&keeper, "rwlock-9").wait(seconds(4)).write().await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    live.thread("live").tell("read unlock rwlock-9").await;
    let writer = handle(&keeper, "rwlock-9");
    soon("a writer past a dead reader", writer.write())
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test]
async fn locks_of_the_other_kind_are_told_as_such() {
    let (java, keeper) = (stage().thread("rwlock-10"), stage().keeper().await);
    java.tell("mutex lock rwlock-10 60000").await;
    let lock = handle(&keeper, "rwlock-10");
    for refused in [lock.try_read().await.err(), lock.try_write().await.err()] {
        assert!(
            matches!(refused, Some(Error::WrongKind { .. })),
            "{refused:?}: Java's would come in"
        );
    }
    java.tell("mutex unlock rwlock-10").await;
    java.tell("read lock rwlock-10 60000").await;
    let refused = keeper.mutex("rwlock-10").try_lock().await;
    assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    java.tell("read unlock rwlock-10").await;
}

/// Many writers and readers of both, where our callers give way to each other by notices that Java knows nothing of.
#[tokio::test]
async fn nobody_is_starved_by_the_other_side() {
    const ROUNDS: usize = 20;
    let keeper = stage().keeper().await;
    let java: Vec<_> = (0..3)
        .map(|number| {
            let kind = if number == 0 { "write" } else { "read" };
            tokio::spawn(async move {
                let name = format!("rwlock-11-{number}");
                for _ in 0..ROUNDS {
                    stage().thread(&name).tell(format!("{kind} lock rwlock-11")).await;
                    stage().thread(&name).tell(format!("{kind} unlock rwlock-11")).await;
                }
            })
        })
        .collect();
    let writer = handle(&keeper, "rwlock-11");
    for _ in 0..ROUNDS {
        let guard = soon("a turn of our writer", writer.write()).await.unwrap();
        tokio::time::sleep(ms(1)).await;
        guard.unlock().await.unwrap();
        soon("a turn of our reader", writer.read())
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
    }
    for java in java {
        soon("the end of Java's rounds", java).await.unwrap();
    }
    stage().listening(&key("redisson_rwlock", "rwlock-11"), 0).await;
}
