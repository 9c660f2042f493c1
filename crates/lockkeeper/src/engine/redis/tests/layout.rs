//! What is stored and signalled: for Redisson's layout, what Redisson itself would leave.

use std::collections::BTreeMap;

use super::*;

async fn life(stage: &Stage, key: &str) -> i64 {
    stage.ask(&["PTTL", key]).await
}

#[tokio::test]
async fn redissons_lock_is_a_hash_of_its_owner_and_one() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "x"), owner());
    let subscription = stage.engine.subscribe(&target.channel);
    tokio::time::timeout(PATIENCE, subscription.channel().becomes_live())
        .await
        .unwrap();
    let quiet = subscription.channel().count();

    stage.granted(&asking(&target, &owner)).await;
    let fields: BTreeMap<String, String> = stage.ask(&["HGETALL", "x"]).await;
    assert_eq!(fields, BTreeMap::from([(owner.as_str().to_owned(), "1".to_owned())]));
    let left = life(&stage, "x").await;
    assert!((29_000..=30_000).contains(&left), "{left}");
    let left = stage.busy(&target).await.unwrap();
    assert!((29_000..=30_000).contains(&left), "{left}");
    assert_eq!(subscription.channel().count(), quiet);

    assert_eq!(
        stage.release(&target, &owner).await,
        Ok(Released::Freed { receivers: 1 })
    );
    tokio::time::timeout(PATIENCE, subscription.channel().changed(quiet))
        .await
        .unwrap();
    assert_eq!(stage.ask::<bool>(&["EXISTS", "x"]).await, false);
    assert_eq!(stage.server.keys().await, ["lockkeeper_token:{x}"]);
    assert_eq!(stage.release(&target, &owner).await, Ok(Released::NotThere));
}
