//! The promise table: what a deployment can promise at best.

use super::facts::{Facts, Role};

/// One row of the promise table. What it promises holds as long as clocks run alike and are not set, and the holder stops by its
/// deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its sign in the guide's table.
    pub id: &'static str,
    /// What the deployment is.
    pub deployment: &'static str,
    /// What it promises.
    pub promise: &'static str,
    /// What breaks it.
    pub breaks: &'static str,
}

const MEMORY: Row = Row {
    id: "P1",
    deployment: "one server, nothing on disk",
    promise: "nobody else holds a lock until the guard's deadline, as long as the server does not restart",
    breaks: "a restart of the server within a lease, a flush, an eviction",
};

const NO_FILE: Row = Row {
    deployment: "one server without an append-only file",
    ..MEMORY
};

const SNAPSHOTS: Row = Row {
    id: "P1",
    deployment: "one server, snapshots on disk",
    promise: "nobody else holds a lock until the guard's deadline, as long as the server does not restart",
    breaks: "a restart of the server, which forgets what was taken since the last snapshot and brings back what was freed",
};

const EACH_SECOND: Row = Row {
    id: "P2",
    deployment: "one server, an append-only file that is synced now and then",
    promise: "nobody else holds a lock until the guard's deadline, also over a crash of the server's process",
    breaks: "a loss of power, for what was taken in the last second or two",
};

const ALWAYS: Row = Row {
    id: "P2s",
    deployment: "one server, an append-only file that is synced with each write",
    promise: "nobody else holds a lock until the guard's deadline, over any crash of the server",
    breaks: "a disk that does not keep what it says it has written",
};

const REPLICAS: Row = Row {
    id: "P3",
    deployment: "a master with replicas, which need not confirm",
    promise: "nobody else holds a lock until the guard's deadline, as long as no replica takes over",
    breaks: "a failover: what the new master had not heard of is granted again, and the old one may go on granting",
};

const GUARDED_REPLICAS: Row = Row {
    id: "P4",
    deployment: "a master that stops without its replicas",
    promise: "as without replicas while none takes over; an old master stops granting soon after it lost its replicas",
    breaks: "a failover to a replica that had not heard of a grant",
};

const CLUSTER: Row = Row {
    id: "P6",
    deployment: "a node of a cluster",
    promise: "for each lock what a master with replicas promises, on its shard",
    breaks: "a failover of the lock's shard",
};

/// `None` if the server does not tell enough.
pub(super) fn of(facts: &Facts) -> Option<Row> {
    if facts.is_cluster {
        return Some(CLUSTER);
    }
    if facts.role? == Role::Replica {
        return None;
    }
    let setting = |name| facts.settings.as_ref()?.get(name).map(String::as_str);
    if facts.replicas.unwrap_or(0) > 0 {
        return match setting("min-replicas-to-write") {
            Some("0") | None => Some(REPLICAS),
            Some(_) => Some(GUARDED_REPLICAS),
        };
    }
    match (facts.is_append_only?, setting("appendfsync"), setting("save")) {
        (true, Some("always"), _) => Some(ALWAYS),
        (true, ..) => Some(EACH_SECOND),
        (false, _, Some("")) => Some(MEMORY),
        (false, _, Some(_)) => Some(SNAPSHOTS),
        (false, _, None) => Some(NO_FILE),
    }
}
