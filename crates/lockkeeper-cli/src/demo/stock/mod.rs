//! The tickets: one stored count that every sale lowers by one, in steps that a strategy must keep apart.
//!
//! Every write sets the count to what the writer had read, less one. Nothing here makes that safe; that is the
//! strategy's work. What is here is made to survive a server that is killed and comes back with its data: each sale
//! has a number of its own, the stock remembers the last number of each buyer, and so a write whose answer was lost
//! can be repeated, and is counted once.

mod embedded;
mod link;
mod redis;

pub(super) use embedded::EmbeddedStock;
pub(super) use redis::RedisStock;

use super::trouble::Trouble;
use std::time::{Duration, Instant};

/// What a buyer sees in the stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// Tickets left.
    pub(super) left: u64,
    /// The number of this buyer's last recorded sale; 0 before the first.
    pub(super) last: u64,
}

/// A sale to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sale<'a> {
    /// The buyer's name.
    pub(super) buyer: &'a str,
    /// The number of this sale, among all that this buyer ever tried.
    pub(super) number: u64,
    /// The number of the buyer's last sale as seen before: written only if it is still that.
    pub(super) previous: u64,
    /// Tickets left after it.
    pub(super) left: u64,
    /// The fencing token, or 0 where the strategy has none.
    pub(super) token: u64,
}

/// The steps on a stock. Each is one round trip. All but [`watch`](Stock::watch) and [`commit`](Stock::commit) are
/// repeated while the server does not answer, which is safe for each of them.
pub(super) trait Stock: Clone + Send + Sync + 'static {
    /// A read under which a write can be made conditional.
    type Watch: Send;

    /// Reads the stock. With a token, `None` if a higher one was here before; and no lower one can write after.
    ///
    /// The reading counts for fencing too: a late write with an old token must not slip in between the
    /// reading and the writing of the next holder.
    fn look(
        &self,
        buyer: &str,
        token: u64,
        until: Option<Instant>,
    ) -> impl Future<Output = Result<Option<Sight>, Trouble>> + Send;

    /// Sets the count, whatever it was, and remembers nobody.
    fn overwrite(&self, left: u64) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Sets the count and remembers the sale; `true` also if this very sale was recorded before. `false` if a
    /// higher token was here or the buyer's last sale is another: nothing was changed then.
    fn record(&self, sale: &Sale<'_>, until: Option<Instant>) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// Reads the stock and watches it for changes.
    fn watch(&self, buyer: &str) -> impl Future<Output = Result<(Sight, Self::Watch), Trouble>> + Send;

    /// Records the sale if the stock has not changed since; tells whether it did.
    fn commit(&self, watch: Self::Watch, sale: &Sale<'_>) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// `SET value NX PX life` on the lock of the hand-written kind; tells whether it is ours.
    fn take_lock(&self, value: &str, life: Duration) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// Deletes that lock if it has this value.
    fn free_lock(&self, value: &str, until: Option<Instant>) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// How many requests were sent so far.
    fn round_trips(&self) -> u64;
}
