//! What is stored and signalled: for Redisson's layout, what Redisson itself would leave.

use std::collections::BTreeMap;

use futures_util::StreamExt;

use super::*;

async fn life(stage: &Stage, key: &str) -> i64 {
    stage.ask(&["PTTL", key]).await
}

fn is_about(life: i64, wanted: i64) -> bool {
    (wanted - 2000..=wanted).contains(&life)
}

#[tokio::test]
async fn redissons_lock_is_a_hash_of_its_owner_and_one() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "x"), owner());
    stage.granted(&asking(&target, &owner)).await;
    let fields: BTreeMap<String, String> = stage.ask(&["HGETALL", "x"]).await;
    assert_eq!(fields, BTreeMap::from([(owner.as_str().to_owned(), "1".to_owned())]));
    assert!(is_about(life(&stage, "x").await, 30_000));
    assert!(
        stage
            .busy(&target)
            .await
            .is_some_and(|left| is_about(left.cast_signed(), 30_000))
    );

    assert_eq!(
        stage.release(&target, &owner).await,
        Ok(Released::Freed { receivers: 0 })
    );
    assert_eq!(stage.server.keys().await, ["lockkeeper_token:{x}"]);
    assert_eq!(stage.release(&target, &owner).await, Ok(Released::NotThere));
}

#[tokio::test]
async fn the_plain_lock_is_a_string_that_peers_understand() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Plain, "x"), owner());
    stage.granted(&asking(&target, &owner)).await;
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, owner.as_str());
    assert!(is_about(life(&stage, "x").await, 30_000));
    let peer: Option<String> = stage.ask(&["SET", "x", "peer", "NX", "PX", "1000"]).await;
    assert_eq!(peer, None);
    assert_eq!(
        stage.release(&target, &owner).await,
        Ok(Released::Freed { receivers: 0 })
    );
    let peer: Option<String> = stage.ask(&["SET", "x", "peer", "NX", "PX", "1000"]).await;
    assert_eq!(peer.as_deref(), Some("OK"));
    assert!(stage.busy(&target).await.is_some_and(|left| left <= 1000));
}

#[tokio::test]
async fn freeing_says_zero_on_the_locks_channel_and_nothing_else_does() {
    let stage = Stage::new().await;
    let client = redis::Client::open(stage.server.url()).unwrap();
    let mut subscriber = client.get_async_pubsub().await.unwrap();
    subscriber.psubscribe("*").await.unwrap();
    let mut messages = subscriber.on_message();
    for (layout, name, channel) in [
        (Layout::Redisson, "x", "redisson_lock__channel:{x}"),
        (Layout::Redisson, "{x}:y", "redisson_lock__channel:{x}:y"),
        (Layout::Plain, "z", "lockkeeper_channel:{z}"),
    ] {
        let (target, owner) = (target(layout, name), owner());
        for forced in [false, true] {
            stage.granted(&asking(&target, &owner)).await;
            stage.granted(&asking(&target, &owner)).await;
            stage.renew(vec![renewing(&target, &owner)]).await.unwrap();
            assert_eq!(stage.release(&target, &super::owner()).await, Ok(Released::NotThere));
            if forced {
                assert_eq!(stage.force_release(&target).await, Ok(true));
                assert_eq!(stage.force_release(&target).await, Ok(false));
            } else {
                assert_eq!(
                    stage.release(&target, &owner).await,
                    Ok(Released::Freed { receivers: 1 })
                );
                assert_eq!(stage.release(&target, &owner).await, Ok(Released::NotThere));
            }
            // Everything is published in order: what comes first is what was said first.
            let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap();
            assert_eq!(
                (message.get_channel_name(), message.get_payload_bytes()),
                (channel, &b"0"[..])
            );
        }
    }
    stage.ask::<u64>(&["PUBLISH", "end", "end"]).await;
    let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap();
    assert_eq!(message.get_channel_name(), "end");
}

#[tokio::test]
async fn a_hold_of_redissons_keeps_us_out_and_stays_as_it_is() {
    let stage = Stage::new().await;
    let target = target(Layout::Redisson, "x");
    stage.ask::<u64>(&["HSET", "x", "uuid:5", "2"]).await;
    assert_eq!(stage.busy(&target).await, None, "a key without expiry");
    stage.ask::<u64>(&["PEXPIRE", "x", "5000"]).await;
    assert!(
        stage
            .busy(&target)
            .await
            .is_some_and(|left| (3000..=5000).contains(&left))
    );
    assert_eq!(stage.release(&target, &owner()).await, Ok(Released::NotThere));
    let inspection = stage.inspect(&target).await;
    assert_eq!(
        (&*inspection.kind, inspection.layout),
        ("mutex", Some(Layout::Redisson))
    );
    assert_eq!(
        (&*inspection.holders[0].owner, inspection.holders[0].holds),
        ("uuid:5", 2)
    );
    assert_eq!(stage.force_release(&target).await, Ok(true));
    stage.granted(&asking(&target, &owner())).await;
}

#[tokio::test]
async fn every_key_has_a_life() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        stage.granted(&asking(&target, &owner)).await;
        stage.renew(vec![renewing(&target, &owner)]).await.unwrap();
    }
    for key in stage.server.keys().await {
        assert!(life(&stage, &key).await > 0, "{key}");
    }
}

#[tokio::test]
async fn inspection_tells_what_is_there() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        assert_eq!(stage.inspect(&target).await, Inspection::default());
        let acquire = Acquire {
            block: 20,
            ..asking(&target, &owner)
        };
        let (first, _) = stage.granted(&acquire).await;
        let held = stage.inspect(&target).await;
        assert_eq!(
            (&*held.kind, held.layout, held.token),
            ("mutex", Some(layout), Some(first + 19))
        );
        let [holder] = held.holders.as_slice() else {
            panic!("{held:?}")
        };
        assert_eq!((&*holder.owner, holder.holds), (owner.as_str(), 1));
        assert!(
            holder
                .time_left
                .is_some_and(|left| is_about(left.cast_signed(), 30_000))
        );
        stage.release(&target, &owner).await.unwrap();
        let free = stage.inspect(&target).await;
        assert_eq!((&*free.kind, free.token), ("", Some(first + 19)));
    }
}

#[tokio::test]
async fn inspection_knows_other_kinds() {
    let stage = Stage::new().await;
    for (words, kind, holders) in [
        (vec!["SET", "k", "12"], "counter", vec![]),
        (vec!["SET", "k", "-3"], "counter", vec![]),
        (vec!["RPUSH", "k", "a"], "list", vec![]),
        (vec!["SADD", "k", "a"], "set", vec![]),
        (vec!["ZADD", "k", "1", "a"], "zset", vec![]),
        (vec!["HSET", "k", "field", "text"], "hash", vec![]),
        (
            vec!["HSET", "k", "mode", "read", "u:2", "1", "u:1", "3"],
            "rwlock",
            vec![("u:1", 3), ("u:2", 1)],
        ),
    ] {
        stage.ask::<()>(&["FLUSHALL"]).await;
        stage.ask::<redis::Value>(&words).await;
        stage.ask::<()>(&["SET", "redisson_lock_token:{k}", "77"]).await;
        let found = stage.inspect(&target(Layout::Redisson, "k")).await;
        let told: Vec<_> = found
            .holders
            .iter()
            .map(|holder| (&*holder.owner, holder.holds))
            .collect();
        assert_eq!(
            (&*found.kind, told, found.token),
            (kind, holders, Some(77)),
            "{words:?}"
        );
    }
}
