//! What this user may do, tried without doing anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Cmd, Pipeline, ServerError, Value, cmd, pipe};
use tokio::time::Instant;

use super::super::node::Node;
use super::super::permissions::{BASE, OBJECTS};
use super::super::session::Session;
use crate::base::name::Name;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed {
    /// Commands that are refused.
    pub(super) refused: Vec<&'static str>,
    /// Commands of which it is not known.
    pub(super) unknown: Vec<&'static str>,
    /// Whether the user may not use keys of that name.
    pub(super) is_foreign_name: bool,
}

impl Allowed {
    /// Which of these commands are refused.
    pub(super) fn missing(&self, commands: &[&'static str]) -> Vec<&'static str> {
        let refused = commands.iter().filter(|command| self.refused.contains(command));
        refused.copied().collect()
    }

    fn note(&mut self, command: &'static str, reply: &Value) {
        match reply {
            Value::ServerError(error) if is_refusal(error) => self.refused.push(command),
            Value::ServerError(error) if error.code() == "NOPERM" => self.is_foreign_name = true,
            _ => {}
        }
    }
}

/// Whether it is the command that is refused, and not its key or channel, which are looked at after that.
fn is_refusal(error: &ServerError) -> bool {
    error.code() == "NOPERM" && error.details().is_some_and(|told| told.contains("run the"))
}

/// Tries every command that objects need. Inside a transaction that is given up, a server checks whether each is allowed and runs none.
/// A user who may have no transactions, or whose connection is shared by others, tries those alone that do nothing where there
/// is no key, or are refused for what they ask.
pub(super) async fn try_commands(node: &Arc<Node>, name: &Name, is_relayed: bool) -> Allowed {
    let mut allowed = Allowed::default();
    // A connection of its own: one of the commands subscribes.
    let Ok(session) = Session::open(node, |_| {}).await else {
        return allowed;
    };
    let key = name.prefixed("lockkeeper_doctor");
    let until = || Instant::now() + node.config.response_limit;
    let in_transaction = !is_relayed && session.request(&cmd("MULTI"), until()).await.is_ok();
    let (mut tried, mut commands): (Vec<_>, Pipeline) = (Vec::new(), pipe());
    for command in needed() {
        match harmless(command, &key).or_else(|| in_transaction.then(|| writing(command, &key))) {
            Some(call) => {
                tried.push(command);
                commands.add_command(call);
            }
            None => allowed.unknown.push(command),
        }
    }
    if in_transaction {
        commands.cmd("DISCARD");
    }
    match session.request_all(&commands, until()).await {
        Ok(replies) => {
            for (command, reply) in tried.into_iter().zip(&replies) {
                allowed.note(command, reply);
            }
        }
        Err(_) => allowed.unknown = needed(),
    }
    allowed
}

/// All commands of all objects; those that change the connection's mode last.
fn needed() -> Vec<&'static str> {
    let base = BASE.iter().flat_map(|base| base.commands);
    let all: BTreeSet<_> = base
        .chain(OBJECTS.iter().flat_map(|needs| needs.commands))
        .copied()
        .collect();
    let (modes, mut needed): (Vec<_>, Vec<_>) = all.into_iter().partition(|command| command.ends_with("subscribe"));
    needed.extend(modes);
    needed
}

/// A call that changes nothing as long as there is no such key; `None` if there is none of this command.
fn harmless(command: &str, key: &str) -> Option<Cmd> {
    let words: &[&str] = match command {
        "time" | "ping" => &[],
        "evalsha" => &["0000000000000000000000000000000000000000", "0"],
        "script|load" => &["return 1"],
        "client|setname" => &["lockkeeper"],
        "decr" | "rpush" => return None,
        "decrby" | "incrby" => &[key, "no number"],
        "hset" => &[key, "field", "value", "half of a pair"],
        "set" => &[key, "value", "XX"],
        "zadd" => &[key, "no number", "member"],
        "getrange" | "lrange" | "zcount" | "zrange" | "zrangebyscore" | "zremrangebyscore" => &[key, "0", "0"],
        "lindex" | "pexpire" | "pexpireat" => &[key, "1"],
        "lrem" => &[key, "0", "value"],
        "hdel" | "hexists" | "hget" | "hmget" | "lpos" | "publish" | "zrem" | "zscore" => &[key, "value"],
        _ => &[key],
    };
    let mut call = Cmd::new();
    for word in command.split('|').chain(words.iter().copied()) {
        call.arg(word);
    }
    Some(call)
}

/// A call that would write, for a transaction that is given up.
fn writing(command: &str, key: &str) -> Cmd {
    let mut call = cmd(command);
    call.arg(key);
    if command == "rpush" {
        call.arg("value");
    }
    call
}
