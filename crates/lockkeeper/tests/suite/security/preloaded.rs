//! A user who may neither send nor load scripts.

use std::time::Duration;

use lockkeeper::redis::{RedisConfig, load_scripts};
use lockkeeper::{Effect, Error, Keeper, Layout, Lease, Refusal};
use lockkeeper_testkit::RedisServer;

const PATIENCE: Duration = Duration::from_secs(10);

/// A server with a user whose scripts are loaded by somebody else.
fn server() -> RedisServer {
    RedisServer::builder()
        .user(
            "app",
            "on >hunter2 ~* &* +@all -eval -evalsha_ro -eval_ro -script -fcall -function -@admin",
        )
        .start()
}

fn url(server: &RedisServer, parameters: &str) -> String {
    format!("redis://app:hunter2@{}{parameters}", server.address())
}

async fn evals(server: &RedisServer) -> u64 {
    let stats = server.command_stats().await;
    let rejected = |name: &str| stats.get(name).map_or(0, |one| one.calls + one.rejected);
    rejected("eval") + rejected("script|load")
}

#[tokio::test]
async fn with_loaded_scripts_everything_works_without_sending_one() {
    let server = server();
    load_scripts(RedisConfig::from_url(&server.url()).unwrap())
        .await
        .unwrap();
    let loaded = evals(&server).await;
    let keeper = Keeper::connect(&url(&server, "?scripts=preloaded")).await.unwrap();
    let other = Keeper::connect(&url(&server, "?scripts=preloaded")).await.unwrap();
    let lease = Lease::renewed(Duration::from_millis(600));
    for mutex in [
        keeper.mutex("a"),
        keeper.mutex("b").layout(Layout::Plain),
        keeper.fenced_mutex("c"),
        keeper.fair_mutex("d"),
        keeper.spin_mutex("e"),
    ] {
        let guard = mutex.clone().lease(lease).lock().await.unwrap();
        let mut last = guard.remaining();
        lockkeeper_testkit::wait_until("a renewal", PATIENCE, async || {
            let before = std::mem::replace(&mut last, guard.remaining());
            (last > before).then_some(()).ok_or(())
        })
        .await;
        assert!(mutex.try_lock().await.unwrap_err().is_contention());
        guard.unlock().await.unwrap();
        assert!(!mutex.force_unlock().await.unwrap());
    }
    let guard = keeper.mutex("a").lock().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").wait(PATIENCE).lock().await });
    lockkeeper_testkit::wait_until("a subscriber", PATIENCE, async || {
        let channels = server.pubsub_channels().await;
        if channels.is_empty() { Err(channels) } else { Ok(()) }
    })
    .await;
    guard.unlock().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    let latch = keeper.latch("latch");
    assert!(latch.try_set_count(1).await.unwrap());
    latch.count_down().await.unwrap();
    keeper.inspect("a").await.unwrap();
    drop(keeper.rwlock("rw").write().await.unwrap());
    drop(keeper.rwlock("rw").read().await.unwrap());
    keeper.close().await;
    assert_eq!(evals(&server).await, loaded, "nothing but hashes was sent");
}

#[tokio::test]
async fn without_them_the_error_says_who_has_to_do_what() {
    let server = server();
    for parameters in ["?scripts=preloaded", ""] {
        let keeper = Keeper::connect(&url(&server, parameters)).await.unwrap();
        let error = keeper.mutex("a").wait(PATIENCE).lock().await.unwrap_err();
        let text = format!("{error} {error:?}");
        let Error::Refused { refusal, effect, .. } = error else {
            panic!("{text}");
        };
        assert_eq!((refusal, effect), (Refusal::ScriptMissing, Effect::None));
        assert!(
            text.contains("mutex/acquire") && text.contains("lockkeeper scripts load"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
    let stats = server.command_stats().await;
    assert_eq!(
        stats["script|load"].rejected, 1,
        "only who may load tries to: {stats:?}"
    );
}

#[tokio::test]
async fn who_may_not_load_is_told_so() {
    let server = server();
    let error = load_scripts(RedisConfig::from_url(&url(&server, "")).unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Refused {
                refusal: Refusal::Permission,
                ..
            }
        ),
        "{error:?}"
    );
}
