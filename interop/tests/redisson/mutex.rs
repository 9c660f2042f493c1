//! `RLock` and the mutex.

use std::time::Duration;

use lockkeeper::{Error, HoldState, Lease, Unlocked};
use lockkeeper_interop::redisson;
use lockkeeper_testkit::wait_until;
use redis::cmd;

use super::stage::{LONG, SOON, key, ms, soon, stage};

fn channel(name: &str) -> String {
    key("redisson_lock__channel", name)
}

/// Names that make their keys and channels in different ways.
const NAMES: [&str; 4] = ["wake:plain", "{wake}:tag", "wake:{in}:the:{middle}", "größe/日本"];

#[tokio::test]
async fn rust_waits_and_is_woken_by_java() {
    let (java, keeper) = (stage().thread("mutex-3"), stage().keeper().await);
    for name in NAMES {
        java.tell(format!("mutex lock {name}-r 60000")).await;
        let mutex = keeper.mutex(format!("{name}-r")).lease(Lease::fixed(LONG));
        let waiting = tokio::spawn(async move { mutex.lock().await });
        stage().listening(&channel(&format!("{name}-r")), 1).await;
        assert!(!waiting.is_finished());
        java.tell(format!("mutex unlock {name}-r")).await;
        let guard = soon("a grant by Java's message", waiting).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn java_waits_and_is_woken_by_rust() {
    let (java, keeper) = (stage().thread("mutex-4"), stage().keeper().await);
    for (round, name) in NAMES.into_iter().enumerate() {
        let mutex = keeper.mutex(format!("{name}-j")).lease(Lease::fixed(LONG));
        let guard = mutex.lock().await.unwrap();
        let waiting = java.start(format!("mutex lock {name}-j"));
        stage().listening(&channel(&format!("{name}-j")), 1).await;
        assert!(waiting.is_under_way());
        if round % 2 == 0 {
            guard.unlock().await.unwrap();
        } else {
            drop(guard);
        }
        soon("a grant by our message", waiting.value::<String>()).await;
        java.tell(format!("mutex unlock {name}-j")).await;
    }
}

#[tokio::test]
async fn re_entry_counts_agree() {
    let (java, other) = (stage().thread("mutex-5"), stage().thread("mutex-5-other"));
    let keeper = stage().keeper().await;
    let mutex = keeper.mutex("mutex-5");
    for count in 1..=3_u64 {
        java.tell("mutex lock mutex-5 60000").await;
        assert_eq!(java.ask::<u64>("mutex getHoldCount mutex-5").await, count);
        let found = keeper.inspect("mutex-5").await.unwrap();
        assert_eq!(found.kind.as_deref(), Some("mutex"));
        assert_eq!(found.holders.len(), 1);
        assert_eq!(found.holders[0].holds, count);
        assert_eq!(found.holders[0].owner, java.ask::<String>("client owner -").await);
    }
    for _ in 0..2 {
        java.tell("mutex unlock mutex-5").await;
        assert!(matches!(mutex.try_lock().await, Err(Error::Busy { .. })));
    }
    java.tell("mutex unlock mutex-5").await;
    assert!(!keeper.inspect("mutex-5").await.unwrap().is_held());

    // Ours are counted in the process: for Java it is one hold, until the last guard is given up.
    let guard = mutex.lock().await.unwrap();
    let again = guard.reenter().unwrap();
    let stored: Vec<(String, u64)> = stage().server.query(cmd("HGETALL").arg("mutex-5")).await;
    assert_eq!(stored, [(guard.owner().to_owned(), 1)]);
    assert_eq!(guard.unlock().await, Ok(Unlocked::StillHeld));
    assert!(!other.ask::<bool>("mutex tryLock mutex-5").await);
    assert_eq!(again.unlock().await, Ok(Unlocked::Freed));
    assert!(other.ask::<bool>("mutex tryLock mutex-5").await);
    other.tell("mutex unlock mutex-5").await;
}

#[tokio::test]
async fn remaining_times_agree() {
    let (java, keeper) = (stage().thread("mutex-6"), stage().keeper().await);
    // Each look lies between the two beside it, so what it sees must too.
    let seen = async || -> u64 {
        let before: u64 = java.ask("mutex remainTimeToLive mutex-6").await;
        let found = keeper.inspect("mutex-6").await.unwrap();
        let left = found.holders[0].time_left.expect("a lease").as_millis();
        let after: u64 = java.ask("mutex remainTimeToLive mutex-6").await;
        let left = u64::try_from(left).unwrap();
        assert!((after..=before).contains(&left), "{before} {left} {after}");
        after
    };
    java.tell("mutex lock mutex-6 40000").await;
    assert!((20_000..=40_000).contains(&seen().await));
    java.tell("mutex lock mutex-6 50000").await;
    assert!((40_001..=50_000).contains(&seen().await), "a re-entry sets the lease");
    java.tell("mutex unlock mutex-6").await;
    java.tell("mutex unlock mutex-6").await;

    let mutex = keeper.mutex("mutex-6").lease(Lease::fixed(Duration::from_secs(40)));
    let guard = mutex.lock().await.unwrap();
    let left = seen().await;
    assert!((20_000..=40_000).contains(&left));
    assert!(
        guard.remaining() <= ms(left),
        "we believe no longer than the server does"
    );
    guard.extend(LONG).await.unwrap();
    assert!((40_001..=60_000).contains(&seen().await));
    guard.unlock().await.unwrap();
    assert_eq!(java.ask::<i64>("mutex remainTimeToLive mutex-6").await, -2);
}

#[tokio::test]
async fn java_frees_ours_by_force() {
    let (java, keeper) = (stage().thread("mutex-7"), stage().keeper().await);
    let renewed = keeper.mutex("mutex-7").lease(Lease::renewed(Duration::from_secs(3)));
    let guard = renewed.lock().await.unwrap();
    assert!(java.ask::<bool>("mutex forceUnlock mutex-7").await);
    assert!(!java.ask::<bool>("mutex forceUnlock mutex-7").await);
    soon("the loss to be noticed", guard.lost()).await;
    assert!(matches!(guard.state(), HoldState::Lost(_)));
    assert!(matches!(guard.unlock().await, Err(Error::Lost(_))));

    // A fixed lease learns of it when it asks; and a waiter of ours is woken by it.
    let fixed = keeper.mutex("mutex-7").lease(Lease::fixed(LONG));
    let guard = fixed.lock().await.unwrap();
    let other = stage().keeper().await;
    let waiting = tokio::spawn(async move { other.mutex("mutex-7").lock().await });
    stage().listening(&channel("mutex-7"), 1).await;
    assert!(java.ask::<bool>("mutex forceUnlock mutex-7").await);
    let next = soon("a grant by Java's message", waiting).await.unwrap().unwrap();
    assert!(matches!(guard.unlock().await, Err(Error::NotHeld)));
    assert!(next.token().get() > 0);
    next.unlock().await.unwrap();
}

#[tokio::test]
async fn we_free_javas_by_force() {
    let (java, other) = (stage().thread("mutex-8"), stage().thread("mutex-8-other"));
    let keeper = stage().keeper().await;
    java.tell("mutex lock mutex-8 60000").await;
    let waiting = other.start("mutex lock mutex-8");
    stage().listening(&channel("mutex-8"), 1).await;
    assert!(keeper.mutex("mutex-8").force_unlock().await.unwrap());
    soon("a grant by our message", waiting.value::<String>()).await;
    let refused = java.attempt("mutex unlock mutex-8").await.unwrap_err();
    assert!(refused.0.starts_with("IllegalMonitorStateException"), "{refused}");
    other.tell("mutex unlock mutex-8").await;
}

#[tokio::test]
async fn tokens_rise_over_holds_of_java() {
    let (java, keeper) = (stage().thread("mutex-9"), stage().keeper().await);
    let mutex = keeper.mutex("mutex-9");
    let mut last = 0;
    for _ in 0..5 {
        let guard = mutex.lock().await.unwrap();
        assert!(guard.token().get() > last, "{} after {last}", guard.token());
        last = guard.token().get();
        guard.unlock().await.unwrap();
        java.tell("mutex lock mutex-9").await;
        java.tell("mutex unlock mutex-9").await;
    }
}

#[tokio::test]
async fn many_wait_on_both_sides_and_each_gets_its_turn() {
    let (java, keeper) = (stage().thread("mutex-10"), stage().keeper().await);
    java.tell("mutex lock mutex-10 60000").await;
    let names: Vec<String> = (0..5).map(|number| format!("mutex-10-{number}")).collect();
    let threads: Vec<_> = names.iter().map(|name| stage().thread(name)).collect();
    let theirs: Vec<_> = threads
        .iter()
        .map(|thread| {
            (
                thread.start("mutex lock mutex-10 60000"),
                thread.start("mutex unlock mutex-10"),
            )
        })
        .collect();
    let ours: Vec<_> = (0..5)
        .map(|_| {
            let mutex = keeper.mutex("mutex-10").lease(Lease::fixed(LONG));
            tokio::spawn(async move { mutex.lock().await.unwrap().unlock().await.unwrap() })
        })
        .collect();
    // One subscription in each process, however many wait in it.
    stage().listening(&channel("mutex-10"), 2).await;
    java.tell("mutex unlock mutex-10").await;
    for (lock, unlock) in theirs {
        soon("a turn of Java's", lock.value::<String>()).await;
        soon("its end", unlock.value::<String>()).await;
    }
    for waiter in ours {
        soon("a turn of ours", waiter).await.unwrap();
    }
    stage().listening(&channel("mutex-10"), 0).await;
}

#[tokio::test]
async fn a_key_of_another_kind_is_told_as_such() {
    let (java, keeper) = (stage().thread("mutex-11"), stage().keeper().await);
    let () = stage().server.query(cmd("SET").arg("mutex-11").arg("a value")).await;
    assert!(matches!(
        keeper.mutex("mutex-11").try_lock().await,
        Err(Error::WrongKind { .. })
    ));
    let refused = java.attempt("mutex tryLock mutex-11").await.unwrap_err();
    assert!(refused.0.contains("WRONGTYPE"), "{refused}");
    assert!(matches!(
        keeper.mutex("mutex-11").force_unlock().await,
        Err(Error::WrongKind { .. })
    ));
}

#[tokio::test]
async fn unlock_latches_do_not_disturb() {
    const ROUNDS: usize = 50;
    let (java, keeper) = (stage().thread("mutex-12"), stage().keeper().await);
    for _ in 0..ROUNDS {
        java.tell("mutex lock mutex-12").await;
        java.tell("mutex unlock mutex-12").await;
    }
    let latches = async || -> usize {
        let keys = stage().server.keys().await;
        let mine = |key: &&String| key.starts_with("redisson_unlock_latch:{mutex-12}");
        keys.iter().filter(mine).count()
    };
    if redisson::leaves_latches() {
        assert_eq!(latches().await, ROUNDS);
    } else {
        wait_until("the last latch to go", SOON, async || latches().await == 0).await;
    }
    let before = latches().await;
    let found = keeper.inspect("mutex-12").await.unwrap();
    assert_eq!((found.kind, found.holders.len()), (None, 0));
    let guard = keeper.mutex("mutex-12").lock().await.unwrap();
    assert_eq!(
        keeper.inspect("mutex-12").await.unwrap().holders[0].owner,
        guard.owner()
    );
    guard.unlock().await.unwrap();
    assert_eq!(latches().await, before, "we neither make nor remove any");
}
