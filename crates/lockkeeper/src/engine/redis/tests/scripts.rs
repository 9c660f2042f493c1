//! The scripts on a server: their hashes, and servers that do not know them.

use super::*;
use crate::engine::redis::script::all;

#[tokio::test]
async fn the_server_gives_the_same_hashes() {
    let stage = Stage::new().await;
    for script in all() {
        let hash: String = stage.ask(&["SCRIPT", "LOAD", script.source()]).await;
        assert_eq!(hash, script.hash(), "{}", script.name());
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_given_them_unseen() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        let forget = || stage.ask::<()>(&["SCRIPT", "FLUSH"]);
        forget().await;
        let before = stage.engine.round_trips();
        let acquire = asking(&target, &owner);
        let first = stage.granted(&acquire).await;
        assert_eq!(stage.engine.round_trips() - before, 3 + stage.connections_made(layout));
        assert_eq!(acquire.copies.open_until(), 0);
        forget().await;
        assert_eq!(stage.granted(&asking(&target, &owner)).await, first);
        forget().await;
        let results = stage.renew(vec![renewing(&target, &owner)]).await.unwrap();
        assert_eq!(results, [Ok(Renewed::Held)]);
        forget().await;
        assert_eq!(stage.inspect(&target).await.holders.len(), 1);
        forget().await;
        assert_eq!(
            stage.release(&target, &owner).await,
            Ok(Released::Freed { receivers: 0 })
        );
        forget().await;
        assert_eq!(stage.force_release(&target).await, Ok(false));
    }
}

/// A restart forgets the scripts, cuts the connections and loses the data, all at once.
#[tokio::test]
async fn a_restarted_server_is_used_again() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    let (first, _) = stage.granted(&asking(&target, &owner)).await;
    stage.server.restart_empty();
    let again = lockkeeper_testkit::wait_until("a grant", PATIENCE, async || {
        match stage.acquire(&asking(&target, &super::owner())).await {
            Ok(Acquired::Granted { first_token, .. }) => Ok(first_token),
            other => Err(other),
        }
    })
    .await;
    assert!(again > first);
    let results = stage.renew(vec![renewing(&target, &owner)]).await.unwrap();
    assert_eq!(results, [Ok(Renewed::Gone)]);
}

impl Stage {
    /// The first foreground call makes its connection, which is one request more.
    fn connections_made(&self, layout: Layout) -> u64 {
        u64::from(layout == BOTH[0])
    }
}
