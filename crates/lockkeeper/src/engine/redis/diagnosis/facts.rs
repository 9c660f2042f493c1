//! What the server tells of itself, and what can be measured from here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Value, cmd, pipe};
use tokio::time::Instant;

use super::super::node::Node;
use super::super::reply::time_reply;
use super::super::session::Session;
use super::probe::{self, Allowed};
use crate::base::name::Name;
use crate::engine::StepError;

/// How many connections are compared with each other.
const CONNECTIONS: usize = 4;
/// How often the server's clock is read, and how far apart.
const READINGS: usize = 10;
const APART: Duration = Duration::from_millis(80);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// The settings that are asked for.
const SETTINGS: [&str; 6] = [
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Master,
    Replica,
}

/// One reading of the server's clock, between two of ours. In microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) server: u64,
    /// This machine's wall clock in the middle.
    pub(super) wall: u64,
}

/// `None` wherever the server did not tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) version: String,
    pub(super) number: String,
    pub(super) is_valkey: bool,
    /// Whether `INFO` is allowed.
    pub(super) has_info: bool,
    /// What `CONFIG GET` tells, if it is allowed.
    pub(super) settings: Option<BTreeMap<String, String>>,
    pub(super) role: Option<Role>,
    pub(super) is_cluster: bool,
    pub(super) replicas: Option<u64>,
    pub(super) is_append_only: Option<bool>,
    pub(super) policy: Option<String>,
    pub(super) max_memory: Option<u64>,
    pub(super) used_memory: Option<u64>,
    pub(super) uptime: Option<u64>,
    pub(super) cannot_write: bool,
    /// The different run ids that were met.
    pub(super) run_ids: Vec<String>,
    /// Whether a connection's number changed under it.
    pub(super) is_relayed: bool,
    pub(super) readings: Vec<Reading>,
    pub(super) allowed: Allowed,
    pub(super) is_encrypted: bool,
    pub(super) is_local: bool,
    pub(super) is_preloaded: bool,
}

impl Facts {
    pub(super) async fn gather(node: &Arc<Node>, name: &Name) -> Result<Self, StepError> {
        let session = Session::open(node, |_| {}).await?;
        let mut facts = Self {
            is_encrypted: node.config.is_encrypted(),
            is_local: node.config.is_local(),
            is_preloaded: node.config.preloaded_scripts,
            ..Self::default()
        };
        facts.read_hello(&session).await;
        let info = info(&session).await;
        facts.has_info = info.is_some();
        facts.read_info(&info.unwrap_or_default());
        facts.settings = settings(&session).await;
        facts.compare_connections(node).await;
        facts.allowed = probe::try_commands(node, name, facts.is_relayed).await;
        facts.readings = readings(node, &session).await;
        Ok(facts)
    }

    async fn read_hello(&mut self, session: &Session) {
        let Ok(hello) = session.request(&cmd("HELLO"), until()).await else {
            return;
        };
        let hello: BTreeMap<String, Value> = redis::from_redis_value(hello).unwrap_or_default();
        let text = |name: &str| {
            let value = hello.get(name).cloned()?;
            redis::from_redis_value::<String>(value).ok()
        };
        let server = text("server").unwrap_or_default();
        self.is_valkey = server == "valkey";
        self.number = text("version").unwrap_or_default();
        self.version = format!("{server} {}", self.number);
        self.is_cluster = text("mode").as_deref() == Some("cluster");
        self.role = match text("role").as_deref() {
            Some("master") => Some(Role::Master),
            Some("replica" | "slave") => Some(Role::Replica),
            _ => None,
        };
    }

    fn read_info(&mut self, info: &BTreeMap<String, String>) {
        let number = |name: &str| info.get(name)?.parse::<u64>().ok();
        let is = |name: &str, word: &str| info.get(name).is_some_and(|text| text == word);
        // Valkey also tells which Redis it is like, in a field of the same name.
        self.is_valkey |= info.contains_key("valkey_version");
        if let Some(version) = info.get("valkey_version") {
            self.number.clone_from(version);
            self.version = format!("valkey {version}");
        }
        self.is_cluster |= is("cluster_enabled", "1");
        self.replicas = number("connected_slaves");
        self.is_append_only = number("aof_enabled").map(|enabled| enabled == 1);
        self.policy = info.get("maxmemory_policy").cloned();
        self.max_memory = number("maxmemory");
        self.used_memory = number("used_memory");
        self.uptime = number("uptime_in_seconds");
        self.cannot_write = is("rdb_last_bgsave_status", "err") || is("aof_last_write_status", "err");
        self.run_ids.extend(info.get("run_id").cloned());
    }

    /// Something between here and the server may send each connection, or each command, somewhere else.
    async fn compare_connections(&mut self, node: &Arc<Node>) {
        for _ in 1..CONNECTIONS {
            let Ok(session) = Session::open(node, |_| {}).await else {
                continue;
            };
            let mut both = pipe();
            both.cmd("CLIENT").arg("ID").cmd("CLIENT").arg("ID");
            if let Ok(ids) = session.request_all(&both, until()).await
                && let [Value::Int(first), Value::Int(second)] = *ids
            {
                self.is_relayed |= first != second;
            }
            if let Some(run_id) = info(&session).await.and_then(|mut info| info.remove("run_id"))
                && !self.run_ids.contains(&run_id)
            {
                self.run_ids.push(run_id);
            }
        }
    }
}

fn until() -> Instant {
    Instant::now() + ANSWER
}

async fn info(session: &Session) -> Option<BTreeMap<String, String>> {
    let reply = session.request(&cmd("INFO"), until()).await.ok()?;
    let text: String = redis::from_redis_value(reply).ok()?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Some(
        fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

async fn settings(session: &Session) -> Option<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for name in SETTINGS {
        let reply = session
            .request(cmd("CONFIG").arg("GET").arg(name), until())
            .await
            .ok()?;
        settings.extend(redis::from_redis_value::<BTreeMap<String, String>>(reply).ok()?);
    }
    Some(settings)
}

async fn readings(node: &Node, session: &Session) -> Vec<Reading> {
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let mut readings = Vec::new();
    for _ in 0..READINGS {
        let sent = node.now().as_nanos() / 1000;
        let reply = session.request(&cmd("TIME"), until()).await;
        let received = node.now().as_nanos() / 1000;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros);
        if let Some(server) = reply.ok().as_ref().and_then(time_reply) {
            readings.push(Reading {
                sent,
                received,
                server,
                wall: wall.saturating_sub((received - sent) / 2),
            });
        }
        tokio::time::sleep(APART).await;
    }
    readings
}
