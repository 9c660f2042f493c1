//! A connection to the server that is made anew when it breaks.

use crate::arguments::Server;
use crate::demo::patience::Patience;
use crate::demo::trouble::Trouble;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, ServerErrorKind,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// For one answer, and for one attempt to connect.
const LIMIT: Duration = Duration::from_secs(2);

/// A script, with the hash that the server knows it by.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let hash = redis::Script::new(text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// What is sent in one go.
#[derive(Debug)]
pub(super) enum Request<'a> {
    /// Plain commands.
    Commands(Pipeline),
    /// A script on one key.
    Script(&'a Script, &'a str, Vec<String>),
}

/// One connection shared by all buyers of this process.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    password: Option<String>,
    current: Mutex<Option<(u64, MultiplexedConnection)>>,
    trips: AtomicU64,
}

impl Link {
    pub(super) fn new(server: &Server) -> Result<Self, Trouble> {
        let misread = |_| Trouble::Refused("the server's address is not understood".to_owned());
        let info = server.url.as_str().into_connection_info().map_err(misread)?;
        let mut settings = info.redis_settings().clone();
        if let Some(password) = &server.password {
            settings = settings.set_password(password.reveal());
        }
        let info = info
            .set_redis_settings(settings)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Ok(Self {
            client: Client::open(info).map_err(misread)?,
            password: server.password.as_ref().map(|password| password.reveal().to_owned()),
            current: Mutex::new(None),
            trips: AtomicU64::new(0),
        })
    }

    /// How many requests were sent so far.
    pub(super) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// A connection that is nobody else's.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection, Trouble> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        // The handshake after the connect has no limit of its own in the driver.
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(LIMIT, connecting).await {
            Ok(result) => result.map_err(|error| self.trouble(&error)),
            Err(_) => Err(Trouble::Unreachable("no connection in time".to_owned())),
        }
    }

    /// Sends a request that is safe to repeat, until it is answered, patience ends, or this moment has come.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        request: &Request<'_>,
        until: Option<Instant>,
    ) -> Result<T, Trouble> {
        let mut patience = Patience::until(until);
        loop {
            match self.send(request).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => patience.rest(trouble).await?,
            }
        }
    }

    /// Sends one copy.
    async fn send<T: FromRedisValue>(&self, request: &Request<'_>) -> Result<T, Trouble> {
        let (number, mut connection) = self.connection().await?;
        let answer = self.send_over(&mut connection, request).await;
        if answer.as_ref().is_err_and(Trouble::is_transient) {
            self.forget(number).await;
        }
        answer
    }

    /// Sends one copy over a connection.
    pub(super) async fn send_over<T: FromRedisValue>(
        &self,
        connection: &mut MultiplexedConnection,
        request: &Request<'_>,
    ) -> Result<T, Trouble> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        let answer = match request {
            Request::Commands(commands) => commands.query_async(connection).await,
            Request::Script(script, key, arguments) => {
                let call = |command: &str, script: &str| {
                    let mut call = redis::cmd(command);
                    call.arg(script).arg(1).arg(key).arg(arguments);
                    call
                };
                match call("EVALSHA", &script.hash).query_async(connection).await {
                    Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                        self.trips.fetch_add(1, Ordering::Relaxed);
                        call("EVAL", script.text).query_async(connection).await
                    }
                    answer => answer,
                }
            }
        };
        answer.map_err(|error| self.trouble(&error))
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), Trouble> {
        let mut current = self.current.lock().await;
        if let Some((number, connection)) = &*current {
            return Ok((*number, connection.clone()));
        }
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let connection = self.connect().await?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        *current = Some((number, connection.clone()));
        Ok((number, connection))
    }

    /// Drops a broken connection, unless another caller has replaced it already.
    async fn forget(&self, number: u64) {
        self.current.lock().await.take_if(|(current, _)| *current == number);
    }

    fn trouble(&self, error: &RedisError) -> Trouble {
        let mut text = error.to_string();
        if let Some(password) = self.password.as_deref().filter(|password| !password.is_empty()) {
            text = text.replace(password, "...");
        }
        let passes = error.is_io_error()
            || error.is_connection_dropped()
            || error.is_timeout()
            || matches!(
                error.kind(),
                ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                        | ServerErrorKind::MasterDown
                        | ServerErrorKind::TryAgain
                        | ServerErrorKind::ClusterDown
                )
            );
        if passes {
            Trouble::Unreachable(text)
        } else {
            Trouble::Refused(text)
        }
    }
}
