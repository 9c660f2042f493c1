//! One name, two kinds of object: a typed error, and nothing is changed.

use std::time::Duration;

use lockkeeper::{Error, Layout, Unlocked};
use lockkeeper_testkit::wait_until;

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms, soon};

in_both_layouts!(
    a_key_of_another_kind_is_refused_and_kept,
    a_key_that_turns_into_another_kind_ends_the_wait,
    the_other_layout_is_refused_and_kept,
);

/// A command that makes a key of a kind that is no mutex of this layout.
fn makers(layout: Layout) -> Vec<Vec<&'static str>> {
    let mut makers = vec![
        vec!["RPUSH", "K", "a", "b"],
        vec!["SADD", "K", "a"],
        vec!["ZADD", "K", "1", "a"],
        vec!["XADD", "K", "1-1", "f", "v"],
        vec!["HSET", "K", "mode", "read", "uuid:1", "1"],
        vec!["HSET", "K", "mode", "write", "uuid:1:write", "1"],
    ];
    makers.push(match layout {
        Layout::Plain => vec!["HSET", "K", "uuid:1", "1"],
        _ => vec!["SET", "K", "uuid:1"],
    });
    makers
}

async fn a_key_of_another_kind_is_refused_and_kept(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    for maker in makers(layout) {
        let _: redis::Value = stage.ask(&maker).await;
        let _: () = stage.ask(&["PEXPIRE", "K", "60000"]).await;
        let before: redis::Value = stage.ask(&["DUMP", "K"]).await;
        let mutex = stage.mutex(&keeper, "K");
        for refused in [
            soon("a try", mutex.try_lock()).await.map(drop),
            soon("a lock", mutex.lock()).await.map(drop),
            soon("a wait", mutex.clone().wait(ms(300)).lock()).await.map(drop),
            soon("a forced unlock", mutex.force_unlock()).await.map(drop),
        ] {
            let Err(Error::WrongKind { name, wanted, found }) = refused else {
                panic!("{maker:?}: {refused:?}")
            };
            assert_eq!((name.as_str(), wanted), ("K", "mutex"));
            assert!(!found.is_empty() && found != "mutex", "{found}");
        }
        let after: redis::Value = stage.ask(&["DUMP", "K"]).await;
        assert_eq!(before, after, "{maker:?}");
        assert!(stage.left("K").await > 50_000);
        assert_eq!(stage.server.keys().await, ["K"], "nothing beside it");
        let _: () = stage.ask(&["DEL", "K"]).await;
        // The failure is the key's, not the handle's.
        let guard = soon("the lock without the key", mutex.lock()).await.unwrap();
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        let _: () = stage.ask(&["FLUSHALL"]).await;
    }
}

async fn a_key_that_turns_into_another_kind_ends_the_wait(layout: Layout) {
    let stage = Stage::new(layout);
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let guard = stage.mutex(&keeper, "K").lock().await.unwrap();
    let waiter = stage.mutex(&other, "K");
    let waiting = tokio::spawn(async move { waiter.lock().await });
    wait_until("a subscriber", SOON, async || {
        !stage.server.pubsub_channels().await.is_empty()
    })
    .await;
    let mut replaced = redis::pipe();
    replaced.atomic().del("K").rpush("K", "a").publish(
        match layout {
            Layout::Plain => "lockkeeper_channel:{K}",
            _ => "redisson_lock__channel:{K}",
        },
        "0",
    );
    let mut connection = stage.server.connection().await;
    let _: () = replaced.query_async(&mut connection).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(ended, Err(Error::WrongKind { .. })), "{ended:?}");
    let unlocked = guard.unlock().await;
    assert!(unlocked.is_err(), "{unlocked:?}");
    assert_eq!(stage.ask::<Vec<String>>(&["LRANGE", "K", "0", "-1"]).await, ["a"]);
}

async fn the_other_layout_is_refused_and_kept(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    let other_layout = match layout {
        Layout::Plain => Layout::Redisson,
        _ => Layout::Plain,
    };
    let guard = stage.mutex(&keeper, "shared").lock().await.unwrap();
    let twin = keeper.mutex("shared").layout(other_layout);
    for refused in [twin.try_lock().await, twin.clone().wait(ms(200)).lock().await] {
        assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    }
    assert!(matches!(twin.force_unlock().await, Err(Error::WrongKind { .. })));
    assert_eq!(stage.holder("shared").await.as_deref(), Some(guard.owner()));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let next = twin.lock().await.unwrap();
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}
