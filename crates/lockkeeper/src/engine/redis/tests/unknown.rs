//! Requests whose outcome is not known, and the ways back.

use std::time::Instant;

use lockkeeper_testkit::{Matcher, Proxy, wait_until};

use super::*;
use crate::engine::Cause;
use crate::error::Effect;

fn is_unreachable(outcome: &Result<Acquired, StepError>, effect: Effect) -> bool {
    matches!(outcome, Err(error) if matches!(error.cause, Cause::Unreachable(_)) && error.effect == effect)
}

async fn acquire_within(stage: &Stage, acquire: &Acquire, limit: Duration) -> Result<Acquired, StepError> {
    match stage
        .engine
        .perform(Lane::Foreground, Step::Acquire(acquire.clone()), limit)
        .await?
        .reply
    {
        Reply::Acquired(acquired) => Ok(acquired),
        other => panic!("{other:?}"),
    }
}

/// The server stands still, the caller gives up, the server goes on: what it finds in its queue must do nothing.
#[tokio::test]
async fn a_copy_that_a_frozen_server_finds_later_does_nothing() {
    let stage = Stage::new().await;
    for layout in BOTH {
        stage
            .granted(&asking(&target(layout, &format!("warm{layout:?}")), &owner()))
            .await;
        let calls = stage.server.calls("evalsha").await;
        let keys = stage.server.keys().await;

        stage.server.freeze();
        let acquire = asking(&target(layout, "a"), &owner());
        let limit = Duration::from_millis(150);
        let began = Instant::now();
        let outcome = acquire_within(&stage, &acquire, limit).await;
        assert!(began.elapsed() < limit * 4);
        assert!(is_unreachable(&outcome, Effect::Possible), "{outcome:?}");
        assert!(acquire.copies.open_until() > 0, "the copy is still on its way");
        stage.server.thaw();

        wait_until("the copy to run", PATIENCE, async || {
            match stage.server.calls("evalsha").await - calls {
                1 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        assert_eq!(stage.server.keys().await, keys);
        assert!(matches!(
            stage.granted(&asking(&target(layout, "a"), &owner())).await,
            (_, 1)
        ));
        assert_eq!(stage.force_release(&target(layout, "a")).await, Ok(true));
    }
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_the_same_owner_gets_the_same_tokens() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let stage = Stage::through(server, &proxy.url(), |config| config).await;
    for layout in BOTH {
        let warm = target(layout, &format!("warm{layout:?}"));
        stage.granted(&asking(&warm, &owner())).await;
        let acquire = asking(&target(layout, &format!("{layout:?}")), &owner());
        let lost = proxy.on(Matcher::command("EVALSHA")).swallow_reply_then_reset();
        let outcome = stage.acquire(&acquire).await;
        lost.fired().await;
        assert!(is_unreachable(&outcome, Effect::Possible), "{outcome:?}");
        let open_until = acquire.copies.open_until();
        assert!(open_until > 0);

        let (first, _) = stage.granted(&acquire).await;
        assert_eq!(stage.inspect(&acquire.target).await.token, Some(first));
        assert_eq!(stage.inspect(&acquire.target).await.holders[0].holds, 1);
        assert!(
            acquire.copies.open_until() >= open_until,
            "the first copy was never answered"
        );
    }
}

/// The driver's queue sends a request twice: the second copy changes nothing.
#[tokio::test]
async fn a_repeated_request_changes_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let stage = Stage::through(server, &proxy.url(), |config| config).await;
    for layout in BOTH {
        let target = target(layout, &format!("{layout:?}"));
        stage
            .granted(&asking(&self::target(layout, &format!("warm{layout:?}")), &owner()))
            .await;
        let owner = owner();
        proxy.on(Matcher::command("EVALSHA")).repeat_request();
        let (first, block) = stage.granted(&asking(&target, &owner)).await;
        assert_eq!(stage.inspect(&target).await.token, Some(first + u64::from(block) - 1));
        assert_eq!(stage.inspect(&target).await.holders[0].holds, 1);
        stage.release(&target, &owner).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_told_at_once_and_used_again() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    stage.granted(&asking(&target, &owner)).await;
    stage.server.kill();
    let began = Instant::now();
    // The first call may still meet the connection that has just been cut.
    wait_until("a refusal that surely did nothing", PATIENCE, async || {
        let outcome = stage.acquire(&asking(&target, &owner)).await;
        if is_unreachable(&outcome, Effect::None) {
            Ok(())
        } else {
            Err(outcome)
        }
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(2), "at once, not after the limit");
    // A short limit is kept also while attempts are spaced out.
    for _ in 0..20 {
        let began = Instant::now();
        let outcome = acquire_within(&stage, &asking(&target, &owner), Duration::from_millis(50)).await;
        assert!(is_unreachable(&outcome, Effect::None), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    }
    stage.server.restart_empty();
    wait_until("a grant", PATIENCE, async || {
        stage.acquire(&asking(&target, &owner)).await
    })
    .await;
}

#[tokio::test]
async fn many_callers_share_one_attempt_to_connect() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let stage = Stage::through(server, &proxy.url(), |config| config).await;
    stage
        .granted(&asking(&target(Layout::Redisson, "warm"), &owner()))
        .await;
    let before = proxy.connections();
    assert_eq!(proxy.reset_all(), 2);
    let stage = &stage;
    let calls = (0..100).map(|number| async move {
        let acquire = asking(&target(Layout::Redisson, &format!("lock{number}")), &owner());
        wait_until("a grant", PATIENCE, async || stage.acquire(&acquire).await).await
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(proxy.connections() - before, 1);
}

/// Bytes vanish, nothing is closed: the driver would use such a connection for ever.
#[tokio::test]
async fn a_connection_that_is_silent_for_too_long_is_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let limit = Duration::from_millis(100);
    let stage = Stage::through(server, &proxy.url(), |config| config.response_limit(limit).unwrap()).await;
    let warm = target(Layout::Redisson, "warm");
    acquire_within(&stage, &asking(&warm, &owner()), limit).await.unwrap();
    let hole = proxy.on(Matcher::command("EVALSHA")).black_hole();
    let mut unanswered = 0;
    let began = Instant::now();
    while acquire_within(&stage, &asking(&target(Layout::Redisson, "a"), &owner()), limit)
        .await
        .is_err()
    {
        unanswered += 1;
        // Only what runs through a hole already must fail from here on.
        hole.remove();
        assert!(began.elapsed() < PATIENCE, "the connection is never replaced");
    }
    assert!((2..=3).contains(&unanswered), "{unanswered}");
}

#[tokio::test]
async fn the_limit_covers_connecting_too() {
    let stage = Stage::new().await;
    stage.server.freeze();
    let limit = Duration::from_millis(100);
    // The foreground connection does not exist yet: the system accepts it, and nobody answers.
    for _ in 0..3 {
        let began = Instant::now();
        let outcome = acquire_within(&stage, &asking(&target(Layout::Redisson, "a"), &owner()), limit).await;
        assert!(is_unreachable(&outcome, Effect::None), "{outcome:?}");
        assert!(began.elapsed() < limit * 5, "{:?}", began.elapsed());
    }
    stage.server.thaw();
    wait_until("a grant", PATIENCE, async || {
        stage.acquire(&asking(&target(Layout::Redisson, "a"), &owner())).await
    })
    .await;
}

/// Callers that go away at any moment: those that stay get their own answers.
#[tokio::test]
async fn dropped_calls_do_not_disturb_the_others() {
    let stage = Stage::new().await;
    let target = target(Layout::Redisson, "a");
    stage.granted(&asking(&target, &owner())).await;
    for round in 0..200_u64 {
        let impatient = asking(&self::target(Layout::Redisson, &format!("dropped{round}")), &owner());
        let call = stage
            .engine
            .perform(Lane::Foreground, Step::Acquire(impatient.clone()), LIMIT);
        let dropped = tokio::time::timeout(Duration::from_micros(round * 3), call)
            .await
            .is_err();
        let mine = self::target(Layout::Redisson, &format!("mine{round}"));
        let owner = owner();
        stage.granted(&asking(&mine, &owner)).await;
        let held = stage.inspect(&mine).await;
        assert_eq!(held.holders[0].owner, owner.as_str());
        if dropped && impatient.copies.first_sent().is_some() {
            assert!(impatient.copies.open_until() > 0);
        }
    }
}
