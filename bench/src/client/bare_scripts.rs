//! Lockkeeper's own two scripts without Lockkeeper: what the library may cost is measured against this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use lockkeeper::Layout;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::{Client, LEASE, Lock, connection};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!(
            "../../../crates/lockkeeper/src/engine/redis/scripts/",
            $name,
            ".lua"
        ))
    };
}

/// Microseconds in which a copy may run: the response limit that Lockkeeper sends along.
const WINDOW: u64 = 2_000_000;

/// What a token record lives beyond its lease, in milliseconds.
const RECORD_OUTLIVES_LEASE: u128 = 600_000;

/// The driver with the scripts loaded.
#[derive(Clone, Debug)]
pub(crate) struct BareScripts {
    connection: MultiplexedConnection,
    acquire: Arc<str>,
    release: Arc<str>,
    channel: &'static str,
    owners: Arc<AtomicU64>,
}

impl BareScripts {
    pub(crate) async fn connect(url: &str, layout: Layout) -> Self {
        let (acquire, release, channel) = match layout {
            Layout::Plain => (
                concat!(script!("plain/acquire"), script!("shared/grant")),
                script!("plain/release"),
                "lockkeeper_channel",
            ),
            _ => (
                concat!(script!("mutex/acquire"), script!("shared/grant")),
                script!("mutex/release"),
                "redisson_lock__channel",
            ),
        };
        let mut connection = connection(url).await;
        let acquire = load(&mut connection, acquire).await;
        let release = load(&mut connection, release).await;
        Self {
            connection,
            acquire,
            release,
            channel,
            owners: Arc::default(),
        }
    }
}

async fn load(connection: &mut MultiplexedConnection, source: &str) -> Arc<str> {
    let hash: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(source)
        .query_async(connection)
        .await
        .expect("the server takes the script");
    hash.into()
}

/// A lock with its keys.
#[derive(Clone, Debug)]
pub(crate) struct BareLock {
    client: BareScripts,
    name: Arc<str>,
    token_key: Arc<str>,
    peer_token_key: Arc<str>,
    channel: Arc<str>,
    lease: u128,
}

impl BareLock {
    /// The channel on which a release is signalled.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Takes the lock; false if it is busy.
    async fn acquire(&self, owner: &str) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let use_by = now.as_micros() + u128::from(WINDOW);
        let mut command = Cmd::with_capacity(12, 320);
        command
            .arg("EVALSHA")
            .arg(&*self.client.acquire)
            .arg(3)
            .arg(&*self.name)
            .arg(&*self.token_key)
            .arg(&*self.peer_token_key)
            .arg(owner)
            .arg(self.lease.to_string())
            .arg((self.lease + RECORD_OUTLIVES_LEASE).to_string())
            .arg(1)
            .arg(use_by.to_string())
            .arg(WINDOW);
        match self.send(&command).await {
            0 => true,
            1 => false,
            status => panic!("the script refused with {status}"),
        }
    }

    async fn release(&self, owner: &str) {
        let mut command = Cmd::with_capacity(6, 192);
        command
            .arg("EVALSHA")
            .arg(&*self.client.release)
            .arg(2)
            .arg(&*self.name)
            .arg(&*self.channel)
            .arg(owner);
        let status = self.send(&command).await;
        assert_eq!(status, 0, "the hold must still be there");
    }

    /// The status in the reply.
    async fn send(&self, command: &Cmd) -> i64 {
        let mut connection = self.client.connection.clone();
        let reply = connection
            .send_packed_command(command)
            .await
            .expect("the server answers");
        match reply {
            Value::Array(parts) => match parts.first() {
                Some(Value::Int(status)) => *status,
                _ => panic!("not a reply of the script"),
            },
            other => panic!("not a reply of the script: {other:?}"),
        }
    }
}

impl Client for BareScripts {
    type Lock = BareLock;

    fn lock_named(&self, name: &str) -> BareLock {
        BareLock {
            client: self.clone(),
            name: name.into(),
            token_key: format!("lockkeeper_token:{{{name}}}").into(),
            peer_token_key: format!("redisson_lock_token:{{{name}}}").into(),
            channel: format!("{}:{{{name}}}", self.channel).into(),
            lease: LEASE.as_millis(),
        }
    }
}

/// The bare driver has no waiting: it is measured only where nobody else wants the lock.
impl Lock for BareLock {
    type Held = String;

    async fn take(&self) -> String {
        let number = self.client.owners.fetch_add(1, Ordering::Relaxed);
        let owner = format!("6b1c1d54-8f0e-4c3e-9d2a-3f5a7b9c1e20:{number:019}");
        assert!(self.acquire(&owner).await, "the bare driver cannot wait");
        owner
    }

    async fn give_back(&self, owner: String) {
        self.release(&owner).await;
    }
}
