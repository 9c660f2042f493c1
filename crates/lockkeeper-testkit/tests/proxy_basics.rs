//! The proxy without faults, and its door.

use std::io::ErrorKind;
use std::time::Duration;

use lockkeeper_testkit::{Matcher, Proxy, RedisServer, wait_until};
use redis::{AsyncConnectionConfig, Client, Value, cmd};

const SOON: Duration = Duration::from_secs(10);

fn proxied() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    (server, proxy)
}

async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(SOON));
    Client::open(url)
        .unwrap()
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap()
}

#[tokio::test]
async fn requests_pass_are_counted_and_logged() {
    let (_server, proxy) = proxied();
    let mut connection = connect(&proxy.url()).await;
    let () = cmd("SET")
        .arg("key")
        .arg("value")
        .query_async(&mut connection)
        .await
        .unwrap();
    let value: String = cmd("get").arg("key").query_async(&mut connection).await.unwrap();
    assert_eq!(value, "value");
    assert_eq!((proxy.requests_of("SET"), proxy.requests_of("get")), (1, 1));
    assert_eq!(proxy.connections(), 1);
    assert_eq!(proxy.open_connections(), 1);
    let log = proxy.log();
    let set = log.iter().find(|request| request.command == "SET").unwrap();
    assert_eq!(
        (set.argument(0), set.argument(1), set.argument(2)),
        ("key".into(), "value".into(), "".into())
    );
    assert!(set.contains("val") && !set.contains("nothing") && set.connection == 1);
    assert_eq!(proxy.requests(), u64::try_from(log.len()).unwrap());
    proxy.clear_log();
    assert!(proxy.log().is_empty());
    drop(connection);
    wait_until("the closed connection", SOON, async || proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn large_and_nested_values_pass_whole_in_both_protocols() {
    let (_server, proxy) = proxied();
    for protocol in ["", "?protocol=resp3"] {
        let mut connection = connect(&format!("{}{protocol}", proxy.url())).await;
        let large = "x".repeat(1_000_000);
        let () = cmd("SET")
            .arg("large")
            .arg(&large)
            .query_async(&mut connection)
            .await
            .unwrap();
        let back: String = cmd("GET").arg("large").query_async(&mut connection).await.unwrap();
        assert!(back == large);
        let mut pipeline = redis::pipe();
        for number in 0..200 {
            pipeline.cmd("ECHO").arg(number);
        }
        let numbers: Vec<u32> = pipeline.query_async(&mut connection).await.unwrap();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
        let nested: Value = cmd("COMMAND")
            .arg("INFO")
            .arg("get")
            .arg("nosuch")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert!(
            matches!(nested, Value::Array(ref entries) if entries.len() == 2),
            "{nested:?}"
        );
    }
}

#[tokio::test]
async fn a_shut_door_refuses_and_opens_on_the_same_port() {
    let (_server, proxy) = proxied();
    let mut inside = connect(&proxy.url()).await;
    proxy.refuse_connections();
    let refused = std::net::TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let pong: String = cmd("PING").query_async(&mut inside).await.unwrap();
    assert_eq!(pong, "PONG");
    proxy.refuse_connections();
    proxy.accept_connections();
    proxy.accept_connections();
    connect(&proxy.url()).await;
}

#[tokio::test]
async fn a_dead_server_is_seen_as_a_closed_connection_and_the_next_one_takes_over() {
    let (server, proxy) = proxied();
    let mut connection = connect(&proxy.url()).await;
    server.kill();
    assert!(cmd("PING").query_async::<String>(&mut connection).await.is_err());
    let other = RedisServer::start();
    proxy.set_upstream(other.address());
    let mut connection = connect(&proxy.url()).await;
    let () = cmd("SET")
        .arg("there")
        .arg(1)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(other.keys().await, ["there"]);
}

#[tokio::test]
async fn connections_are_reset_all_or_by_kind() {
    let (server, proxy) = proxied();
    let mut commands = connect(&proxy.url()).await;
    let mut listener = Client::open(proxy.url()).unwrap().get_async_pubsub().await.unwrap();
    listener.subscribe("news").await.unwrap();
    assert_eq!(proxy.reset(&Matcher::subscribers()), 1);
    wait_until("no listener", SOON, async || server.pubsub_channels().await.is_empty()).await;
    let pong: String = cmd("PING").query_async(&mut commands).await.unwrap();
    assert_eq!(pong, "PONG");
    assert_eq!(proxy.reset_all(), 1);
    assert!(cmd("PING").query_async::<String>(&mut commands).await.is_err());
    assert_eq!(proxy.open_connections(), 0);
}

#[test]
fn a_reset_is_a_reset_and_not_an_end() {
    use std::io::Read;
    let (_server, proxy) = proxied();
    let mut client = std::net::TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    std::io::Write::write_all(&mut client, b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    assert_eq!(proxy.reset_all(), 1);
    assert_eq!(client.read(&mut answer).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_replica_copies_through_the_proxy() {
    let server = RedisServer::builder().config("repl-diskless-sync-delay", "0").start();
    let proxy = Proxy::start(server.address());
    let replica = RedisServer::start();
    let () = server.query(cmd("SET").arg("before").arg(1)).await;
    let () = replica
        .query(cmd("REPLICAOF").arg("127.0.0.1").arg(proxy.address().port()))
        .await;
    wait_until("the first copy", SOON, async || replica.keys().await == ["before"]).await;
    let held = proxy.on(Matcher::any()).hold_replies();
    let () = server.query(cmd("SET").arg("held").arg(1)).await;
    held.fired().await;
    assert_eq!(replica.keys().await, ["before"]);
    held.release();
    wait_until("the held copy", SOON, async || {
        replica.keys().await == ["before", "held"]
    })
    .await;
}
