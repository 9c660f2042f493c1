//! The doctor on real servers, each weakened in one way.

use std::time::Duration;

use lockkeeper_testkit::{RedisServer, wait_until};

use super::*;
use crate::error::UrlError;

async fn diagnosis(url: &str) -> Diagnosis {
    diagnose(RedisConfig::from_url(url).unwrap(), "shop:order")
        .await
        .unwrap()
}

fn ids(diagnosis: &Diagnosis) -> Vec<&'static str> {
    diagnosis.findings.iter().map(|finding| finding.id).collect()
}

fn severity(diagnosis: &Diagnosis, id: &str) -> Option<Severity> {
    let found = diagnosis.findings.iter().find(|finding| finding.id == id)?;
    assert!(!found.found.is_empty() && !found.why.is_empty() && !found.remedy.is_empty());
    Some(found.severity)
}

/// What every server of the tests has: it was started a moment ago, and it is as old as it is.
const ALWAYS: [&str; 2] = ["restarted-lately", "known-faults"];

#[tokio::test]
async fn a_good_server_has_nothing_but_notes() {
    let server = RedisServer::builder()
        .append_only()
        .config("appendfsync", "always")
        .start();
    let seen = diagnosis(&server.url()).await;
    let rest: Vec<_> = ids(&seen).into_iter().filter(|id| !ALWAYS.contains(id)).collect();
    assert!(rest.is_empty(), "{seen:?}");
    assert_eq!(seen.row.unwrap().id, "P2s");
    assert_eq!(severity(&seen, "restarted-lately"), Some(Severity::Note));
    assert_eq!(seen.server, server.address().to_string());
    assert!(server.keys().await.is_empty(), "nothing is written");
}

#[tokio::test]
async fn each_weakness_is_found() {
    for (settings, id, wanted, row) in [
        (vec![], "no-persistence", Severity::Warning, "P1"),
        (vec![("save", "3600 1")], "snapshots-only", Severity::Warning, "P1"),
        (
            vec![("appendonly", "yes"), ("appendfsync", "no")],
            "rarely-synced",
            Severity::Warning,
            "P2",
        ),
        (
            vec![("appendonly", "yes"), ("appendfsync", "everysec")],
            "synced-each-second",
            Severity::Note,
            "P2",
        ),
        (
            vec![("maxmemory", "100mb"), ("maxmemory-policy", "volatile-ttl")],
            "eviction",
            Severity::Serious,
            "P1",
        ),
        (
            vec![("maxmemory-policy", "allkeys-lru")],
            "eviction-without-limit",
            Severity::Note,
            "P1",
        ),
        (vec![("maxmemory", "1")], "memory", Severity::Serious, "P1"),
        (
            vec![("min-replicas-to-write", "1")],
            "too-few-replicas",
            Severity::Serious,
            "P1",
        ),
    ] {
        let server = RedisServer::start();
        for (name, value) in &settings {
            let set = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).to_owned();
            let _: () = server.query(&set).await;
        }
        let seen = diagnosis(&server.url()).await;
        assert_eq!(severity(&seen, id), Some(wanted), "{settings:?}: {seen:?}");
        assert_eq!(seen.row.unwrap().id, row, "{settings:?}");
        assert!(
            seen.findings
                .is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity))
        );
        assert!(seen.worst() >= Some(wanted));
    }
}

#[tokio::test]
async fn a_master_with_replicas_and_the_replica_are_told() {
    let master = RedisServer::builder().config("repl-diskless-sync-delay", "0").start();
    let replica = RedisServer::start();
    let follow = redis::cmd("REPLICAOF")
        .arg("127.0.0.1")
        .arg(master.address().port())
        .to_owned();
    let _: () = replica.query(&follow).await;
    wait_until("a replica", Duration::from_secs(20), async || {
        let replicas = master.info_field("replication", "connected_slaves").await;
        if replicas == "1" { Ok(()) } else { Err(replicas) }
    })
    .await;
    let seen = diagnosis(&master.url()).await;
    assert_eq!(seen.row.unwrap().id, "P3");
    for id in ["unconfirmed-replicas", "old-master-goes-on"] {
        assert_eq!(severity(&seen, id), Some(Severity::Warning), "{seen:?}");
    }
    let guard = redis::cmd("CONFIG")
        .arg(&["SET", "min-replicas-to-write", "1"])
        .to_owned();
    let _: () = master.query(&guard).await;
    let seen = diagnosis(&master.url()).await;
    assert_eq!(seen.row.unwrap().id, "P4");
    assert_eq!(severity(&seen, "old-master-goes-on"), None);

    let seen = diagnosis(&replica.url()).await;
    assert_eq!(severity(&seen, "replica"), Some(Severity::Serious), "{seen:?}");
    assert_eq!(seen.row, None);
}

#[tokio::test]
async fn what_a_user_lacks_is_told_object_by_object() {
    let server = RedisServer::builder()
        .user("all", "on >hunter2 ~* &* +@all")
        .user(
            "less",
            "on >hunter2 ~shop:* &shop:* +@all -lpos -subscribe -config -info",
        )
        .user(
            "least",
            "on >hunter2 ~* &* -@all +evalsha +time +client +script|load +ping +get",
        )
        .start();
    let as_user = async |user: &str| diagnosis(&format!("redis://{user}:hunter2@{}", server.address())).await;
    let missing = |seen: &Diagnosis| {
        let found = seen
            .findings
            .iter()
            .filter(|finding| finding.id == "missing-permissions");
        found
            .map(|finding| finding.found.clone())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let seen = as_user("all").await;
    assert_eq!(missing(&seen), "", "{seen:?}");

    let seen = as_user("less").await;
    let told = missing(&seen);
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(
        told.contains("+lpos for: fair mutex") && told.contains("+subscribe for being woken"),
        "{told}"
    );
    for id in ["settings-hidden", "state-hidden", "foreign-name"] {
        assert_eq!(severity(&seen, id), Some(Severity::Note), "{seen:?}");
    }
    assert_eq!(seen.row, None, "nothing is guessed");

    // Without transactions, and without anything else that is needed.
    let seen = as_user("least").await;
    let told = missing(&seen);
    assert!(
        told.contains("+hset") && !told.contains("+get ") && told.contains("unsubscribe"),
        "{told}"
    );
    assert_eq!(
        severity(&seen, "permissions-not-tried"),
        Some(Severity::Note),
        "{seen:?}"
    );
    assert!(server.keys().await.is_empty(), "nothing is written");
    assert!(!format!("{seen:?}").contains("hunter2"));
}

/// Passes everything on, but puts what `TIME` says forward: by an hour, from its `nth` reading on.
async fn putting_forward(server: &RedisServer, nth: usize) -> (String, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    // An array of two, of which the first has ten digits: no other reply begins like this.
    const TIME: &[u8] = b"*2\r\n$10\r\n";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let address = server.address();
    let task = tokio::spawn(async move {
        for _ in 0..100 {
            let (near, _) = listener.accept().await.unwrap();
            let far = tokio::net::TcpStream::connect(address).await.unwrap();
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await.ok() });
            tokio::spawn(async move {
                let (mut buffer, mut readings) = (vec![0; 65_536], 0);
                while let Ok(length @ 1..) = far_in.read(&mut buffer).await {
                    let reply = &mut buffer[..length];
                    let mut at = 0;
                    while let Some(found) = reply[at..].windows(TIME.len()).position(|part| part == TIME) {
                        at += found + TIME.len();
                        readings += 1;
                        if readings >= nth && reply.len() >= at + 10 {
                            let digits = std::str::from_utf8(&reply[at..at + 10]).unwrap();
                            let later = digits.parse::<u64>().unwrap() + 3600;
                            reply[at..at + 10].copy_from_slice(later.to_string().as_bytes());
                        }
                    }
                    if near_out.write_all(reply).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, task)
}

#[tokio::test]
async fn a_clock_that_steps_or_is_off_is_seen() {
    let server = RedisServer::start();
    let seen = diagnosis(&server.url()).await;
    assert_eq!(severity(&seen, "clock-steps"), None, "{seen:?}");
    assert_eq!(severity(&seen, "clock-offset"), None, "{seen:?}");

    // The handshake reads the clock once on each connection.
    let (url, line) = putting_forward(&server, 5).await;
    let seen = diagnosis(&url).await;
    line.abort();
    assert_eq!(severity(&seen, "clock-steps"), Some(Severity::Serious), "{seen:?}");

    let (url, line) = putting_forward(&server, 1).await;
    let seen = diagnosis(&url).await;
    line.abort();
    assert_eq!(severity(&seen, "clock-steps"), None, "{seen:?}");
    assert_eq!(severity(&seen, "clock-offset"), Some(Severity::Warning), "{seen:?}");
}

/// What lies between sends each connection to another server.
#[tokio::test]
async fn several_servers_behind_one_address_are_found() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let addresses = [servers[0].address(), servers[1].address()];
    let balancer = tokio::spawn(async move {
        for address in addresses.into_iter().cycle().take(100) {
            let (mut near, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(address).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
            });
        }
    });
    let seen = diagnosis(&url).await;
    balancer.abort();
    assert_eq!(severity(&seen, "several-servers"), Some(Severity::Serious), "{seen:?}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_told() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    let seen = diagnosis(&server.url()).await;
    assert_eq!(seen.row.unwrap().id, "P6");
    assert_eq!(severity(&seen, "cluster-node"), Some(Severity::Note));
}

#[tokio::test]
async fn what_keeps_it_from_looking_is_an_error() {
    let server = RedisServer::builder().password("right-hunter2").start();
    let url = format!("redis://:wrong-hunter2@{}", server.address());
    let error = diagnose(RedisConfig::from_url(&url).unwrap(), "a").await.unwrap_err();
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
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    server.kill();
    let error = diagnose(RedisConfig::from_url(&server.url()).unwrap(), "a")
        .await
        .unwrap_err();
    assert!(error.is_unreachable());
    let error = diagnose(RedisConfig::from_url("redis://cache.example").unwrap(), "a")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Url(UrlError::Anonymous(_))));
}
