//! What is known of a name, of whatever kind it is. Changes nothing.

use super::keyspace::{Keyspace, Now, Value};
use super::{mutex, token};
use crate::base::name::Name;
use crate::engine::{Holder, Inspection, Layout, MutexTarget};

/// The word for a lock of either layout.
const MUTEX: &str = "mutex";

pub(super) fn inspect(keyspace: &mut Keyspace, now: Now, name: &Name) -> Inspection {
    let target = MutexTarget::new(Layout::default(), name.clone());
    let token = token::recorded(keyspace, now, &target)
        .ok()
        .flatten()
        .map(|record| record.last);
    let Some(entry) = keyspace.get(name.as_str(), now) else {
        return Inspection {
            token,
            ..Inspection::default()
        };
    };
    let time_left = entry.time_left(now);
    let (kind, layout, holders) = match &entry.value {
        Value::Hash(fields) if !fields.contains_key("mode") => {
            let holders = fields.iter().map(|(owner, holds)| Holder {
                owner: owner.clone(),
                holds: holds.parse().unwrap_or(0),
                time_left,
            });
            (MUTEX, Some(Layout::Redisson), holders.collect())
        }
        Value::Text(owner) => {
            let holder = Holder {
                owner: owner.clone(),
                holds: 1,
                time_left,
            };
            (MUTEX, Some(Layout::Plain), vec![holder])
        }
        other => (mutex::kind(other), None, Vec::new()),
    };
    Inspection {
        kind: kind.to_owned(),
        layout,
        holders,
        token,
    }
}
