//! The bare driver, with the connection settings that Lockkeeper uses.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, PushInfo};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// As Lockkeeper's: nobody sends requests that may stay unanswered for ever.
const RESPONSE_LIMIT: Duration = Duration::from_secs(2);

fn client(url: &str) -> Client {
    let info = url.into_connection_info().expect("the server's address is valid");
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info
        .set_redis_settings(settings)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    Client::open(info).expect("the server's address is valid")
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE_LIMIT))
}

/// One multiplexed connection.
pub(crate) async fn connection(url: &str) -> MultiplexedConnection {
    client(url)
        .get_multiplexed_async_connection_with_config(&config())
        .await
        .expect("the server answers")
}

/// One multiplexed connection, and the messages that the server sends on it unasked.
pub(crate) async fn connection_with_messages(url: &str) -> (MultiplexedConnection, UnboundedReceiver<PushInfo>) {
    let (sender, messages) = mpsc::unbounded_channel();
    let connection = client(url)
        .get_multiplexed_async_connection_with_config(&config().set_push_sender(sender))
        .await
        .expect("the server answers");
    (connection, messages)
}
