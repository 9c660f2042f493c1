//! Looking into a server: who is connected, what ran, what is stored.
//!
//! All of it goes over a fresh connection of its own and has a real time limit of ten seconds, so that a frozen
//! server fails a test instead of hanging it. The looks themselves show up in the server's counters.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, cmd};

use super::RedisServer;
use crate::real_time;

/// How long one look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// What the server counted for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandStatistics {
    /// How often it ran.
    pub calls: u64,
    /// Processor time it took, in microseconds.
    pub microseconds: u64,
    /// How often it was refused before it ran.
    pub rejected: u64,
    /// How often it ran and ended in an error.
    pub failed: u64,
}

/// One line of `CLIENT LIST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedClient {
    fields: BTreeMap<String, String>,
}

impl ConnectedClient {
    /// A field by the server's name for it (`id`, `addr`, `name`, `cmd`, `sub`, `psub`, `ssub`, `resp`, ..);
    /// empty if the server does not tell.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// The name that the client gave itself, or nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        self.field("name")
    }

    /// The last command, in lower case, with its subcommand behind a bar.
    #[must_use]
    pub fn command(&self) -> &str {
        self.field("cmd")
    }

    /// Number of channels and patterns it is subscribed to, sharded ones included.
    #[must_use]
    pub fn subscriptions(&self) -> u64 {
        ["sub", "psub", "ssub"]
            .iter()
            .filter_map(|name| self.field(name).parse::<u64>().ok())
            .sum()
    }
}

impl RedisServer {
    /// A new connection for commands, on the runtime of the caller.
    ///
    /// It has no response limit of its own: with tokio's clock paused that limit would pass at once. Put
    /// [`real_time::timeout`] around calls that may hang.
    ///
    /// # Panics
    ///
    /// If there is no connection after ten seconds of real time.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.connection_for_db(0).await
    }

    /// As [`connection`](Self::connection), to the database with this number.
    ///
    /// # Panics
    ///
    /// If there is no connection after ten seconds of real time.
    pub async fn connection_for_db(&self, database: u32) -> MultiplexedConnection {
        let client = Client::open(self.url_for_db(database)).expect("the server's address is valid");
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        real_time::timeout(LOOK_LIMIT, client.get_multiplexed_async_connection_with_config(&config))
            .await
            .unwrap_or_else(|elapsed| panic!("connecting to {}: {elapsed}", self.address()))
            .unwrap_or_else(|error| panic!("connecting to {}: {error}", self.address()))
    }

    /// Runs one command on a fresh connection.
    ///
    /// # Panics
    ///
    /// If it fails or is not answered within ten seconds of real time.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let mut connection = self.connection().await;
        real_time::timeout(LOOK_LIMIT, command.query_async(&mut connection))
            .await
            .unwrap_or_else(|elapsed| panic!("asking {}: {elapsed}", self.address()))
            .unwrap_or_else(|error| panic!("asking {}: {error}", self.address()))
    }

    /// Everybody who is connected, the asking connection included.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn client_list(&self) -> Vec<ConnectedClient> {
        let text: String = self.query(cmd("CLIENT").arg("LIST")).await;
        text.lines()
            .map(|line| ConnectedClient {
                fields: line
                    .split(' ')
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            })
            .collect()
    }

    /// Counters by command, in the server's spelling: lower case, subcommands behind a bar (`client|list`).
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn command_stats(&self) -> BTreeMap<String, CommandStatistics> {
        let text: String = self.query(cmd("INFO").arg("commandstats")).await;
        text.lines().filter_map(command_statistics).collect()
    }

    /// How often `command` ran (lower case, as in [`command_stats`](Self::command_stats)).
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn calls(&self, command: &str) -> u64 {
        self.command_stats()
            .await
            .get(command)
            .map_or(0, |statistics| statistics.calls)
    }

    /// Number of commands that ran since the server started, commands of scripts included.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn total_commands(&self) -> u64 {
        self.info_field("stats", "total_commands_processed")
            .await
            .parse()
            .expect("a counter is a number")
    }

    /// One field of a section of `INFO`.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query), and if the server does not tell this field.
    pub async fn info_field(&self, section: &str, field: &str) -> String {
        let text: String = self.query(cmd("INFO").arg(section)).await;
        text.lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| *name == field))
            .map(|(_, value)| value.to_owned())
            .unwrap_or_else(|| panic!("INFO {section} has no {field}"))
    }

    /// Channels with at least one subscriber, sharded ones included, sorted.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn pubsub_channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.query(cmd("PUBSUB").arg("CHANNELS")).await;
        if self.version().has_sharded_channels() {
            let sharded: Vec<String> = self.query(cmd("PUBSUB").arg("SHARDCHANNELS")).await;
            channels.extend(sharded);
        }
        channels.sort();
        channels
    }

    /// All keys of database 0, sorted.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.query(cmd("KEYS").arg("*")).await;
        keys.sort();
        keys
    }
}

/// Reads a line like `cmdstat_get:calls=1,usec=2,usec_per_call=2.00,rejected_calls=0,failed_calls=0`.
fn command_statistics(line: &str) -> Option<(String, CommandStatistics)> {
    let (name, values) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let value = |wanted: &str| {
        values
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .find(|(field, _)| *field == wanted)
            .and_then(|(_, number)| number.trim().parse().ok())
            .unwrap_or(0)
    };
    let statistics = CommandStatistics {
        calls: value("calls"),
        microseconds: value("usec"),
        rejected: value("rejected_calls"),
        failed: value("failed_calls"),
    };
    Some((name.to_owned(), statistics))
}
