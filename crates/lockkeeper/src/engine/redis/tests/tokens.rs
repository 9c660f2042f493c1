//! Fencing tokens: where they come from, and that they never fall.

use super::*;
use crate::engine::Cause;
use crate::error::{Effect, Refusal};

const END: u64 = 1 << 53;

async fn life(stage: &Stage, key: &str) -> i64 {
    stage.ask(&["PTTL", key]).await
}

fn is_exhausted(outcome: &Result<Acquired, StepError>) -> bool {
    matches!(
        outcome,
        Err(StepError {
            cause: Cause::Refused(Refusal::TokenExhausted, _),
            effect: Effect::None
        })
    )
}

#[tokio::test]
async fn the_same_owner_gets_the_same_tokens_and_never_a_shorter_life() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        let ask = |lease, block| Acquire {
            lease,
            block,
            ..asking(&target, &owner)
        };
        let first = stage.granted(&ask(30_000, 7)).await;
        assert_eq!(first.1, 7);
        assert_eq!(stage.granted(&ask(1000, 3)).await, first);
        assert!(stage.busy(&target).await.unwrap() > 25_000);
        assert_eq!(stage.granted(&ask(60_000, 1)).await, first);
        assert!(stage.busy(&target).await.unwrap() > 55_000);
        assert!(life(&stage, &target.token_key).await > 655_000);
        assert_eq!(stage.inspect(&target).await.holders[0].holds, 1);
    }
}

#[tokio::test]
async fn tokens_follow_the_servers_time_and_rise_through_blocks() {
    let stage = Stage::new().await;
    let target = target(Layout::Redisson, "a");
    let time = || async {
        let (seconds, microseconds): (u64, u64) = stage.ask(&["TIME"]).await;
        seconds * 1_000_000 + microseconds
    };
    let before = time().await;
    let acquire = Acquire {
        block: 3_000_000,
        ..asking(&target, &owner())
    };
    let (first, block) = stage.granted(&acquire).await;
    assert!((before..=time().await).contains(&first), "{first}");
    stage.release(&target, &acquire.owner).await.unwrap();
    // The block is longer than the time since: the next one begins right behind it.
    let (next, _) = stage.granted(&asking(&target, &owner())).await;
    assert_eq!(next, first + u64::from(block));
}

#[tokio::test]
async fn both_layouts_of_a_name_share_its_tokens() {
    let stage = Stage::new().await;
    let (hash, plain) = (target(Layout::Redisson, "a"), target(Layout::Plain, "a"));
    let acquire = Acquire {
        block: 5_000_000,
        ..asking(&hash, &owner())
    };
    let (first, _) = stage.granted(&acquire).await;
    stage.release(&hash, &acquire.owner).await.unwrap();
    assert_eq!(stage.granted(&asking(&plain, &owner())).await.0, first + 5_000_000);
}

#[tokio::test]
async fn a_lost_record_costs_a_repeat_its_tokens_and_never_their_order() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        let (first, _) = stage.granted(&asking(&target, &owner)).await;
        stage.ask::<u64>(&["DEL", &target.token_key]).await;
        let (again, _) = stage.granted(&asking(&target, &owner)).await;
        assert!(again > first);
        assert_eq!(stage.granted(&asking(&target, &owner)).await.0, again);
        // A record of somebody else's is no record of ours, but its last token is a floor.
        let ahead = again + 50_000_000;
        let other = format!("{ahead} {ahead} 1 other:1");
        stage.ask::<()>(&["SET", &target.token_key, &other]).await;
        assert_eq!(stage.granted(&asking(&target, &owner)).await.0, ahead + 1);
        assert!(stage.busy(&target).await.is_some(), "still held");
    }
}

#[tokio::test]
async fn tokens_go_on_rising_after_a_flush_and_a_forced_release() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let target = target(layout, &format!("{layout:?}"));
        let (first, _) = stage.granted(&asking(&target, &owner())).await;
        assert_eq!(stage.force_release(&target).await, Ok(true));
        let (second, _) = stage.granted(&asking(&target, &owner())).await;
        stage.ask::<()>(&["FLUSHALL"]).await;
        let (third, _) = stage.granted(&asking(&target, &owner())).await;
        assert!(first < second && second < third);
    }
}

#[tokio::test]
async fn redissons_token_is_a_floor_raised_where_it_exists_and_never_made() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    let (first, _) = stage.granted(&asking(&target, &owner)).await;
    stage.release(&target, &owner).await.unwrap();
    assert!(!stage.ask::<bool>(&["EXISTS", "redisson_lock_token:{a}"]).await);

    let ahead = first + 1_000_000_000;
    stage
        .ask::<()>(&["SET", "redisson_lock_token:{a}", &ahead.to_string()])
        .await;
    let acquire = Acquire {
        block: 10,
        ..asking(&target, &owner)
    };
    assert_eq!(stage.granted(&acquire).await, (ahead + 1, 10));
    assert_eq!(stage.ask::<u64>(&["GET", "redisson_lock_token:{a}"]).await, ahead + 10);
    assert_eq!(life(&stage, "redisson_lock_token:{a}").await, -1);
    // What a fenced lock of Redisson's does next stays above ours.
    assert_eq!(stage.ask::<u64>(&["INCR", "redisson_lock_token:{a}"]).await, ahead + 11);

    stage.ask::<u64>(&["PEXPIRE", "redisson_lock_token:{a}", "50000"]).await;
    stage.release(&target, &owner).await.unwrap();
    assert_eq!(stage.granted(&asking(&target, &owner)).await.0, ahead + 12);
    let left = life(&stage, "redisson_lock_token:{a}").await;
    assert!((40_000..=50_000).contains(&left), "a life that it has is kept: {left}");
}

#[tokio::test]
async fn the_record_outlives_the_lease_by_ten_minutes() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        stage.granted(&asking(&target, &owner)).await;
        let outlives = |life: i64| (628_000..=630_000).contains(&life);
        assert!(outlives(life(&stage, &target.token_key).await));
        stage.ask::<u64>(&["PEXPIRE", &target.token_key, "1000"]).await;
        stage.renew(vec![renewing(&target, &owner)]).await.unwrap();
        assert!(life(&stage, &target.token_key).await <= 1000);
        let refreshing = Renew {
            refresh_token: true,
            ..renewing(&target, &owner)
        };
        stage.renew(vec![renewing(&target, &owner), refreshing]).await.unwrap();
        assert!(outlives(life(&stage, &target.token_key).await));
    }
}

#[tokio::test]
async fn tokens_end_below_two_to_the_53rd_with_nothing_changed() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, "a"), owner());
        stage.ask::<()>(&["FLUSHALL"]).await;
        let ask = |block| Acquire {
            block,
            ..asking(&target, &owner)
        };
        let peer = &*target.peer_token_key;
        stage.ask::<()>(&["SET", peer, &(END - 6).to_string()]).await;
        assert!(is_exhausted(&stage.acquire(&ask(6)).await));
        assert_eq!(stage.server.keys().await, [peer]);
        assert_eq!(stage.ask::<u64>(&["GET", peer]).await, END - 6);
        // Exact to the last one.
        assert_eq!(stage.granted(&ask(5)).await, (END - 5, 5));
        assert_eq!(stage.granted(&ask(1)).await, (END - 5, 5));
        assert_eq!(stage.ask::<u64>(&["GET", peer]).await, END - 1);
        stage.release(&target, &owner).await.unwrap();
        assert!(is_exhausted(&stage.acquire(&ask(1)).await));
    }
}

#[tokio::test]
async fn a_tokens_key_that_holds_no_token_is_told_and_left_alone() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, "a"), owner());
        let (peer, record) = (&*target.peer_token_key, &*target.token_key);
        for words in [
            ["SET", peer, "twelve"],
            ["SET", peer, "-1"],
            ["SET", peer, "1.5"],
            ["SET", peer, "18446744073709551616"],
            ["SET", peer, ""],
            ["RPUSH", peer, "1"],
            ["SET", record, "12"],
            ["SET", record, ""],
            ["RPUSH", record, "1"],
        ] {
            stage.ask::<()>(&["FLUSHALL"]).await;
            stage.ask::<redis::Value>(&words).await;
            let before: Vec<u8> = stage.ask(&["DUMP", words[1]]).await;
            assert!(
                is_exhausted(&stage.acquire(&asking(&target, &owner)).await),
                "{words:?}"
            );
            assert_eq!(stage.server.keys().await, [words[1]]);
            assert_eq!(stage.ask::<Vec<u8>>(&["DUMP", words[1]]).await, before);
        }
    }
}
