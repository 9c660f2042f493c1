//! The read-write lock in trouble: lost replies, cancelled conversions, late subscriptions, lost data.

use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, LossReason, RwLock, Unlocked};
use lockkeeper_testkit::{Matcher, wait_until};
use redis::cmd;

use super::bed::{Bed, SOON, soon};
use crate::scripts::{is_downgrade, is_read_renewal, is_renewal, is_upgrade};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn bed() -> Bed {
    Bed::new(Layout::Redisson)
}

/// A keeper behind the proxy whose scripts and connections are ready.
async fn warm(bed: &Bed, builder: lockkeeper::KeeperBuilder) -> Keeper {
    let keeper = bed.behind_proxy_with(builder).await;
    let lock = keeper.rwlock("warm");
    let reader = lock.read().await.unwrap();
    reader.extend(Duration::from_secs(5)).await.unwrap();
    let writer = reader.try_upgrade().await.unwrap();
    writer.downgrade().await.unwrap().unlock().await.unwrap();
    lock.write().await.unwrap().unlock().await.unwrap();
    keeper
}

/// Waits until `name` is free of holds, and nothing of it is left that never ends.
async fn free(bed: &Bed, name: &str) {
    bed.nothing_is_left_of(name).await;
    let keys = bed.server.keys().await;
    assert!(!keys.iter().any(|key| key.contains("rwlock_timeout")), "{keys:?}");
}

fn conversions(predicate: fn(&lockkeeper_testkit::proxy::Request) -> bool) -> Matcher {
    Matcher::command("EVALSHA").when(predicate)
}

/// B01: the release comes while the subscription is on its way. The lease is 30 seconds: nobody waits for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_before_the_subscription_is_seen() {
    let bed = bed();
    let (holder, waiter) = (bed.direct().await, warm(&bed, Keeper::builder()).await);
    for writes in [false, true] {
        let guard = holder.rwlock("early").write().await.unwrap();
        let held_back = bed.proxy.on(Matcher::command("SUBSCRIBE")).hold_requests();
        let lock = waiter.rwlock("early");
        let waiting = tokio::spawn(async move {
            if writes {
                lock.write().await.map(drop)
            } else {
                lock.read().await.map(drop)
            }
        });
        held_back.fired().await;
        guard.unlock().await.unwrap();
        held_back.release();
        soon("the freed lock", waiting).await.unwrap().unwrap();
        held_back.remove();
        free(&bed, "early").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_conversion_costs_nothing() {
    let bed = bed();
    let keeper = warm(&bed, Keeper::builder()).await;
    let lock = keeper.rwlock("lost");
    let reader = lock.read().await.unwrap();
    let lost = bed.proxy.on(conversions(is_upgrade)).nth(1).swallow_reply_then_reset();
    let writer = soon("the upgrade", reader.try_upgrade()).await.unwrap();
    lost.fired().await;
    let token = writer.token();
    assert_eq!(keeper.inspect("lost").await.unwrap().token, Some(token), "granted once");
    let lost = bed
        .proxy
        .on(conversions(is_downgrade))
        .nth(1)
        .swallow_reply_then_reset();
    let reader = soon("the downgrade", writer.downgrade()).await.unwrap();
    lost.fired().await;
    assert!(bed.direct().await.rwlock("lost").try_write().await.is_err());
    assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    free(&bed, "lost").await;
}

/// Without an answer nobody knows which hold there is: neither is believed, and clean-up ends both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_conversion_leaves_nothing() {
    let bed = bed();
    let limits = || {
        let builder = Keeper::builder().response_limit(ms(200));
        builder.unreachable_after(ms(600))
    };
    let lease = Lease::renewed(Duration::from_secs(60));
    for upgrade in [true, false] {
        let keeper = warm(&bed, limits()).await;
        let lock = keeper.rwlock("unknown").lease(lease);
        let predicate = if upgrade { is_upgrade } else { is_downgrade };
        let unanswered = bed.proxy.on(conversions(predicate)).hold_replies();
        let error = if upgrade {
            let reader = lock.read().await.unwrap();
            let (reader, error) = soon("an error", reader.try_upgrade()).await.unwrap_err();
            assert_eq!(reader.state(), HoldState::Lost(LossReason::GoneOnServer));
            error
        } else {
            let writer = lock.write().await.unwrap();
            soon("an error", writer.downgrade()).await.unwrap_err()
        };
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        unanswered.release();
        unanswered.remove();
        free(&bed, "unknown").await;
        soon("all clean-up", keeper.close()).await;
    }
}

/// A caller that went away in the middle, with the request on its way or the reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_conversion_leaves_nothing() {
    let bed = bed();
    let keeper = warm(&bed, Keeper::builder()).await;
    for (upgrade, replies) in [(true, true), (true, false), (false, true), (false, false)] {
        let lock = keeper.rwlock("cancelled");
        let predicate = if upgrade { is_upgrade } else { is_downgrade };
        let faults = bed.proxy.on(conversions(predicate));
        let held_back = if replies {
            faults.hold_replies()
        } else {
            faults.hold_requests()
        };
        let call = convert(&lock, upgrade).await;
        held_back.fired().await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        if !replies {
            // The way back must not depend on what is held up; the late request finds nothing to convert.
            wait_until("the hold given back", SOON, async || !bed.is_locked("cancelled").await).await;
        }
        held_back.release();
        held_back.remove();
        free(&bed, "cancelled").await;
    }
    let guard = keeper.rwlock("cancelled").try_write().await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn convert(lock: &RwLock, upgrade: bool) -> tokio::task::JoinHandle<()> {
    if upgrade {
        let reader = lock.read().await.unwrap();
        tokio::spawn(async move { drop(reader.try_upgrade().await) })
    } else {
        let writer = lock.write().await.unwrap();
        tokio::spawn(async move { drop(writer.downgrade().await) })
    }
}

/// The server answers a renewal of the read hold after it has become a write hold: that is no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_on_its_way_does_not_spoil_an_upgrade() {
    let bed = bed();
    let keeper = warm(&bed, Keeper::builder()).await;
    let lock = keeper.rwlock("crossing").lease(Lease::renewed(Duration::from_secs(3)));
    let reader = lock.read().await.unwrap();
    let stale = reader.handle();
    let crossing = bed.proxy.on(conversions(is_read_renewal)).nth(1).hold_requests();
    crossing.fired().await;
    let answers = bed.proxy.on(conversions(is_upgrade)).nth(1).hold_replies();
    let upgrading = tokio::spawn(reader.try_upgrade());
    answers.fired().await;
    // Now the renewal finds no reader, while the upgrade is not answered yet.
    crossing.release();
    tokio::select! {
        reason = stale.lost() => panic!("{reason:?}"),
        () = tokio::time::sleep(ms(300)) => {}
    }
    answers.release();
    let writer = soon("the upgrade", upgrading).await.unwrap().unwrap();
    assert_eq!(writer.state(), HoldState::Held);
    assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
    free(&bed, "crossing").await;
}

/// B36: the last release ends renewal, however often the caller came in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_renewed_after_the_last_release() {
    let bed = bed();
    let keeper = warm(&bed, Keeper::builder()).await;
    let lease = ms(300);
    let lock = keeper.rwlock("twice").lease(Lease::renewed(lease));
    let renewals = |bed: &Bed| {
        let log = bed.proxy.log();
        log.iter()
            .filter(|request| is_read_renewal(request) || is_renewal(request))
            .count()
    };
    for writes in [false, true] {
        keeper
            .scope(async |scope| {
                if writes {
                    let (outer, inner) = (scope.write(&lock).await.unwrap(), scope.read(&lock).await.unwrap());
                    outer.unlock().await.unwrap();
                    inner.unlock().await.unwrap();
                } else {
                    let (outer, inner) = (scope.read(&lock).await.unwrap(), scope.read(&lock).await.unwrap());
                    let before = renewals(&bed);
                    wait_until("a renewal", SOON, async || renewals(&bed) > before).await;
                    outer.unlock().await.unwrap();
                    inner.unlock().await.unwrap();
                }
            })
            .await;
        // One that was on its way when the guard went may still be seen; none comes later.
        tokio::time::sleep(lease / 3).await;
        let after = renewals(&bed);
        tokio::time::sleep(lease * 3).await;
        assert_eq!(renewals(&bed), after);
        assert!(!bed.is_locked("twice").await);
    }
    free(&bed, "twice").await;
}

/// A server that lost its data: both kinds of holds learn of it, and the next ones are kept alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_while_held_is_told() {
    let bed = bed();
    let keeper = warm(&bed, Keeper::builder()).await;
    let lock = keeper.rwlock("flushed").lease(Lease::renewed(ms(600)));
    let other = bed.direct().await.rwlock("flushed");
    for _ in 0..2 {
        let reader = lock.read().await.unwrap();
        bed.ask::<()>(&cmd("FLUSHALL")).await;
        assert_eq!(soon("the loss", reader.lost()).await, LossReason::GoneOnServer);
        assert_eq!(reader.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
        let writer = lock.write().await.unwrap();
        bed.ask::<()>(&cmd("FLUSHALL")).await;
        assert_eq!(soon("the loss", writer.lost()).await, LossReason::GoneOnServer);
        assert_eq!(writer.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
        let reader = lock.read().await.unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < ms(1_500) {
            assert!(matches!(other.try_write().await, Err(Error::Busy { .. })));
            tokio::time::sleep(ms(50)).await;
        }
        assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    }
}
