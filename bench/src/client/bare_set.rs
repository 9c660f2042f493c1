//! The lock that everybody writes: `SET NX PX`, and a script that deletes the key if the value is still ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::{Client, LEASE, Lock, connection};

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                                  return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone, Debug)]
pub(crate) struct BareSet {
    connection: MultiplexedConnection,
    release: Arc<str>,
    owners: Arc<AtomicU64>,
}

impl BareSet {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut connection = connection(url).await;
        let hash: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(COMPARE_AND_DELETE)
            .query_async(&mut connection)
            .await
            .expect("the server takes the script");
        Self {
            connection,
            release: hash.into(),
            owners: Arc::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BareSetLock {
    client: BareSet,
    name: Arc<str>,
}

impl BareSetLock {
    async fn send(&self, command: &Cmd) -> Value {
        let mut connection = self.client.connection.clone();
        connection
            .send_packed_command(command)
            .await
            .expect("the server answers")
    }
}

impl Client for BareSet {
    type Lock = BareSetLock;

    fn lock_named(&self, name: &str) -> BareSetLock {
        BareSetLock {
            client: self.clone(),
            name: name.into(),
        }
    }
}

/// No waiting either: measured only where nobody else wants the lock.
impl Lock for BareSetLock {
    type Held = String;

    async fn take(&self) -> String {
        let number = self.client.owners.fetch_add(1, Ordering::Relaxed);
        let owner = format!("6b1c1d54-8f0e-4c3e-9d2a-3f5a7b9c1e20:{number:019}");
        let mut command = Cmd::with_capacity(6, 128);
        command
            .arg("SET")
            .arg(&*self.name)
            .arg(&owner)
            .arg("NX")
            .arg("PX")
            .arg(LEASE.as_millis().to_string());
        let reply = self.send(&command).await;
        assert_eq!(reply, Value::Okay, "the bare driver cannot wait");
        owner
    }

    async fn give_back(&self, owner: String) {
        let mut command = Cmd::with_capacity(5, 160);
        command
            .arg("EVALSHA")
            .arg(&*self.client.release)
            .arg(1)
            .arg(&*self.name)
            .arg(&owner);
        let reply = self.send(&command).await;
        assert_eq!(reply, Value::Int(1), "the hold must still be there");
    }
}
