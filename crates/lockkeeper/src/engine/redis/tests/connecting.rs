//! What is told when no connection can be had.

use std::net::TcpListener;

use super::*;
use crate::error::{Effect, Refusal};

fn shown(error: &Error) -> String {
    format!("{error} {error:?}")
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable_at_once() {
    let keeper = Keeper::start();
    // A port that nobody listens on: it was ours a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = connecting(&format!("redis://:hunter2@127.0.0.1:{port}"), &keeper)
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Unreachable {
                effect: Effect::None,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!shown(&error).contains("hunter2"));
    assert!(shown(&error).contains(&port.to_string()), "{error}");

    let error = connecting("unix:///nowhere/at/all.sock?pass=hunter2", &keeper)
        .await
        .unwrap_err();
    assert!(
        error.is_unreachable() && !shown(&error).contains("hunter2"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_silent_is_unreachable_within_the_limit() {
    let keeper = Keeper::start();
    // The system accepts the connection, nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = RedisConfig::from_url(&format!("redis://{}", silent.local_addr().unwrap()))
        .unwrap()
        .connect_limit(Duration::from_millis(200))
        .unwrap();
    let connecting = RedisEngine::connect(config, Arc::new(SystemClock), keeper.handle().clone());
    let error = tokio::time::timeout(Duration::from_secs(2), connecting)
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_is_told_without_showing_it() {
    let server = RedisServer::builder()
        .password("right-hunter2")
        .user("bob", "on >bobs-hunter2 +@all ~* &*")
        .start();
    let keeper = Keeper::start();
    let address = server.address();
    for login in ["", ":wrong-hunter2@", "nobody:bobs-hunter2@", "bob:wrong-hunter2@"] {
        let error = connecting(&format!("redis://{login}{address}"), &keeper)
            .await
            .unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Refused {
                    refusal: Refusal::Permission,
                    effect: Effect::None,
                    ..
                }
            ),
            "{login}: {error:?}"
        );
        assert!(!shown(&error).contains("hunter2"), "{login}: {error}");
    }
    for login in [":right-hunter2@", "default:right-hunter2@", "bob:bobs%2Dhunter2@"] {
        let engine = connecting(&format!("redis://{login}{address}"), &keeper).await.unwrap();
        assert!(!format!("{engine:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let server = RedisServer::start();
    let keeper = Keeper::start();
    let error = connecting(&server.url_for_db(99), &keeper).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_with_too_many_clients_says_so() {
    let server = RedisServer::builder().config("maxclients", "1").start();
    let keeper = Keeper::start();
    let _full = server.connection().await;
    let error = connecting(&server.url(), &keeper).await.unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Refused {
                refusal: Refusal::TooManyClients,
                ..
            }
        ) || error.is_unreachable(),
        "{error:?}"
    );
    assert!(error.is_retryable());
}

#[tokio::test]
async fn every_way_to_the_server_works() {
    let server = RedisServer::builder().password("p@ss word").start();
    let keeper = Keeper::start();
    for url in [server.url(), server.unix_url(), server.url_for_db(3)] {
        let engine = connecting(&url, &keeper).await.unwrap();
        let stage = Stage {
            engine,
            keeper: Keeper::start(),
            server: RedisServer::start(),
        };
        let (target, owner) = (target(Layout::Redisson, "a"), owner());
        stage.granted(&asking(&target, &owner)).await;
        stage.release(&target, &owner).await.unwrap();
    }
}

#[tokio::test]
async fn connections_are_named_and_speak_resp3() {
    let stage = Stage::new().await;
    let (target, owner) = (target(Layout::Redisson, "a"), owner());
    stage.granted(&asking(&target, &owner)).await;
    let subscription = stage.engine.subscribe(&target.channel);
    tokio::time::timeout(PATIENCE, subscription.channel().becomes_live())
        .await
        .unwrap();
    let clients = stage.server.client_list().await;
    let ours: Vec<_> = clients.iter().filter(|client| client.name() == "lockkeeper").collect();
    assert_eq!(ours.len(), 3, "foreground, background, signals: {clients:?}");
    assert!(ours.iter().all(|client| client.field("resp") == "3"));
    assert_eq!(ours.iter().map(|client| client.subscriptions()).sum::<u64>(), 1);
}
