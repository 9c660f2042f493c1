//! What the server refuses, and what that leaves.

use super::*;
use crate::engine::Cause;
use crate::error::{Effect, Refusal};

fn wrong_kind(found: &str) -> StepError {
    StepError::none(Cause::WrongKind(found.to_owned()))
}

/// Waits until an acquire of a free name is refused, and tells how.
async fn refusal(stage: &Stage, name: &str) -> (Refusal, Effect, String) {
    lockkeeper_testkit::wait_until("a refusal", PATIENCE, async || {
        match stage.acquire(&asking(&target(Layout::Redisson, name), &owner())).await {
            Err(StepError {
                cause: Cause::Refused(refusal, text),
                effect,
            }) => Ok((refusal, effect, text)),
            other => Err(other),
        }
    })
    .await
}

#[tokio::test]
async fn a_full_server_grants_nothing_but_renews_and_releases() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (held, owner) = (target(layout, &format!("{layout:?}")), owner());
        let first = stage.granted(&asking(&held, &owner)).await;
        stage.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;

        let free = target(layout, &format!("free{layout:?}"));
        let refused = asking(&free, &super::owner());
        let error = stage.acquire(&refused).await.unwrap_err();
        assert!(
            matches!(&error.cause, Cause::Refused(Refusal::OutOfMemory, _)),
            "{error:?}"
        );
        assert_eq!(error.effect, Effect::None);
        assert_eq!(refused.copies.open_until(), 0);
        assert!(
            !stage.server.keys().await.contains(&free.token_key),
            "nothing is half written"
        );
        assert!(!stage.ask::<bool>(&["EXISTS", free.name.as_str()]).await);

        stage.ask::<u64>(&["PEXPIRE", held.name.as_str(), "5000"]).await;
        let entry = Renew {
            refresh_token: true,
            ..renewing(&held, &owner)
        };
        assert_eq!(stage.renew(vec![entry]).await.unwrap(), [Ok(Renewed::Held)]);
        assert!(stage.ask::<u64>(&["PTTL", held.name.as_str()]).await > 25_000);
        assert_eq!(
            stage.granted(&asking(&held, &owner)).await,
            first,
            "a repeat needs no memory"
        );
        assert_eq!(stage.release(&held, &owner).await, Ok(Released::Freed { receivers: 0 }));
        stage.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
        stage.granted(&asking(&free, &super::owner())).await;
        assert_eq!(stage.force_release(&free).await, Ok(true));
    }
}

#[tokio::test]
async fn another_kind_is_told_and_left_alone() {
    let stage = Stage::new().await;
    for (layout, words, found) in [
        (Layout::Redisson, vec!["SET", "a", "a peer"], "string"),
        (Layout::Redisson, vec!["RPUSH", "a", "x"], "list"),
        (Layout::Redisson, vec!["ZADD", "a", "1", "x"], "zset"),
        (
            Layout::Redisson,
            vec!["HSET", "a", "mode", "read", "u:1", "1"],
            "read-write lock",
        ),
        (Layout::Plain, vec!["HSET", "a", "u:1", "1"], "hash"),
        (Layout::Plain, vec!["SADD", "a", "x"], "set"),
        (
            Layout::Plain,
            vec!["HSET", "a", "mode", "read", "u:1", "1"],
            "read-write lock",
        ),
    ] {
        let (target, owner) = (target(layout, "a"), owner());
        stage.ask::<()>(&["FLUSHALL"]).await;
        stage.ask::<redis::Value>(&words).await;
        let before: Vec<u8> = stage.ask(&["DUMP", "a"]).await;
        assert_eq!(
            stage.acquire(&asking(&target, &owner)).await,
            Err(wrong_kind(found)),
            "{words:?}"
        );
        assert_eq!(stage.release(&target, &owner).await, Err(wrong_kind(found)));
        assert_eq!(stage.force_release(&target).await, Err(wrong_kind(found)));
        assert_eq!(
            stage.renew(vec![renewing(&target, &owner)]).await.unwrap(),
            [Ok(Renewed::Gone)]
        );
        assert_eq!(stage.ask::<Vec<u8>>(&["DUMP", "a"]).await, before);
        assert_eq!(stage.server.keys().await, ["a"]);
    }
}

#[tokio::test]
async fn states_of_the_server_are_told_apart() {
    let stage = Stage::new().await;
    stage.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let (class, effect, _) = refusal(&stage, "a").await;
    assert_eq!((class, effect), (Refusal::Durability, Effect::None));
    stage.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;

    // A replica of nobody that answers.
    stage.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let (class, effect, _) = refusal(&stage, "a").await;
    assert_eq!((class, effect), (Refusal::ReadOnly, Effect::None));
    stage
        .ask::<()>(&["CONFIG", "SET", "replica-serve-stale-data", "no"])
        .await;
    let (class, effect, _) = refusal(&stage, "a").await;
    assert_eq!((class, effect), (Refusal::NotReady, Effect::None));
    stage.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    stage.granted(&asking(&target(Layout::Redisson, "a"), &owner())).await;
}

#[tokio::test]
async fn a_server_busy_with_somebodys_script_is_not_ready() {
    let stage = Stage::new().await;
    stage.granted(&asking(&target(Layout::Redisson, "a"), &owner())).await;
    stage.ask::<()>(&["CONFIG", "SET", "busy-reply-threshold", "50"]).await;
    let mut connection = stage.server.connection().await;
    let endless = tokio::spawn(async move {
        let script = redis::cmd("EVAL").arg("while true do end").arg(0).to_owned();
        script.query_async::<redis::Value>(&mut connection).await
    });
    let (class, effect, _) = refusal(&stage, "b").await;
    assert_eq!((class, effect), (Refusal::NotReady, Effect::None));
    stage.ask::<()>(&["SCRIPT", "KILL"]).await;
    assert!(endless.await.unwrap().is_err());
    stage.granted(&asking(&target(Layout::Redisson, "c"), &owner())).await;
}

/// What every user of the scripts needs, but for one command and the channels.
fn user(without: &str, rest: &str) -> String {
    let needed = [
        "evalsha",
        "script|load",
        "time",
        "type",
        "hmget",
        "hexists",
        "hset",
        "hdel",
        "get",
        "set",
        "del",
        "pexpire",
        "pexpireat",
        "pttl",
        "publish",
        "subscribe",
        "unsubscribe",
        "ping",
    ];
    let granted: Vec<_> = needed
        .iter()
        .filter(|command| **command != without)
        .map(|command| format!("+{command}"))
        .collect();
    format!("on >hunter2 ~* -@all {} {rest}", granted.join(" "))
}

#[tokio::test]
async fn a_user_without_a_permission_is_told_so_and_nothing_is_written() {
    let server = RedisServer::builder()
        .user("whole", &user("", "&*"))
        .user("noload", &user("script|load", "&*"))
        .user("noset", &user("set", "&*"))
        .user("noread", &user("hexists", "&*"))
        .user("nochannel", &user("", "resetchannels"))
        .start();
    let address = server.address();
    let mut stage = Stage::through(server, &format!("redis://whole:hunter2@{address}"), |config| config).await;
    let (held, owner) = (target(Layout::Redisson, "held"), owner());
    stage.granted(&asking(&held, &owner)).await;
    stage.renew(vec![renewing(&held, &owner)]).await.unwrap();
    let whole = Arc::clone(&stage.engine);

    let as_user = async |stage: &mut Stage, name: &str| {
        stage.engine = connecting(&format!("redis://{name}:hunter2@{address}"), &stage.keeper)
            .await
            .unwrap();
    };
    as_user(&mut stage, "noset").await;
    let (class, _, text) = refusal(&stage, "a").await;
    assert_eq!(class, Refusal::Permission, "{text}");
    assert!(!text.contains("hunter2") && !text.contains("noset"), "{text}");
    assert!(!stage.server.keys().await.contains(&"a".to_owned()));

    // A denial is no loss: the hold is still there, it only cannot be seen.
    as_user(&mut stage, "noread").await;
    let results = stage.renew(vec![renewing(&held, &owner)]).await.unwrap();
    assert!(
        matches!(
            &results[0],
            Err(StepError {
                cause: Cause::Refused(Refusal::Permission, _),
                ..
            })
        ),
        "{results:?}"
    );

    // Who may not publish still frees.
    as_user(&mut stage, "nochannel").await;
    assert_eq!(stage.release(&held, &owner).await, Ok(Released::Freed { receivers: 0 }));

    stage.ask::<()>(&["SCRIPT", "FLUSH"]).await;
    as_user(&mut stage, "noload").await;
    let (class, effect, _) = refusal(&stage, "a").await;
    assert_eq!((class, effect), (Refusal::ScriptMissing, Effect::None));
    stage.engine = whole;
    stage
        .granted(&asking(&target(Layout::Redisson, "a"), &super::owner()))
        .await;
    as_user(&mut stage, "noload").await;
    stage
        .granted(&asking(&target(Layout::Redisson, "b"), &super::owner()))
        .await;
}
