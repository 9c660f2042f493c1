//! What others do to the data: flush it, use the name for something else, let the lease end.

use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Layout, Lease, LossReason, Unlocked};
use lockkeeper_testkit::wait_until;
use redis::{Cmd, cmd};

use super::bed::{Bed, SOON, locking, soon, traffic};
use super::in_both_layouts;

in_both_layouts!(
    a_flush_while_held_is_told_and_tokens_rise,
    a_name_of_another_kind_is_refused_and_untouched,
    releasing_an_expired_lock_returns_at_once,
    a_record_that_is_no_token_is_refused,
);

/// H36.
async fn a_flush_while_held_is_told_and_tokens_rise(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let lease = Lease::renewed(Duration::from_millis(1500));
    let guard = bed.mutex(&keeper, "flushed").lease(lease).lock().await.unwrap();
    let waiting = locking(&bed.mutex(&other, "flushed").lease(lease));
    bed.somebody_listens("flushed").await;
    let () = bed.ask(cmd("FLUSHALL").arg("SYNC")).await;
    let flushed = Instant::now();
    assert_eq!(soon("the loss", guard.lost()).await, LossReason::GoneOnServer);
    // The next renewal tells; without it the deadline would, a good second later.
    assert!(
        flushed.elapsed() < Duration::from_millis(1000),
        "{:?}",
        flushed.elapsed()
    );
    let (next, _) = soon("the lock, which nobody signalled", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(next.token() > guard.token(), "although the record of it was flushed");
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
    soon("all clean-up", keeper.close()).await;
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
    bed.nothing_is_left_of("flushed").await;
}

/// H37: a list, a sorted set, a lock of the other layout, a read-write lock.
async fn a_name_of_another_kind_is_refused_and_untouched(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.direct().await;
    let mut others: Vec<(&str, Cmd)> = Vec::new();
    let mut add = |kind, words: &[&str]| {
        let mut command = Cmd::new();
        command.arg(words);
        others.push((kind, command));
    };
    add("list", &["RPUSH", "kind:list", "x", "y"]);
    add("zset", &["ZADD", "kind:zset", "1", "x"]);
    add("set", &["SADD", "kind:set", "x"]);
    add("stream", &["XADD", "kind:stream", "1-1", "x", "y"]);
    if layout == Layout::Plain {
        add("hash", &["HSET", "kind:hash", "other:1", "1"]);
    } else {
        add("string", &["SET", "kind:string", "other"]);
        add("rwlock", &["HSET", "kind:rwlock", "mode", "read", "other:1", "1"]);
    }
    for (kind, make) in others {
        let name = format!("kind:{kind}");
        bed.ask::<redis::Value>(&make).await;
        let dump = async || bed.ask::<Vec<u8>>(cmd("DUMP").arg(&name)).await;
        let before = dump().await;
        let mutex = bed.mutex(&keeper, &name).wait(Duration::from_secs(5));
        let asked = Instant::now();
        for refused in [
            mutex.try_lock().await.map(drop),
            mutex.lock().await.map(drop),
            mutex.force_unlock().await.map(drop),
        ] {
            assert!(
                matches!(&refused, Err(Error::WrongKind { found, .. }) if !found.is_empty()),
                "{kind}: {refused:?}"
            );
        }
        assert!(asked.elapsed() < Duration::from_secs(2), "it was not waited for");
        assert_eq!(dump().await, before, "{kind}");
        assert_eq!(bed.life(&name).await, -1, "{kind}");
    }
    // Nothing was written beside them either.
    let keys = bed.server.keys().await;
    assert!(
        keys.iter().all(|key| key.starts_with("kind:") || key.contains("warm")),
        "{keys:?}"
    );
}

/// B32: a definite answer is never repeated, and the new holder is left alone.
async fn releasing_an_expired_lock_returns_at_once(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    for taken in [false, true] {
        let lease = Lease::fixed(Duration::from_millis(200));
        let guard = bed.mutex(&keeper, "expired").lease(lease).lock().await.unwrap();
        wait_until("the end of the lease", SOON, async || !bed.is_locked("expired").await).await;
        let next = if taken {
            Some(bed.mutex(&other, "expired").lock().await.unwrap())
        } else {
            None
        };
        let asked = Instant::now();
        bed.proxy.clear_log();
        assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
        assert!(asked.elapsed() < Duration::from_millis(300), "{:?}", asked.elapsed());
        wait_until("the one release", SOON, async || {
            traffic(&bed.proxy, "expired").releases == 1
        })
        .await;
        if let Some(next) = next {
            assert_eq!(next.state(), HoldState::Held);
            assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
        }
    }
    soon("all clean-up", keeper.close()).await;
    assert_eq!(traffic(&bed.proxy, "expired").releases, 1, "no release was repeated");
}

/// A record that somebody broke is an error and no grant with a token that falls.
async fn a_record_that_is_no_token_is_refused(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.direct().await;
    for broken in ["9007199254740992 1 1 x:1", "nonsense", "-5 1 1 x"] {
        let () = bed
            .ask(cmd("SET").arg(super::bed::token_key("broken")).arg(broken))
            .await;
        let refused = bed.mutex(&keeper, "broken").try_lock().await.map(drop);
        let typed = matches!(
            refused,
            Err(Error::Refused {
                refusal: lockkeeper::Refusal::TokenExhausted,
                ..
            })
        );
        assert!(typed, "{broken}: {refused:?}");
        assert!(!bed.is_locked("broken").await);
    }
}
