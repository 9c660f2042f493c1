//! What a caller that is in already may do: a scope, or a thread.

use std::sync::Arc;

use super::RwLock;
use crate::error::Error;
use crate::object::scope::check_reentry;
use crate::service::turn::{Origin, Turn};

/// The hold of this caller's that reading may share, if it has one; `held` finds it by where it was taken.
pub(crate) fn read_inside(
    lock: &RwLock,
    held: impl Fn(&Origin) -> Option<Arc<Turn>>,
) -> Result<Option<Arc<Turn>>, Error> {
    let sides = lock.sides()?;
    // A writer that waits must not stop whoever is in already.
    let turn = held(&sides.writing).or_else(|| held(&sides.reading));
    turn.map(|turn| check_reentry(turn, lock.options())).transpose()
}

/// The hold of this caller's that writing may share, if it has one. Whoever only reads would wait for itself.
pub(crate) fn write_inside(
    lock: &RwLock,
    held: impl Fn(&Origin) -> Option<Arc<Turn>>,
) -> Result<Option<Arc<Turn>>, Error> {
    let sides = lock.sides()?;
    if let Some(turn) = held(&sides.writing) {
        return check_reentry(turn, lock.options()).map(Some);
    }
    match held(&sides.reading) {
        Some(turn) => Err(Error::WouldWaitForItself {
            name: turn.hold.target.name.to_string(),
        }),
        None => Ok(None),
    }
}
