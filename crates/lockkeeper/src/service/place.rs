use std::fmt;
use std::sync::Arc;

use crate::base::name::Name;
use crate::error::LossReason;

/// Where the callers of one process meet for one name: what a keeper that closes must know of it.
pub(crate) trait Place: fmt::Debug + Send + Sync {
    fn name(&self) -> &Name;

    /// Ends all waits, because the keeper closes.
    fn dismiss(&self);

    /// Frees what this process holds, in the background; its guards turn lost. True if there was something to free.
    fn close_holds(self: Arc<Self>, reason: LossReason) -> bool;

    /// Whether an attempt is on its way, which may yet be granted.
    fn is_attempting(&self) -> bool;

    /// Whether a release is on its way.
    fn is_releasing(&self) -> bool;

    /// Whether the last release was refused, or could not be sent before the lease was over.
    fn is_unconfirmed(&self) -> bool;
}
