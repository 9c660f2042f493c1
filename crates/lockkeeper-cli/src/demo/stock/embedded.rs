//! The stock inside this process. Each step is atomic, as a server's would be; what lies between two steps is not.

use super::{Sale, Sight, Stock};
use crate::demo::trouble::Trouble;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct Shelf {
    left: u64,
    fence: u64,
    /// Rises with every write.
    version: u64,
    /// The last sale of each buyer.
    sales: HashMap<String, u64>,
    /// Value and end of the hand-written lock.
    lock: Option<(String, Instant)>,
    steps: u64,
}

impl Shelf {
    fn sight(&self, buyer: &str) -> Sight {
        Sight {
            left: self.left,
            last: self.sales.get(buyer).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, sale: &Sale<'_>) {
        self.left = sale.left;
        self.sales.insert(sale.buyer.to_owned(), sale.number);
        self.version += 1;
    }
}

/// A stock that lives in memory.
#[derive(Clone, Debug)]
pub(in crate::demo) struct EmbeddedStock(Arc<Mutex<Shelf>>);

impl EmbeddedStock {
    pub(in crate::demo) fn new(left: u64) -> Self {
        Self(Arc::new(Mutex::new(Shelf {
            left,
            ..Shelf::default()
        })))
    }

    /// Tickets left.
    pub(in crate::demo) fn left(&self) -> u64 {
        self.shelf().left
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a step, and lets other tasks run now and then, as waiting for a server would.
    async fn step(&self) {
        tokio::task::consume_budget().await;
        self.shelf().steps += 1;
    }
}

impl Stock for EmbeddedStock {
    /// The version that was read.
    type Watch = u64;

    async fn look(&self, buyer: &str, token: u64, _until: Option<Instant>) -> Result<Option<Sight>, Trouble> {
        self.step().await;
        let mut shelf = self.shelf();
        if token > 0 {
            if token < shelf.fence {
                return Ok(None);
            }
            shelf.fence = token;
        }
        Ok(Some(shelf.sight(buyer)))
    }

    async fn overwrite(&self, left: u64) -> Result<(), Trouble> {
        self.step().await;
        self.shelf().left = left;
        Ok(())
    }

    async fn record(&self, sale: &Sale<'_>, _until: Option<Instant>) -> Result<bool, Trouble> {
        self.step().await;
        let mut shelf = self.shelf();
        let last = shelf.sight(sale.buyer).last;
        if last == sale.number {
            return Ok(true);
        }
        if last != sale.previous || sale.token < shelf.fence {
            return Ok(false);
        }
        shelf.write(sale);
        Ok(true)
    }

    async fn watch(&self, buyer: &str) -> Result<(Sight, u64), Trouble> {
        self.step().await;
        let shelf = self.shelf();
        Ok((shelf.sight(buyer), shelf.version))
    }

    async fn commit(&self, watch: u64, sale: &Sale<'_>) -> Result<bool, Trouble> {
        self.step().await;
        let mut shelf = self.shelf();
        let unchanged = shelf.version == watch;
        if unchanged {
            shelf.write(sale);
        }
        Ok(unchanged)
    }

    async fn take_lock(&self, value: &str, life: Duration) -> Result<bool, Trouble> {
        self.step().await;
        let now = Instant::now();
        let mut shelf = self.shelf();
        let taken = shelf.lock.as_ref().is_some_and(|(_, end)| *end > now);
        if !taken {
            shelf.lock = Some((value.to_owned(), now + life));
        }
        Ok(!taken)
    }

    async fn free_lock(&self, value: &str, _until: Option<Instant>) -> Result<(), Trouble> {
        self.step().await;
        self.shelf().lock.take_if(|(holder, _)| holder == value);
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        self.shelf().steps
    }
}
