//! What is known of a name, of whatever kind it is.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::hold::run;
use super::link::Link;
use super::reply::{Status, any_text, text, time_left};
use super::script;
use crate::base::name::Name;
use crate::engine::{Answer, Holder, Inspection, Layout, Reply, StepError, Target, is_resting_mark};

/// How many fields of a hash are listed at most: a lock has few, and a peer's big hash must not hold up the server.
const MOST_FIELDS: u32 = 10_000;

pub(super) async fn inspect(link: &Arc<Link>, name: Name, until: Instant) -> Result<Answer, StepError> {
    let session = link.session(until).await?;
    let command = inspect_call(name);
    let sent = session.node().now();
    run(&session, &script::INSPECT, &command, sent, until, |rest, status| {
        (status == Status::Done).then_some(())?;
        Some(Reply::Inspected(read(rest)?))
    })
    .await
    .map_err(|failure| failure.error)
}

pub(super) fn inspect_call(name: Name) -> Cmd {
    let target = Target::new(Layout::default(), name);
    let name = target.name.as_str();
    let mut command = script::INSPECT.call(3, 1, 3 * name.len() + 64);
    command
        .arg(name)
        .arg(&target.token_key)
        .arg(&target.peer_token_key)
        .arg(MOST_FIELDS);
    command
}

fn read(rest: &[Value]) -> Option<Inspection> {
    let [kind, left, record, peer, content @ ..] = rest else {
        return None;
    };
    let (kind, left) = (text(kind)?, time_left(left));
    let (kind, layout, mut holders) = match (kind, content) {
        ("none", _) => ("", None, Vec::new()),
        ("string", [content]) => {
            let owner = any_text(content);
            // Redisson's semaphores and latches are numbers that stay. One that ends is somebody's hand-written lock.
            if left.is_none() && owner.parse::<i64>().is_ok() {
                ("counter", None, Vec::new())
            } else {
                let holder = Holder {
                    owner,
                    holds: 1,
                    time_left: left,
                };
                ("mutex", Some(Layout::Plain), vec![holder])
            }
        }
        ("hash", [fields]) => hash(fields, left)?,
        (other, _) => (other, None, Vec::new()),
    };
    let all = holders.len();
    holders.retain(|holder| !is_resting_mark(&holder.owner));
    Some(Inspection {
        kind: kind.to_owned(),
        layout,
        resting: left.filter(|_| holders.len() < all),
        holders,
        token: last_token(record).max(last_token(peer)),
    })
}

/// A hash of owners and counts is a mutex, with a `mode` beside them a read-write lock, and else no lock.
fn hash(fields: &Value, time_left: Option<u64>) -> Option<(&'static str, Option<Layout>, Vec<Holder>)> {
    let mut kind = "mutex";
    let mut holders = Vec::new();
    for (owner, holds) in fields.as_map_iter()? {
        let owner = any_text(owner);
        if owner == "mode" {
            kind = "rwlock";
            continue;
        }
        let Some(holds) = text(holds).and_then(|holds| holds.parse().ok()) else {
            return Some(("hash", None, Vec::new()));
        };
        holders.push(Holder {
            owner,
            holds,
            time_left,
        });
    }
    holders.sort_by(|one, next| one.owner.cmp(&next.owner));
    Some((kind, Some(Layout::Redisson), holders))
}

/// The number at the beginning of a record or of Redisson's token; `None` where there is none, or none below 2^53.
fn last_token(value: &Value) -> Option<u64> {
    let number = text(value)?.split(' ').next()?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    is_plain
        .then_some(number)?
        .parse()
        .ok()
        .filter(|token| *token < 1 << 53)
}
