//! The stock on a server: a hash that any number of processes share.

use super::link::{Link, Request, Script};
use super::{Sale, Sight, Stock};
use crate::arguments::Server;
use crate::demo::trouble::Trouble;
use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long keys stay if nobody is left to remove them.
const LIFE: Duration = Duration::from_secs(15 * 60);
/// A watch belongs to a connection, so each buyer needs one; more buyers than this take turns.
const WATCHING_CONNECTIONS: usize = 64;

static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/look.lua")));
static RECORD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/record.lua")));
static FREE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/free.lua")));

/// A stock on a server.
#[derive(Clone, Debug)]
pub(in crate::demo) struct RedisStock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Link,
    stock: String,
    lock: String,
    idle: Mutex<Vec<MultiplexedConnection>>,
    permits: Arc<Semaphore>,
}

/// A watch, and the connection that it belongs to: goes back for others to use when the watch is over.
#[derive(Debug)]
pub(in crate::demo) struct ConnectionWatch {
    connection: Option<MultiplexedConnection>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionWatch {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.idle().push(connection);
        }
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedisStock {
    /// Speaks to the stock whose keys begin with this.
    pub(in crate::demo) fn new(server: &Server, prefix: &str) -> Result<Self, Trouble> {
        Ok(Self(Arc::new(Shared {
            link: Link::new(server)?,
            stock: format!("{prefix}:stock"),
            lock: format!("{prefix}:spin"),
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(WATCHING_CONNECTIONS)),
        })))
    }

    /// Asks the server for nothing, once.
    pub(in crate::demo) async fn greet(&self) -> Result<(), Trouble> {
        self.0.link.connect().await.map(drop)
    }

    /// Puts the tickets there.
    pub(in crate::demo) async fn fill(&self, left: u64) -> Result<(), Trouble> {
        let mut commands = Pipeline::new();
        commands.hset(&self.0.stock, "left", left).ignore();
        self.expiring(&mut commands);
        self.ask(commands).await
    }

    /// Keeps the keys from expiring while the sale goes on.
    pub(in crate::demo) async fn keep(&self) -> Result<(), Trouble> {
        let mut commands = Pipeline::new();
        self.expiring(&mut commands);
        self.ask(commands).await
    }

    /// Tickets left.
    pub(in crate::demo) async fn left(&self) -> Result<u64, Trouble> {
        let mut commands = Pipeline::new();
        commands.hget(&self.0.stock, "left");
        let (left,): (Option<u64>,) = self.ask(commands).await?;
        left.ok_or(Trouble::Gone)
    }

    /// Removes the keys, and this one of somebody else's.
    pub(in crate::demo) async fn remove(&self, also: &str) -> Result<(), Trouble> {
        let mut commands = Pipeline::new();
        commands.del(&[&self.0.stock, &self.0.lock, also]).ignore();
        self.ask(commands).await
    }

    fn expiring(&self, commands: &mut Pipeline) {
        commands
            .cmd("PEXPIRE")
            .arg(&self.0.stock)
            .arg(LIFE.as_millis().to_string())
            .ignore();
    }

    async fn ask<T: redis::FromRedisValue>(&self, commands: Pipeline) -> Result<T, Trouble> {
        self.0.link.ask(&Request::Commands(commands), None).await
    }

    fn reading(&self, buyer: &str, commands: &mut Pipeline) {
        commands.cmd("HMGET").arg(&self.0.stock).arg("left").arg(buyer);
    }
}

fn sight((left, last): (Option<u64>, Option<u64>)) -> Result<Sight, Trouble> {
    Ok(Sight {
        left: left.ok_or(Trouble::Gone)?,
        last: last.unwrap_or(0),
    })
}

impl Stock for RedisStock {
    type Watch = ConnectionWatch;

    async fn look(&self, buyer: &str, token: u64, until: Option<Instant>) -> Result<Option<Sight>, Trouble> {
        if token == 0 {
            let mut commands = Pipeline::new();
            self.reading(buyer, &mut commands);
            let (values,) = self.0.link.ask(&Request::Commands(commands), until).await?;
            return sight(values).map(Some);
        }
        let arguments = vec![token.to_string(), buyer.to_owned()];
        let request = Request::Script(&LOOK, &self.0.stock, arguments);
        let values: Option<Vec<u64>> = self.0.link.ask(&request, until).await?;
        match values.ok_or(Trouble::Gone)?.as_slice() {
            &[left, last] => Ok(Some(Sight { left, last })),
            _ => Ok(None),
        }
    }

    async fn overwrite(&self, left: u64) -> Result<(), Trouble> {
        let mut commands = Pipeline::new();
        commands.hset(&self.0.stock, "left", left).ignore();
        // A late copy must not leave a key behind for ever.
        self.expiring(&mut commands);
        self.ask(commands).await
    }

    async fn record(&self, sale: &Sale<'_>, until: Option<Instant>) -> Result<bool, Trouble> {
        let arguments = vec![
            sale.left.to_string(),
            sale.buyer.to_owned(),
            sale.number.to_string(),
            sale.previous.to_string(),
            sale.token.to_string(),
        ];
        let request = Request::Script(&RECORD, &self.0.stock, arguments);
        let recorded: Option<u8> = self.0.link.ask(&request, until).await?;
        Ok(recorded.ok_or(Trouble::Gone)? == 1)
    }

    async fn watch(&self, buyer: &str) -> Result<(Sight, ConnectionWatch), Trouble> {
        let permits = Arc::clone(&self.0.permits);
        let permit = permits.acquire_owned().await;
        let permit = permit.map_err(|closed| Trouble::Refused(closed.to_string()))?;
        let idle = self.0.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.0.link.connect().await?,
        };
        let mut commands = Pipeline::new();
        // An earlier watch that came to nothing must not fail this one.
        commands.cmd("UNWATCH").ignore();
        commands.cmd("WATCH").arg(&self.0.stock).ignore();
        self.reading(buyer, &mut commands);
        let request = Request::Commands(commands);
        let (values,) = self.0.link.send_over(&mut connection, &request).await?;
        let watch = ConnectionWatch {
            connection: Some(connection),
            shared: Arc::clone(&self.0),
            _permit: permit,
        };
        Ok((sight(values)?, watch))
    }

    async fn commit(&self, mut watch: ConnectionWatch, sale: &Sale<'_>) -> Result<bool, Trouble> {
        let mut commands = Pipeline::new();
        commands.atomic();
        commands
            .cmd("HSET")
            .arg(&self.0.stock)
            .arg("left")
            .arg(sale.left)
            .arg(sale.buyer)
            .arg(sale.number)
            .ignore();
        let request = Request::Commands(commands);
        // Without an answer the connection is in an unknown state: it is dropped, not put back.
        let Some(mut connection) = watch.connection.take() else {
            return Ok(false);
        };
        let written: Option<()> = self.0.link.send_over(&mut connection, &request).await?;
        watch.connection = Some(connection);
        Ok(written.is_some())
    }

    async fn take_lock(&self, value: &str, life: Duration) -> Result<bool, Trouble> {
        let mut commands = Pipeline::new();
        commands
            .cmd("SET")
            .arg(&self.0.lock)
            .arg(value)
            .arg("NX")
            .arg("PX")
            .arg(life.as_millis().to_string());
        // If the answer to an earlier copy was lost, the lock may be ours already.
        commands.cmd("GET").arg(&self.0.lock);
        let (_, holder): (redis::Value, Option<String>) = self.ask(commands).await?;
        Ok(holder.as_deref() == Some(value))
    }

    async fn free_lock(&self, value: &str, until: Option<Instant>) -> Result<(), Trouble> {
        let request = Request::Script(&FREE, &self.0.lock, vec![value.to_owned()]);
        let _: u8 = self.0.link.ask(&request, until).await?;
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        self.0.link.trips()
    }
}
