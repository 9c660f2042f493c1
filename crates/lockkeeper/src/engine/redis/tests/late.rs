//! Copies that arrive when nobody waits for them any more, and copies whose clock cannot be right.

use std::sync::atomic::AtomicU64 as Nanos;

use tokio::time::Instant;

use super::*;
use crate::base::clock::Clock;
use crate::engine::Cause;
use crate::engine::redis::hold::{Window, acquire_call};
use crate::engine::redis::renewal::renew_call;
use crate::engine::redis::reply::{Status, told};

/// A clock that jumps when it is told to.
#[derive(Debug, Default)]
struct Jumping(Nanos);

impl Clock for Jumping {
    fn now(&self) -> Duration {
        SystemClock.now() + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

async fn server_time(stage: &Stage) -> u64 {
    let (seconds, microseconds): (u64, u64) = stage.ask(&["TIME"]).await;
    seconds * 1_000_000 + microseconds
}

#[tokio::test]
async fn a_copy_outside_of_its_window_does_nothing() {
    let stage = Stage::new().await;
    let session = stage
        .engine
        .lanes
        .background()
        .session(Instant::now() + LIMIT)
        .await
        .unwrap();
    let limit = 1_000_000;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        let now = server_time(&stage).await;
        for (use_by, status) in [
            (now - 1, Status::Late),
            (now + 10 * limit, Status::Late),
            (now + limit, Status::Done),
        ] {
            let window = Window { use_by, limit };
            let (script, command) = acquire_call(&asking(&target, &owner), window);
            let reply = session
                .evaluate(script, &command, Instant::now() + LIMIT)
                .await
                .unwrap();
            let told = told(&reply).unwrap();
            assert_eq!(told.status, status);
            assert!(told.server_time >= now);
            let exists: bool = stage.ask(&["EXISTS", target.name.as_str()]).await;
            let record: bool = stage.ask(&["EXISTS", &target.token_key]).await;
            assert_eq!((exists, record), (status == Status::Done, status == Status::Done));
        }

        stage.ask::<u64>(&["PEXPIRE", target.name.as_str(), "5000"]).await;
        for (use_by, status) in [
            (now - 1, Status::Late),
            (server_time(&stage).await + 10 * limit, Status::Late),
            (server_time(&stage).await + limit, Status::Done),
        ] {
            let (script, command) = renew_call(&[renewing(&target, &owner)], &[0], Window { use_by, limit });
            let reply = session
                .evaluate(script, &command, Instant::now() + LIMIT)
                .await
                .unwrap();
            assert_eq!(told(&reply).unwrap().status, status);
            let left: i64 = stage.ask(&["PTTL", target.name.as_str()]).await;
            assert_eq!(left > 5000, status == Status::Done, "{left}");
        }
    }
}

/// The estimate of the server's time is off by an hour, whichever way: one refusal tells, and the next copy is in time.
#[tokio::test]
async fn one_refusal_corrects_a_wrong_estimate() {
    let keeper = Keeper::start();
    let server = RedisServer::start();
    let clock = Arc::new(Jumping::default());
    let config = RedisConfig::from_url(&server.url()).unwrap();
    let engine = RedisEngine::connect(config, Arc::clone(&clock) as Arc<dyn Clock>, keeper.handle().clone())
        .await
        .unwrap();
    let stage = Stage { engine, keeper, server };
    let (target, owner) = (target(Layout::Redisson, "a"), owner());

    let ask = || stage.acquire_on(Lane::Background, asking(&target, &owner));
    ask().await.unwrap();
    // The machine slept while the server's stood still.
    clock.0.fetch_add(3_600_000_000_000, Ordering::Relaxed);
    let late = asking(&target, &owner);
    assert_eq!(
        stage.acquire_on(Lane::Background, late.clone()).await,
        Err(StepError::none(Cause::Late))
    );
    assert_eq!(late.copies.open_until(), 0, "a refused copy can do nothing more");
    ask().await.unwrap();

    // A renewal does the same by itself.
    clock.0.fetch_add(3_600_000_000_000, Ordering::Relaxed);
    let step = Step::Renew(vec![renewing(&target, &owner)]);
    let answer = stage.engine.perform(Lane::Background, step, LIMIT).await.unwrap();
    assert_eq!(answer.reply, Reply::Renewed(vec![Ok(Renewed::Held)]));
}

#[tokio::test]
async fn every_answer_brings_its_times() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    let acquire = asking(&target, &owner);
    let steps = [
        Step::Acquire(acquire.clone()),
        Step::Renew(vec![renewing(&target, &owner)]),
        Step::Inspect {
            name: target.name.clone(),
        },
        Step::Release {
            target: Arc::clone(&target),
            owner: owner.clone(),
        },
        Step::ForceRelease {
            target: Arc::clone(&target),
        },
    ];
    let mut first_sent = None;
    for step in steps {
        let (ours, theirs) = (SystemClock.now(), server_time(&stage).await);
        let answer = stage.perform(step).await.unwrap();
        assert!(answer.sent.as_nanos() >= u64::try_from(ours.as_nanos()).unwrap());
        assert!((theirs..=server_time(&stage).await).contains(&answer.server_time));
        first_sent.get_or_insert(answer.sent);
    }
    assert_eq!(acquire.copies.first_sent(), first_sent);
    assert_eq!(acquire.copies.open_until(), 0);
}
