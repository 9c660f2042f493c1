//! The rules: what follows from the facts. They ask nobody.

use super::clocks::clocks;
use super::facts::{Facts, Role};
use super::versions::has_known_faults;
use super::{Finding, Severity};
use crate::engine::redis::permissions::{BASE, OBJECTS};

/// The lease of a lock that asks for none, in seconds.
const LEASE: u64 = 30;

/// All that is to be said.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in [
        reach,
        data,
        memory,
        replication,
        clocks,
        version,
        permissions,
        trust,
        sight,
    ] {
        rule(facts, &mut findings);
    }
    findings
}

pub(super) fn add(
    findings: &mut Vec<Finding>,
    severity: Severity,
    id: &'static str,
    found: impl Into<String>,
    why: &'static str,
    remedy: &'static str,
) {
    findings.push(Finding {
        id,
        severity,
        found: found.into(),
        why,
        remedy,
    });
}

fn setting<'a>(facts: &'a Facts, name: &str) -> Option<&'a str> {
    facts.settings.as_ref()?.get(name).map(String::as_str)
}

/// Whether it is one server, and the right one.
fn reach(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.run_ids.len() > 1 {
        add(
            findings,
            Severity::Serious,
            "several-servers",
            format!(
                "connections to this address reach {} different servers",
                facts.run_ids.len()
            ),
            "A lock that is taken on one of them is free on the others.",
            "Give the address of one server; or use redis+cluster:// if they are a cluster.",
        );
    }
    if facts.is_relayed {
        add(
            findings,
            Severity::Warning,
            "proxy",
            "something in between shares connections: one connection's number changes from command to command",
            "Signals and the order of requests need a connection of their own.",
            "Connect to the server itself.",
        );
    }
    if facts.role == Some(Role::Replica) {
        add(
            findings,
            Severity::Serious,
            "replica",
            "this server is a replica",
            "It takes no locks, and what it shows is old.",
            "Give the address of the master.",
        );
    }
    if facts.uptime.is_some_and(|uptime| uptime < LEASE) {
        let lost = facts.is_append_only == Some(false);
        add(
            findings,
            if lost { Severity::Warning } else { Severity::Note },
            "restarted-lately",
            format!("the server was started {} s ago", facts.uptime.unwrap_or_default()),
            "If it lost its data, locks whose holders still believe in them can be taken again until one lease has passed.",
            "Find out why it restarted; wait for one lease before you rely on locks.",
        );
    }
}

/// Whether a restart keeps what was granted.
fn data(facts: &Facts, findings: &mut Vec<Finding>) {
    match (
        facts.is_append_only,
        setting(facts, "save"),
        setting(facts, "appendfsync"),
    ) {
        (Some(false), Some(""), _) => add(
            findings,
            Severity::Warning,
            "no-persistence",
            "nothing is written to disk",
            "A restart of the server frees every lock while its holder still believes in it.",
            "Set appendonly yes.",
        ),
        (Some(false), None, _) => add(
            findings,
            Severity::Warning,
            "no-append-only-file",
            "no append-only file is written",
            "A restart of the server forgets locks whose holders still believe in them.",
            "Set appendonly yes.",
        ),
        (Some(false), ..) => add(
            findings,
            Severity::Warning,
            "snapshots-only",
            "only snapshots are written to disk",
            "A restart forgets the locks taken since the last one, and brings back those that were freed since.",
            "Set appendonly yes.",
        ),
        (Some(true), _, Some("no")) => add(
            findings,
            Severity::Warning,
            "rarely-synced",
            "the append-only file is synced when the system likes to (appendfsync no)",
            "A loss of power forgets the locks of up to half a minute.",
            "Set appendfsync everysec, or always.",
        ),
        (Some(true), _, Some("everysec")) => add(
            findings,
            Severity::Note,
            "synced-each-second",
            "the append-only file is synced each second",
            "A crash of the server costs nothing; a loss of power forgets the locks of the last second or two.",
            "Set appendfsync always if locks must survive a loss of power, and pay with speed.",
        ),
        _ => {}
    }
    if facts.cannot_write {
        add(
            findings,
            Severity::Serious,
            "cannot-write",
            "the server's last attempt to write to disk failed",
            "It may refuse all writes, and a restart brings back an old state.",
            "Look at the server's log and at its disk.",
        );
    }
}

/// Whether locks may be thrown out.
fn memory(facts: &Facts, findings: &mut Vec<Finding>) {
    let policy = setting(facts, "maxmemory-policy").or(facts.policy.as_deref());
    let limit = facts.max_memory.filter(|limit| *limit > 0);
    if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
        let found = format!("the server evicts keys (maxmemory-policy {policy})");
        let remedy = "Set maxmemory-policy noeviction, or keep locks on a server of their own.";
        match limit {
            Some(_) => add(
                findings,
                Severity::Serious,
                "eviction",
                found,
                "When memory runs short it throws locks out while they are held: all of them have an expiry.",
                remedy,
            ),
            None => add(
                findings,
                Severity::Note,
                "eviction-without-limit",
                found,
                "It does no harm while there is no limit (maxmemory); with one, locks would be thrown out.",
                remedy,
            ),
        }
    }
    if let (Some(limit), Some(used)) = (limit, facts.used_memory)
        && used > limit / 10 * 9
    {
        add(
            findings,
            if used >= limit {
                Severity::Serious
            } else {
                Severity::Warning
            },
            "memory",
            format!("{used} of {limit} bytes of memory are used"),
            "A full server grants no new locks; renewing and freeing still work.",
            "Give it more memory, or find out what fills it.",
        );
    }
}

/// What a failover would do.
fn replication(facts: &Facts, findings: &mut Vec<Finding>) {
    let wanted = setting(facts, "min-replicas-to-write").and_then(|text| text.parse::<u64>().ok());
    let replicas = facts.replicas.unwrap_or(0);
    if let Some(wanted) = wanted.filter(|wanted| replicas < *wanted) {
        add(
            findings,
            Severity::Serious,
            "too-few-replicas",
            format!("{replicas} replicas are connected, and {wanted} are needed for a write (min-replicas-to-write)"),
            "Nothing is granted, renewed or freed until there are enough.",
            "Bring the replicas back.",
        );
    }
    if replicas == 0 {
        return;
    }
    add(
        findings,
        Severity::Warning,
        "unconfirmed-replicas",
        format!("{replicas} replicas follow, and a grant does not wait for them"),
        "If one takes over that had not heard of a grant, the lock is granted again while its holder believes in it.",
        "Let what is written to check the fencing token; keep leases short.",
    );
    if wanted == Some(0) {
        add(
            findings,
            Severity::Warning,
            "old-master-goes-on",
            "the server goes on without its replicas (min-replicas-to-write 0)",
            "After a failover an old master that comes back grants locks for some ten seconds, beside the new one.",
            "Set min-replicas-to-write 1 and min-replicas-max-lag 1.",
        );
    }
}

fn version(facts: &Facts, findings: &mut Vec<Finding>) {
    if has_known_faults(facts.is_valkey, &facts.number) == Some(true) {
        add(
            findings,
            Severity::Warning,
            "known-faults",
            format!(
                "{} has known faults of its Lua engine, unless its distributor mended them",
                facts.version
            ),
            "A user who may send scripts can run code in the server (CVE-2025-49844 and others).",
            "Update to Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4 or 8.2.2, or Valkey 7.2.11, 8.0.6 or 8.1.4, or later; let services use preloaded scripts.",
        );
    }
}

fn permissions(facts: &Facts, findings: &mut Vec<Finding>) {
    let listed = |commands: &[&str]| {
        let commands: Vec<_> = commands.iter().map(|command| format!("+{command}")).collect();
        commands.join(" ")
    };
    let remedy = "Allow them; the guide's chapter on security has what each object needs.";
    for base in &BASE {
        let missing = facts.allowed.missing(base.commands);
        if missing.is_empty() || (facts.is_preloaded && missing == ["script|load"]) {
            continue;
        }
        let severity = match base.commands {
            ["evalsha", ..] => Severity::Serious,
            ["client|setname"] => Severity::Note,
            _ => Severity::Warning,
        };
        add(
            findings,
            severity,
            "missing-permissions",
            format!("this user lacks {} for {}", listed(&missing), base.purpose),
            match base.commands {
                ["evalsha", ..] => "Nothing works without it.",
                ["script|load"] => {
                    "A script that the server does not know is an error, unless an administrator has loaded it."
                }
                ["client|setname"] => "Connections are harder to tell apart.",
                _ => "Waiters look every second, and are not woken.",
            },
            remedy,
        );
    }
    for needs in &OBJECTS {
        let missing = facts.allowed.missing(needs.commands);
        if !missing.is_empty() {
            add(
                findings,
                Severity::Warning,
                "missing-permissions",
                format!("this user lacks {} for: {}", listed(&missing), needs.object),
                "Some of its steps are refused.",
                remedy,
            );
        }
    }
    if facts.allowed.is_foreign_name {
        add(
            findings,
            Severity::Note,
            "foreign-name",
            "this user may not use the keys or the channel of the name that was tried",
            "Whether it may use those of its own names was not seen.",
            "Tell a name that it may use (--name).",
        );
    }
}

fn trust(facts: &Facts, findings: &mut Vec<Finding>) {
    if !facts.is_encrypted && !facts.is_local {
        add(
            findings,
            Severity::Warning,
            "plain-text",
            "the connection is not encrypted",
            "Who can listen reads passwords and owner texts, and can free locks with them.",
            "Use rediss://.",
        );
    }
}

/// What could not be looked at.
fn sight(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.is_cluster {
        add(
            findings,
            Severity::Note,
            "cluster-node",
            "this server is one node of a cluster",
            "Each name lives on one of its masters, and a keeper must know them all.",
            "Use redis+cluster:// with some of the nodes.",
        );
    }
    if facts.settings.is_none() {
        add(
            findings,
            Severity::Note,
            "settings-hidden",
            "the server's settings could not be looked at: CONFIG GET is not allowed",
            "How often it syncs its file, whether it takes snapshots, and what it demands of replicas is not known.",
            "Look as a user who may (+config|get), or ask whoever runs the server.",
        );
    }
    if !facts.has_info {
        add(
            findings,
            Severity::Note,
            "state-hidden",
            "the server's state could not be looked at: INFO is not allowed",
            "Its persistence, memory, replicas and uptime are not known, nor whether it is one server.",
            "Look as a user who may (+info), or ask whoever runs the server.",
        );
    }
    if !facts.allowed.unknown.is_empty() {
        add(
            findings,
            Severity::Note,
            "permissions-not-tried",
            format!("not tried, since it would write: {}", facts.allowed.unknown.join(", ")),
            "Whether this user may use them is not known.",
            "Allow +multi +discard to this user, or look as one who may.",
        );
    }
}
