//! A real Redis cluster for one test: masters with one replica each, on free loopback ports.
//!
//! Needs Redis or Valkey 7.0, where the port of the cluster's own traffic can be set.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};

use crate::server::RedisServer;
use crate::wait::wait_until;

/// How long forming a cluster, a failover or a move of a slot may take.
const PATIENCE: Duration = Duration::from_secs(30);

const SLOTS: u16 = 16_384;

/// A running cluster. Dropping it kills its servers.
///
/// ```no_run
/// # async fn example() {
/// let cluster = lockkeeper_testkit::RedisCluster::start(3, true).await;
/// println!("{}", cluster.url());
/// cluster.master(0).kill();
/// # }
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    masters: Vec<RedisServer>,
    replicas: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts so many masters, each with a replica if asked for, and returns once every node knows the whole cluster.
    ///
    /// # Panics
    ///
    /// If it does not come up in half a minute, or the server is too old.
    pub async fn start(masters: usize, with_replicas: bool) -> Self {
        let replicas = if with_replicas { masters } else { 0 };
        let cluster = Self {
            masters: (0..masters).map(|_| node()).collect(),
            replicas: (0..replicas).map(|_| node()).collect(),
        };
        cluster.share_slots().await;
        cluster.introduce().await;
        cluster.follow().await;
        cluster.is_whole().await;
        cluster
    }

    /// The servers that were masters at the start.
    #[must_use]
    pub fn master(&self, index: usize) -> &RedisServer {
        &self.masters[index]
    }

    /// The server that was the replica of that master at the start.
    #[must_use]
    pub fn replica(&self, index: usize) -> &RedisServer {
        &self.replicas[index]
    }

    /// All servers.
    pub fn nodes(&self) -> impl Iterator<Item = &RedisServer> {
        self.masters.iter().chain(&self.replicas)
    }

    /// Address for clients: `redis+cluster://host:port,host:port,..`, of the masters at the start.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.masters.iter().map(|node| node.address().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The slot of a key, by the server's own rule.
    pub async fn slot(&self, key: &str) -> u16 {
        self.living().query(cmd("CLUSTER").arg("KEYSLOT").arg(key)).await
    }

    /// The index of the master that had the slot at the start.
    #[must_use]
    pub fn first_master_of(&self, slot: u16) -> usize {
        (0..self.masters.len())
            .find(|index| self.range(*index).contains(&slot))
            .expect("every slot is some master's")
    }

    /// Makes the replica of this index the master of its shard, in good order, and waits until all agree.
    pub async fn fail_over(&self, index: usize) {
        let replica = &self.replicas[index];
        let _: String = replica.query(cmd("CLUSTER").arg("FAILOVER")).await;
        self.takes_over(index).await;
    }

    /// Waits until the replica of this index is a master, and every living node knows.
    pub async fn takes_over(&self, index: usize) {
        let id = id(&self.replicas[index]).await;
        for node in self.nodes().filter(|node| node.is_running()) {
            wait_until("a new master", PATIENCE, async || {
                let nodes: String = node.query(cmd("CLUSTER").arg("NODES")).await;
                let line = nodes.lines().find(|line| line.starts_with(&id)).unwrap_or_default();
                if line.contains("master") { Ok(()) } else { Err(nodes) }
            })
            .await;
        }
    }

    /// Begins to move a slot: from now on the source sends clients on for keys that it does not have.
    pub async fn begin_move(&self, slot: u16, from: &RedisServer, to: &RedisServer) {
        let set = |state: &str, peer: String| {
            let mut command = cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg(state).arg(peer);
            command
        };
        let _: String = to.query(&set("IMPORTING", id(from).await)).await;
        let _: String = from.query(&set("MIGRATING", id(to).await)).await;
    }

    /// Moves the keys of a slot whose move has begun, and ends the move on all masters.
    pub async fn end_move(&self, slot: u16, from: &RedisServer, to: &RedisServer) {
        loop {
            let keys: Vec<Vec<u8>> = from.query(cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(100)).await;
            if keys.is_empty() {
                break;
            }
            let mut migrate = cmd("MIGRATE");
            migrate
                .arg(to.address().ip().to_string())
                .arg(to.address().port())
                .arg("")
                .arg(0)
                .arg(5_000)
                .arg("KEYS")
                .arg(keys);
            let _: String = from.query(&migrate).await;
        }
        let owner = id(to).await;
        // The new owner first, so that nobody is without one.
        for node in [to, from].into_iter().chain(&self.masters) {
            let mut command = cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg("NODE").arg(&owner);
            let _: Value = node.query(&command).await;
        }
    }

    fn living(&self) -> &RedisServer {
        self.nodes().find(|node| node.is_running()).expect("a living node")
    }

    fn range(&self, index: usize) -> std::ops::RangeInclusive<u16> {
        let share = SLOTS / u16::try_from(self.masters.len()).expect("few masters");
        let first = share * u16::try_from(index).expect("few masters");
        let last = if index + 1 == self.masters.len() {
            SLOTS - 1
        } else {
            first + share - 1
        };
        first..=last
    }

    async fn share_slots(&self) {
        for (index, master) in self.masters.iter().enumerate() {
            let range = self.range(index);
            let mut command = cmd("CLUSTER");
            command.arg("ADDSLOTSRANGE").arg(range.start()).arg(range.end());
            let _: String = master.query(&command).await;
        }
    }

    async fn introduce(&self) {
        let first = &self.masters[0];
        for node in self.nodes().skip(1) {
            let bus: u16 = setting(node, "cluster-port").await;
            let mut command = cmd("CLUSTER");
            command
                .arg("MEET")
                .arg(node.address().ip().to_string())
                .arg(node.address().port())
                .arg(bus);
            let _: String = first.query(&command).await;
        }
        let count = self.nodes().count();
        for node in self.nodes() {
            wait_until("all nodes known", PATIENCE, async || {
                let nodes: String = node.query(cmd("CLUSTER").arg("NODES")).await;
                let known = nodes.lines().filter(|line| !line.contains("handshake")).count();
                if known == count { Ok(()) } else { Err(nodes) }
            })
            .await;
        }
    }

    async fn follow(&self) {
        for (replica, master) in self.replicas.iter().zip(&self.masters) {
            let mut command = cmd("CLUSTER");
            command.arg("REPLICATE").arg(id(master).await);
            let _: String = replica.query(&command).await;
        }
    }

    async fn is_whole(&self) {
        for node in self.nodes() {
            wait_until("a whole cluster", PATIENCE, async || {
                let told: String = node.query(cmd("CLUSTER").arg("INFO")).await;
                if told.contains("cluster_state:ok") {
                    Ok(())
                } else {
                    Err(told)
                }
            })
            .await;
        }
        for replica in &self.replicas {
            wait_until("a replica in step", PATIENCE, async || {
                let told: String = replica.query(cmd("INFO").arg("replication")).await;
                if told.contains("master_link_status:up") {
                    Ok(())
                } else {
                    Err(told)
                }
            })
            .await;
        }
        let replicas = self.replicas.len();
        for node in self.nodes() {
            wait_until("replicas known", PATIENCE, async || {
                let nodes: String = node.query(cmd("CLUSTER").arg("NODES")).await;
                if nodes.matches("slave").count() == replicas {
                    Ok(())
                } else {
                    Err(nodes)
                }
            })
            .await;
        }
    }
}

fn node() -> RedisServer {
    let bus = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    RedisServer::builder()
        .config("cluster-enabled", "yes")
        .config("cluster-port", &bus.to_string())
        .config("cluster-node-timeout", "1000")
        .config("cluster-require-full-coverage", "no")
        .config("cluster-replica-validity-factor", "0")
        .config("cluster-allow-replica-migration", "no")
        .config("repl-diskless-sync-delay", "0")
        .start()
}

async fn id(node: &RedisServer) -> String {
    node.query(cmd("CLUSTER").arg("MYID")).await
}

async fn setting<T: std::str::FromStr<Err: std::fmt::Debug>>(node: &RedisServer, name: &str) -> T {
    let told: Vec<String> =
        Vec::from_redis_value(node.query(cmd("CONFIG").arg("GET").arg(name)).await).expect("a setting and its value");
    told[1].parse().expect("a number")
}
