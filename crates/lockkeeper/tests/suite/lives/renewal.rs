//! Renewal: it survives trouble, ends with the hold, covers the hold alone, and never takes a lock again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, LossReason, Mutex, MutexGuard, Unlocked};
use lockkeeper_testkit::proxy::Request;
use lockkeeper_testkit::{Matcher, boot_time_ns, wait_until};

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms, owners_and_numbers, soon};
use crate::scripts::{is_acquire, is_renewal};

in_both_layouts!(
    a_stalled_renewal_is_repeated_within_the_lease,
    a_black_hole_within_the_lease_does_not_end_the_hold,
    a_released_lock_is_never_renewed,
    nothing_is_renewed_after_many_fast_cycles,
    a_bad_entry_does_not_hurt_the_batch,
    a_lost_reply_of_a_batch_hurts_nobody,
    a_deleted_key_is_told_and_never_made_again,
    a_far_too_long_life_is_cut_by_the_next_renewal,
    a_cut_holder_is_told_by_its_own_clock_before_the_next,
    one_guard_is_extended_any_number_of_times,
);

const LEASE: Duration = ms(1500);

fn is_lost(guard: &MutexGuard) -> bool {
    matches!(guard.state(), HoldState::Lost(_))
}

/// Watches for `span` that the guard holds and nobody else gets in.
async fn stays_held(guard: &MutexGuard, other: &Mutex, span: Duration) {
    let started = Instant::now();
    while started.elapsed() < span {
        let attempt = other.try_lock().await;
        assert!(matches!(attempt, Err(Error::Busy { .. })), "{attempt:?}");
        assert!(!is_lost(guard), "{guard:?} after {:?}", started.elapsed());
        tokio::time::sleep(ms(20)).await;
    }
}

async fn a_stalled_renewal_is_repeated_within_the_lease(layout: Layout) {
    let stage = Stage::new(layout);
    let other = stage.mutex(&stage.keeper().await, "stalled");
    let keeper = stage.far_keeper(ms(150)).await;
    let guard = stage
        .mutex(&keeper, "stalled")
        .lease(Lease::renewed(LEASE))
        .lock()
        .await
        .unwrap();
    let stall = stage.proxy.on(Matcher::command("EVALSHA").when(is_renewal)).hold();
    stall.fired().await;
    // Longer than the response limit: this renewal fails.
    stays_held(&guard, &other, ms(300)).await;
    stall.release();
    stays_held(&guard, &other, LEASE * 2).await;
    assert!(stage.renewals_of(guard.owner()).len() >= 4, "renewal goes on");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn a_black_hole_within_the_lease_does_not_end_the_hold(layout: Layout) {
    let stage = Stage::new(layout);
    let other = stage.mutex(&stage.keeper().await, "hole");
    let keeper = stage.far_keeper(ms(100)).await;
    let guard = stage
        .mutex(&keeper, "hole")
        .lease(Lease::renewed(LEASE))
        .lock()
        .await
        .unwrap();
    let hole = stage.proxy.on(Matcher::any()).black_hole();
    hole.fired().await;
    let before = guard.remaining();
    // Several times the response limit, and the old connection never comes back.
    stays_held(&guard, &other, ms(350)).await;
    assert!(guard.remaining() < before, "nothing came through");
    hole.remove();
    stays_held(&guard, &other, LEASE * 2).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn a_released_lock_is_never_renewed(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let lease = ms(300);
    let mut owners = Vec::new();
    for round in 0..12 {
        let mutex = stage
            .mutex(&keeper, &format!("short:{round}"))
            .lease(Lease::renewed(lease));
        let guard = mutex.lock().await.unwrap();
        let owner = guard.owner().to_owned();
        if round % 2 == 0 {
            // Given up while its renewal is running, else right after the grant.
            wait_until("a renewal", SOON, async || !stage.renewals_of(&owner).is_empty()).await;
        }
        match round % 3 {
            0 => assert_eq!(guard.unlock().await, Ok(Unlocked::Freed)),
            1 => drop(guard),
            _ => {
                let inner = guard.reenter().unwrap();
                assert_eq!(guard.unlock().await, Ok(Unlocked::StillHeld));
                assert_eq!(inner.unlock().await, Ok(Unlocked::Freed));
            }
        }
        owners.push((owner, Instant::now()));
    }
    stage.nothing_left().await;
    tokio::time::sleep(lease * 3).await;
    for (owner, given_up) in owners {
        // A renewal may have been on its way; the next would have come after a third of the lease.
        let late = |request: &Arc<Request>| request.at > given_up + ms(50);
        assert!(!stage.renewals_of(&owner).iter().any(late), "renewed after its release");
    }
    assert!(stage.lock_keys().await.is_empty());
}

async fn nothing_is_renewed_after_many_fast_cycles(layout: Layout) {
    let stage = Stage::with_record(layout);
    let builder = Keeper::builder().hand_over(false);
    let keeper = builder.connect(&stage.proxy.url()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0_u64..8 {
        // Renewed every five milliseconds.
        let mutex = stage
            .mutex(&keeper, &format!("fast:{task}"))
            .lease(Lease::renewed(ms(15)))
            .margin(ms(2));
        tasks.spawn(async move {
            for round in 0..150 {
                let guard = mutex.lock().await.unwrap();
                if round % 3 == 0 {
                    tokio::time::sleep(ms((task + round) % 9)).await;
                }
                if round % 2 == 0 {
                    drop(guard.unlock().await);
                } else {
                    drop(guard);
                }
            }
        });
    }
    while let Some(task) = soon("all cycles", tasks.join_next()).await {
        task.unwrap();
    }
    stage.nothing_left().await;
    assert!(
        stage.proxy.log().iter().any(|request| is_renewal(request)),
        "some holds were renewed"
    );
    stage.proxy.clear_log();
    // Sixty times the time between two renewals.
    tokio::time::sleep(ms(300)).await;
    let log = stage.proxy.log();
    assert!(
        !log.iter().any(|request| is_renewal(request)),
        "a renewal without a hold goes on"
    );
    lives_follow_their_holds(&stage);
}

/// By the server's own record: nobody's expiry is touched between an end and the next grant.
fn lives_follow_their_holds(stage: &Stage) {
    let mut held: HashMap<String, bool> = HashMap::new();
    let mut grants = 0;
    for command in stage.server.append_only_commands().unwrap() {
        let Some(key) = command.get(1).filter(|key| key.starts_with("fast:")).cloned() else {
            continue;
        };
        match command[0].to_ascii_uppercase().as_str() {
            "HSET" | "SET" => {
                grants += 1;
                assert_ne!(held.insert(key, true), Some(true), "granted while held");
            }
            "HDEL" | "DEL" | "UNLINK" => {
                held.insert(key, false);
            }
            "PEXPIREAT" | "PEXPIRE" => assert_eq!(held.get(&key), Some(&true), "{command:?} without a hold"),
            other => panic!("{other} on a lock"),
        }
    }
    assert!(grants >= 1200, "{grants}");
}

async fn a_bad_entry_does_not_hurt_the_batch(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let lease = Lease::renewed(LEASE);
    let mutexes: Vec<Mutex> = (0..50)
        .map(|number| stage.mutex(&keeper, &format!("batch:{number}")).lease(lease))
        .collect();
    let guards: Vec<MutexGuard> = join_all(mutexes.iter().map(Mutex::lock))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    // One is gone, one is of another type, one is somebody else's.
    let _: () = stage.ask(&["DEL", "batch:7"]).await;
    let _: () = stage.ask(&["DEL", "batch:8", "batch:9"]).await;
    let _: () = stage.ask(&["RPUSH", "batch:8", "x"]).await;
    match layout {
        Layout::Plain => stage.ask::<()>(&["SET", "batch:9", "somebody", "PX", "60000"]).await,
        _ => stage.ask::<()>(&["HSET", "batch:9", "somebody", "1"]).await,
    }
    let bad = [7_usize, 8, 9];
    for index in bad {
        let reason = soon("the loss", guards[index].lost()).await;
        assert_eq!(reason, LossReason::GoneOnServer, "{index}");
    }
    let started = Instant::now();
    while started.elapsed() < LEASE * 2 {
        for (index, guard) in guards.iter().enumerate() {
            assert_eq!(is_lost(guard), bad.contains(&index), "{index} {guard:?}");
        }
        tokio::time::sleep(ms(50)).await;
    }
    let most = stage
        .proxy
        .log()
        .iter()
        .filter(|request| is_renewal(request))
        .map(|request| owners_and_numbers(request).0.len())
        .max();
    assert!(most >= Some(10), "holds are renewed together: {most:?}");
    drop(guards);
    wait_until("only foreign keys", SOON, async || {
        let left = stage.lock_keys().await;
        if left == ["batch:8", "batch:9"] {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
}

async fn a_lost_reply_of_a_batch_hurts_nobody(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(300)).await;
    let mut guards = Vec::new();
    for number in 0..20 {
        let mutex = stage.mutex(&keeper, &format!("reply:{number}"));
        guards.push(mutex.lease(Lease::renewed(LEASE)).lock().await.unwrap());
    }
    let renewals = || stage.proxy.on(Matcher::command("EVALSHA").when(is_renewal));
    let lost = renewals().swallow_reply_then_reset();
    lost.fired().await;
    let cut = renewals().cut_after_request();
    cut.fired().await;
    let started = Instant::now();
    while started.elapsed() < LEASE * 2 {
        for guard in &guards {
            assert!(!is_lost(guard), "{guard:?}");
        }
        tokio::time::sleep(ms(50)).await;
    }
    for guard in guards {
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    }
}

async fn a_deleted_key_is_told_and_never_made_again(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let mutex = stage.mutex(&keeper, "deleted").lease(Lease::renewed(ms(600)));
    let guard = mutex.lock().await.unwrap();
    wait_until("a renewal", SOON, async || !stage.renewals_of(guard.owner()).is_empty()).await;
    let _: () = stage.ask(&["DEL", "deleted"]).await;
    let started = Instant::now();
    assert_eq!(soon("the loss", guard.lost()).await, LossReason::GoneOnServer);
    assert!(started.elapsed() < ms(600), "by the next renewal");
    assert_eq!(guard.state(), HoldState::Lost(LossReason::GoneOnServer));
    assert_eq!(guard.extend(ms(600)).await, Err(Error::Lost(LossReason::GoneOnServer)));
    stage.proxy.clear_log();
    let watched = Instant::now();
    while watched.elapsed() < ms(900) {
        assert!(!stage.exists("deleted").await, "a renewal made it again");
        tokio::time::sleep(ms(20)).await;
    }
    assert!(
        stage.renewals_of(guard.owner()).is_empty(),
        "a lost hold is not renewed"
    );
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
    drop(soon("the lock anew", mutex.lock()).await.unwrap());
}

async fn a_far_too_long_life_is_cut_by_the_next_renewal(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    let guard = stage
        .mutex(&keeper, "stepped")
        .lease(Lease::renewed(LEASE))
        .lock()
        .await
        .unwrap();
    // What a backward step of the server's clock looks like from inside.
    let far = || stage.ask::<()>(&["PEXPIRE", "stepped", "3600000"]);
    let cut_to = async |longest: i64| {
        wait_until("a cut life", SOON, async || {
            let left = stage.left("stepped").await;
            if (1..=longest).contains(&left) {
                Ok(())
            } else {
                Err(left)
            }
        })
        .await;
    };
    far().await;
    cut_to(1500).await;
    guard.extend(Duration::from_secs(5)).await.unwrap();
    far().await;
    cut_to(5000).await;
    assert!(stage.left("stepped").await > 1500, "to the longest that was asked for");
    assert!(!is_lost(&guard));

    // A waiter does not sleep for the hour that a dead holder's key seems to have.
    let builder = Keeper::builder().recheck(ms(200));
    let waiter = stage.mutex(&builder.connect(&stage.server.url()).await.unwrap(), "stepped");
    drop(guard);
    match layout {
        Layout::Plain => stage.ask::<()>(&["SET", "stepped", "dead", "PX", "3600000"]).await,
        _ => {
            stage.ask::<()>(&["HSET", "stepped", "dead", "1"]).await;
            far().await;
        }
    }
    let waiting = tokio::spawn(async move { waiter.lock().await });
    wait_until("a subscriber", SOON, async || {
        !stage.server.pubsub_channels().await.is_empty()
    })
    .await;
    let _: () = stage.ask(&["DEL", "stepped"]).await;
    let freed = Instant::now();
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
    assert!(freed.elapsed() < Duration::from_secs(3), "{:?}", freed.elapsed());
}

async fn a_cut_holder_is_told_by_its_own_clock_before_the_next(layout: Layout) {
    let stage = Stage::new(layout);
    let other = stage.mutex(&stage.keeper().await, "cut");
    let keeper = stage.far_keeper(ms(300)).await;
    let lease = Lease::renewed(Duration::from_secs(3));
    let mutex = stage.mutex(&keeper, "cut").lease(lease);
    let guard = mutex.lock().await.unwrap();
    let hole = stage.proxy.on(Matcher::any()).black_hole();
    let lost = guard.lost();
    let told = tokio::spawn(async move { (lost.await, boot_time_ns()) });
    let next = soon("the next holder", other.lock()).await.unwrap();
    let granted = boot_time_ns();
    assert_eq!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
    let (reason, told) = soon("the loss", told).await.unwrap();
    assert_eq!(reason, LossReason::DeadlinePassed);
    assert!(told <= granted, "told {} ms late", (told - granted) / 1_000_000);
    assert!(hole.times_fired() > 0);
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
    hole.remove();
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
    let again = soon("the same handle after healing", mutex.lock()).await.unwrap();
    assert_eq!(again.state(), HoldState::Held);
}

async fn one_guard_is_extended_any_number_of_times(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let mutex = stage.mutex(&keeper, "extended");
    let guard = mutex.lease(Lease::fixed(Duration::from_secs(5))).lock().await.unwrap();
    let (owner, token) = (guard.owner().to_owned(), guard.token());
    let mut last = guard.remaining();
    for round in 1..=40 {
        guard.extend(Duration::from_secs(5 + round)).await.unwrap();
        assert!(guard.remaining() > last, "{last:?}");
        last = guard.remaining();
    }
    assert!(stage.left("extended").await > 44_000);
    assert_eq!((guard.owner(), guard.token()), (owner.as_str(), token));
    assert_eq!(stage.holder("extended").await.as_deref(), Some(owner.as_str()));
    let log = stage.proxy.log();
    let acquires = || log.iter().filter(|request| is_acquire(request));
    assert!(
        acquires().count() > 0 && acquires().all(|request| request.contains(&owner)),
        "taken once"
    );
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

/// Three seconds of work, extend, three more, extend, three more: with a lease of five.
#[tokio::test(start_paused = true)]
async fn work_and_extend_in_turn_outlast_the_lease() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let second = Duration::from_secs(1);
    let lease = Lease::fixed(5 * second);
    let guard = keeper.mutex("steps").lease(lease).lock().await.unwrap();
    for _ in 0..20 {
        tokio::time::advance(3 * second).await;
        assert!(matches!(other.mutex("steps").try_lock().await, Err(Error::Busy { .. })));
        guard.extend(5 * second).await.unwrap();
    }
    tokio::time::advance(3 * second).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

/// Code that blocks the only thread of a runtime does not stop renewal, which has a thread of its own.
#[tokio::test(flavor = "current_thread")]
async fn blocking_code_does_not_starve_renewal() {
    let stage = Arc::new(Stage::new(Layout::Redisson));
    let other = stage.keeper().await.mutex("blocked");
    let keeper = stage.keeper().await;
    let lease = Duration::from_secs(1);
    let guard = keeper
        .mutex("blocked")
        .lease(Lease::renewed(lease))
        .lock()
        .await
        .unwrap();
    std::thread::sleep(lease * 2);
    assert_ne!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert!(guard.remaining() > Duration::ZERO);
    assert_eq!(stage.holder("blocked").await.as_deref(), Some(guard.owner()));
    assert!(matches!(other.try_lock().await, Err(Error::Busy { .. })));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}
