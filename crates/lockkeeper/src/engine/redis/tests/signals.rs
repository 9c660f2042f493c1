//! The connection that listens.

use std::time::Instant;

use lockkeeper_testkit::{Matcher, Proxy, wait_until};

use super::*;
use crate::engine::{Channel, Subscription};

async fn live(channel: &Channel) {
    tokio::time::timeout(PATIENCE, channel.becomes_live())
        .await
        .expect("the channel to be live");
}

async fn subscribed(stage: &Stage, name: &str) -> Subscription {
    let subscription = stage.engine.subscribe(&name.into());
    live(subscription.channel()).await;
    subscription
}

async fn changed(channel: &Channel, seen: u64) {
    tokio::time::timeout(PATIENCE, channel.changed(seen))
        .await
        .expect("a signal");
}

/// Publishes and waits until it is heard; the caller knows that the channel is subscribed.
async fn is_heard(stage: &Stage, channel: &Channel) {
    let seen = channel.count();
    stage.ask::<u64>(&["PUBLISH", channel.name(), "0"]).await;
    changed(channel, seen).await;
}

async fn channels_become(stage: &Stage, wanted: &[&str]) {
    wait_until("the subscriptions on the server", PATIENCE, async || {
        let mut channels = stage.server.pubsub_channels().await;
        channels.sort();
        if channels == wanted { Ok(()) } else { Err(channels) }
    })
    .await;
}

#[tokio::test]
async fn messages_reach_their_channel_and_nothing_stays_subscribed() {
    let stage = Stage::new().await;
    let (a, b) = (subscribed(&stage, "a").await, subscribed(&stage, "b").await);
    let again = stage.engine.subscribe(&"a".into());
    assert!(again.channel().is_live());
    channels_become(&stage, &["a", "b"]).await;
    let quiet = b.channel().count();
    is_heard(&stage, a.channel()).await;
    assert_eq!(b.channel().count(), quiet);
    drop(a);
    is_heard(&stage, again.channel()).await;
    drop(again);
    channels_become(&stage, &["b"]).await;
    is_heard(&stage, b.channel()).await;
    drop(b);
    channels_become(&stage, &[]).await;
}

#[tokio::test]
async fn a_lock_that_is_freed_wakes_its_waiters() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        stage.granted(&asking(&target, &owner)).await;
        let subscription = subscribed(&stage, &target.channel).await;
        let seen = subscription.channel().count();
        assert_eq!(
            stage.release(&target, &owner).await,
            Ok(Released::Freed { receivers: 1 })
        );
        changed(subscription.channel(), seen).await;
    }
}

#[tokio::test]
async fn probes_are_sent_only_while_somebody_waits() {
    let stage = Stage::on(RedisServer::start(), |config| {
        config.heartbeat(Duration::from_millis(20)).unwrap()
    })
    .await;
    let subscription = subscribed(&stage, "a").await;
    wait_until("three probes", PATIENCE, async || stage.server.calls("ping").await >= 3).await;
    assert!(subscription.channel().is_live());
    drop(subscription);
    channels_become(&stage, &[]).await;
    let before = stage.server.calls("ping").await;
    // Longer than a dozen probes would take: there is nothing to see that comes after "nothing".
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(stage.server.calls("ping").await, before);
    let subscription = subscribed(&stage, "b").await;
    is_heard(&stage, subscription.channel()).await;
}

/// Half-dead: the link swallows everything and is never closed.
#[tokio::test]
async fn a_half_dead_link_is_noticed_and_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let heartbeat = Duration::from_millis(100);
    let stage = Stage::through(server, &proxy.url(), |config| config.heartbeat(heartbeat).unwrap()).await;
    let subscription = subscribed(&stage, "a").await;
    let channel = subscription.channel();
    is_heard(&stage, channel).await;

    let hole = proxy.on(Matcher::subscribers()).black_hole();
    let seen = channel.count();
    let began = Instant::now();
    hole.fired().await;
    changed(channel, seen).await;
    assert!(!channel.is_live(), "doubted first");
    assert!(began.elapsed() < heartbeat * 10, "{:?}", began.elapsed());
    hole.remove();
    live(channel).await;
    is_heard(&stage, channel).await;
}

#[tokio::test]
async fn a_cut_link_is_told_and_every_channel_comes_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let stage = Stage::through(server, &proxy.url(), |config| config).await;
    let mut subscriptions = Vec::new();
    for number in 0..300 {
        subscriptions.push(stage.engine.subscribe(&format!("channel{number}").into()));
    }
    for subscription in &subscriptions {
        live(subscription.channel()).await;
    }
    for _ in 0..3 {
        let counts: Vec<_> = subscriptions
            .iter()
            .map(|subscription| subscription.channel().count())
            .collect();
        assert_eq!(proxy.reset(&Matcher::subscribers()), 1);
        for (subscription, seen) in subscriptions.iter().zip(counts) {
            changed(subscription.channel(), seen).await;
            live(subscription.channel()).await;
        }
    }
    is_heard(&stage, subscriptions[123].channel()).await;
    subscriptions.truncate(1);
    channels_become(&stage, &["channel0"]).await;
}

#[tokio::test]
async fn a_server_that_was_away_is_listened_to_again() {
    let stage = Stage::new().await;
    let subscription = subscribed(&stage, "a").await;
    let seen = subscription.channel().count();
    stage.server.kill();
    changed(subscription.channel(), seen).await;
    assert!(!subscription.channel().is_live());
    // In use while there is no server at all.
    let later = stage.engine.subscribe(&"b".into());
    stage.server.restart_empty();
    for subscription in [&subscription, &later] {
        live(subscription.channel()).await;
        is_heard(&stage, subscription.channel()).await;
    }
}

/// A user may lack one channel: it stays silent, and the others do not suffer.
#[tokio::test]
async fn a_refused_subscription_does_not_spoil_the_next() {
    let server = RedisServer::builder()
        .user("bob", "on >hunter2 ~* +@all resetchannels &allowed*")
        .start();
    let url = format!("redis://bob:hunter2@{}", server.address());
    let stage = Stage::through(server, &url, |config| config).await;
    let refused = stage.engine.subscribe(&"forbidden".into());
    let allowed = subscribed(&stage, "allowed").await;
    is_heard(&stage, allowed.channel()).await;
    let next = subscribed(&stage, "allowed2").await;
    is_heard(&stage, next.channel()).await;
    assert!(!refused.channel().is_live());
    // Allowed by and by: it is tried again. A change of the channels of a user cuts his subscribers, so this is a
    // new line, too.
    stage.ask::<()>(&["ACL", "SETUSER", "bob", "&forbidden"]).await;
    live(refused.channel()).await;
    is_heard(&stage, refused.channel()).await;
}

/// Used, given up and used again without a pause: what counts in the end is the last use.
#[tokio::test]
async fn channels_that_come_and_go_quickly_end_as_wanted() {
    let stage = Stage::new().await;
    let other = subscribed(&stage, "other").await;
    for round in 0..200 {
        let subscription = stage.engine.subscribe(&"a".into());
        if round % 3 == 0 {
            live(subscription.channel()).await;
            is_heard(&stage, subscription.channel()).await;
        }
        if round % 5 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let last = subscribed(&stage, "a").await;
    is_heard(&stage, last.channel()).await;
    drop(last);
    channels_become(&stage, &["other"]).await;
    is_heard(&stage, other.channel()).await;
}

#[tokio::test]
async fn an_engine_that_is_gone_leaves_no_connection() {
    let stage = Stage::new().await;
    let subscription = subscribed(&stage, "a").await;
    stage.granted(&asking(&target(Layout::Redisson, "a"), &owner())).await;
    let Stage { engine, keeper, server } = stage;
    drop(engine);
    is_heard_on(&server, subscription.channel()).await;
    drop(subscription);
    wait_until("the connections to be closed", PATIENCE, async || {
        let clients = server.client_list().await;
        match clients.iter().filter(|client| client.name() == "lockkeeper").count() {
            0 => Ok(()),
            some => Err(some),
        }
    })
    .await;
    drop(keeper);
}

async fn is_heard_on(server: &RedisServer, channel: &Channel) {
    let seen = channel.count();
    server
        .query::<u64>(redis::cmd("PUBLISH").arg(&**channel.name()).arg("0"))
        .await;
    changed(channel, seen).await;
}
