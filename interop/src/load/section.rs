//! The work under a lock.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};

use super::{Contended, Limit};

/// Does its work in plain keys beside the lock.
#[derive(Debug)]
pub(super) struct Section {
    connection: MultiplexedConnection,
    random: fastrand::Rng,
}

impl Section {
    pub(super) fn new(connection: MultiplexedConnection, random: fastrand::Rng) -> Self {
        Self { connection, random }
    }

    pub(super) async fn run(&mut self, contended: &Contended) {
        for name in &contended.names() {
            match contended.limit {
                Limit::One => self.increment(name).await,
                Limit::Readers => self.read(name).await,
                Limit::Permits(limit) => self.stay(name, limit).await,
            }
        }
    }

    /// Reads, thinks and writes: an update is lost if anybody else is inside.
    async fn increment(&mut self, name: &str) {
        self.enter(name, 1).await;
        let seen = self.counter(name).await;
        self.think().await;
        let counter = format!("counter:{name}");
        let () = self.query(cmd("SET").arg(counter).arg(seen + 1)).await;
        self.leave(name).await;
    }

    /// Reads twice: nothing may change under a reader.
    async fn read(&mut self, name: &str) {
        let before = self.counter(name).await;
        self.think().await;
        let after = self.counter(name).await;
        assert_eq!(before, after, "{name} changed under a reader");
    }

    async fn stay(&mut self, name: &str, limit: usize) {
        self.enter(name, limit).await;
        self.think().await;
        self.leave(name).await;
    }

    async fn enter(&mut self, name: &str, limit: usize) {
        let inside: usize = self.query(cmd("INCR").arg(format!("inside:{name}"))).await;
        assert!(inside <= limit, "{inside} are inside of {name}, which {limit} may be");
    }

    async fn leave(&mut self, name: &str) {
        let _: i64 = self.query(cmd("DECR").arg(format!("inside:{name}"))).await;
    }

    async fn counter(&mut self, name: &str) -> u64 {
        let seen: Option<u64> = self.query(cmd("GET").arg(format!("counter:{name}"))).await;
        seen.unwrap_or(0)
    }

    async fn think(&mut self) {
        if self.random.u8(0..8) == 0 {
            tokio::time::sleep(Duration::from_millis(self.random.u64(0..5))).await;
        }
    }

    async fn query<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command
            .query_async(&mut self.connection)
            .await
            .expect("an answer of the server")
    }
}
