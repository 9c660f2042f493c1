//! Real servers: started, looked into, killed, frozen, restarted.

use std::time::Duration;

use lockkeeper_testkit::real_time::{self, timeout};
use lockkeeper_testkit::server::ServerKind;
use lockkeeper_testkit::{Process, RedisServer, ServerVersion, wait_until};
use redis::{Client, cmd};

const SOON: Duration = Duration::from_secs(10);

async fn set(server: &RedisServer, key: &str, value: &str) {
    server.query::<()>(cmd("SET").arg(key).arg(value)).await;
}

#[tokio::test]
async fn a_server_answers_over_its_port_and_its_socket_and_allows_debug() {
    let server = RedisServer::start();
    set(&server, "a", "1").await;
    assert_eq!(server.keys().await, ["a"]);
    let client = Client::open(server.unix_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let value: String = cmd("GET").arg("a").query_async(&mut connection).await.unwrap();
    assert_eq!(value, "1");
    server.query::<()>(cmd("DEBUG").arg("SET-ACTIVE-EXPIRE").arg(1)).await;
}

#[tokio::test]
async fn databases_are_told_apart_by_the_address() {
    let server = RedisServer::start();
    let mut other = server.connection_for_db(3).await;
    let () = cmd("SET")
        .arg("only-there")
        .arg(1)
        .query_async(&mut other)
        .await
        .unwrap();
    assert!(server.keys().await.is_empty());
    assert!(server.url_for_db(3).ends_with("/3"));
}

#[tokio::test]
async fn the_counters_say_what_ran_and_who_is_there() {
    let server = RedisServer::start();
    let before = server.total_commands().await;
    for _ in 0..3 {
        set(&server, "a", "1").await;
    }
    assert_eq!(server.calls("set").await, 3);
    assert_eq!(server.command_stats().await["set"].failed, 0);
    assert!(server.total_commands().await >= before + 3);

    let mut named = server.connection().await;
    let () = cmd("CLIENT")
        .arg("SETNAME")
        .arg("someone")
        .query_async(&mut named)
        .await
        .unwrap();
    let clients = server.client_list().await;
    assert_eq!(clients.iter().filter(|client| client.name() == "someone").count(), 1);
    assert!(
        clients
            .iter()
            .any(|client| client.command() == "client|list" || client.command() == "client")
    );
}

#[tokio::test]
async fn channels_are_listed_while_somebody_listens() {
    let server = RedisServer::start();
    let client = Client::open(server.url()).unwrap();
    let mut listener = client.get_async_pubsub().await.unwrap();
    listener.subscribe("news").await.unwrap();
    assert_eq!(server.pubsub_channels().await, ["news"]);
    assert_eq!(
        server
            .client_list()
            .await
            .iter()
            .map(|client| client.subscriptions())
            .sum::<u64>(),
        1
    );
    drop(listener);
    wait_until("no channel", SOON, async || server.pubsub_channels().await.is_empty()).await;
}

#[tokio::test]
async fn a_killed_server_is_gone_and_comes_back_on_its_port_empty() {
    let server = RedisServer::start();
    set(&server, "a", "1").await;
    let (address, pid) = (server.address(), server.pid());
    server.kill();
    assert!(!server.is_running());
    assert!(std::net::TcpStream::connect(address).is_err());
    server.restart_empty();
    assert_eq!(server.address(), address);
    assert_ne!(server.pid(), pid);
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn an_append_only_server_keeps_its_data_over_a_crash_and_tells_what_it_wrote() {
    let server = RedisServer::builder().append_only().start();
    set(&server, "a", "1").await;
    server.restart();
    set(&server, "b", "2").await;
    server.stop();
    server.restart();
    assert_eq!(server.keys().await, ["a", "b"]);
    let written = server.append_only_commands().unwrap();
    assert!(
        written.contains(&vec!["SET".to_owned(), "b".to_owned(), "2".to_owned()]),
        "{written:?}"
    );
    server.restart_empty();
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn a_frozen_server_answers_nothing_until_it_is_thawed() {
    let server = RedisServer::start();
    let mut connection = server.connection().await;
    server.freeze();
    let ping = cmd("PING");
    let answer = ping.query_async::<String>(&mut connection);
    let mut answer = std::pin::pin!(answer);
    assert!(timeout(Duration::from_millis(50), answer.as_mut()).await.is_err());
    server.thaw();
    assert_eq!(timeout(SOON, answer).await.unwrap().unwrap(), "PONG");
    server.freeze();
    server.stop();
    assert!(!server.is_running());
}

#[tokio::test]
async fn passwords_users_and_limits_are_in_force() {
    let server = RedisServer::builder()
        .password("s3cret/?")
        .user("bob", "on >pw ~lock:* +get +ping")
        .max_memory(64 * 1024 * 1024)
        .config("maxmemory-policy", "noeviction")
        .argument("--maxclients")
        .argument("77")
        .start();
    set(&server, "a", "1").await;
    let get = |name: &'static str| {
        let mut question = cmd("CONFIG");
        question.arg("GET").arg(name);
        question
    };
    let limit: Vec<String> = server.query(&get("maxmemory")).await;
    assert_eq!(limit[1], "67108864");
    let clients: Vec<String> = server.query(&get("maxclients")).await;
    assert_eq!(clients[1], "77");

    let nobody = Client::open(format!("redis://{}/", server.address())).unwrap();
    let mut connection = nobody.get_multiplexed_async_connection().await.unwrap();
    let refused = cmd("GET")
        .arg("a")
        .query_async::<String>(&mut connection)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"));
    let bob = Client::open(format!("redis://bob:pw@{}/", server.address())).unwrap();
    let mut connection = bob.get_multiplexed_async_connection().await.unwrap();
    let refused = cmd("GET")
        .arg("a")
        .query_async::<String>(&mut connection)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("NOPERM"));
}

#[test]
fn many_servers_at_once_get_ports_of_their_own() {
    let servers: Vec<RedisServer> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(RedisServer::start)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let ports: std::collections::BTreeSet<u16> = servers.iter().map(|server| server.address().port()).collect();
    assert_eq!(ports.len(), servers.len());
}

#[test]
fn a_start_that_fails_says_why() {
    let missing = RedisServer::builder()
        .binary("/nonexistent/redis-server")
        .try_start()
        .unwrap_err();
    assert!(missing.to_string().contains("install Redis"), "{missing}");
    let refused = RedisServer::builder()
        .config("no-such-option", "1")
        .try_start()
        .unwrap_err();
    assert!(refused.to_string().contains("no-such-option"), "{refused}");
}

#[test]
fn versions_of_both_programs_are_read() {
    let redis = ServerVersion::parse("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc bits=64").unwrap();
    assert_eq!(
        (redis.kind, redis.major, redis.minor, redis.patch),
        (ServerKind::Redis, 7, 0, 15)
    );
    assert!(redis.at_least(6, 2) && redis.at_least(7, 0) && !redis.at_least(7, 2));
    let valkey = ServerVersion::parse("Valkey server v=8.1.0-rc1 sha=00000000:0").unwrap();
    assert_eq!((valkey.kind, valkey.major, valkey.minor), (ServerKind::Valkey, 8, 1));
    assert!(
        !ServerVersion::parse("Redis server v=6.2.14 x")
            .unwrap()
            .has_debug_option()
    );
    assert_eq!(ServerVersion::parse("memcached 1.6"), None);
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "run as a process by another test"]
fn worker_with_a_server() {
    let server = RedisServer::start();
    println!("\nserver {} {}", server.pid(), server.folder().display());
    loop {
        std::thread::park();
    }
}

#[tokio::test]
async fn a_killed_test_leaves_no_server_and_no_folder() {
    let arguments = ["--exact", "worker_with_a_server", "--ignored", "--nocapture"];
    let mut worker = Process::start(std::env::current_exe().unwrap(), arguments).unwrap();
    let line = worker.line_starting_with("server ", SOON).await.unwrap();
    let (pid, folder) = line.split_once(' ').unwrap();
    let (pid, folder) = (format!("/proc/{pid}"), std::path::PathBuf::from(folder));
    assert!(std::path::Path::new(&pid).exists() && folder.exists());
    worker.kill().unwrap();
    wait_until("the orphan's end", SOON, async || {
        let state = std::fs::read_to_string(format!("{pid}/stat")).ok();
        // Whoever adopts it may take a moment to reap it.
        let ended = state.as_ref().is_none_or(|stat| stat.contains(") Z "));
        if ended && !folder.exists() {
            Ok(())
        } else {
            Err((state, folder.exists()))
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn looks_work_while_the_clock_is_paused() {
    let server = RedisServer::start();
    set(&server, "a", "1").await;
    assert_eq!(server.keys().await, ["a"]);
    real_time::sleep(Duration::from_millis(1)).await;
}
