use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, PushKind, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::node::Node;
use super::offset::ServerOffset;
#[cfg(feature = "tls")]
use super::refusal::not_tls;
use super::refusal::{broken, not_connected, server_refused, too_old};
use super::reply::{not_understood, time_reply};
use super::script::Script;
use super::version::check;
use crate::base::clock::Moment;
use crate::engine::{Cause, StepError};
use crate::error::{Effect, Refusal};

/// After so many unanswered calls in a row a connection is given up, if it was also silent for the response limit.
const UNANSWERED: u32 = 2;

/// How often a script that the server does not know is loaded within one call.
const LOADS: u32 = 3;

/// One connection that was made, with what is known of the server behind it. It is used until it is over, and then
/// replaced by its link.
pub(super) struct Session {
    node: Arc<Node>,
    connection: MultiplexedConnection,
    offset: ServerOffset,
    closed: Arc<AtomicBool>,
    /// When the oldest request was sent since the server was last heard, in nanoseconds; 0 if none was.
    asked: AtomicU64,
    unanswered: AtomicU32,
}

/// Why a request has no good answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StepError,
    /// Whether the request can do nothing more: it was answered, or never sent.
    pub(super) settled: bool,
}

impl Session {
    /// Connects within the connect limit, on the runtime that it is called in. `on_push` must not block.
    pub(super) async fn open(
        node: &Arc<Node>,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Self, StepError> {
        let limit = node.config.connect_limit;
        let too_slow = || StepError::none(Cause::Unreachable(format!("no connection within {limit:?}")));
        let opening = timeout(limit, Self::open_unbounded(node, on_push));
        #[cfg(feature = "tls")]
        if node.config.tls.is_some() {
            let plain = super::tls::answers_in_plain_text(node.config.connection_info(), limit / 2);
            return tokio::select! {
                outcome = opening => outcome.unwrap_or_else(|_| Err(too_slow())),
                () = plain => Err(not_tls(&node.config)),
            };
        }
        opening.await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn open_unbounded(
        node: &Arc<Node>,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Self, StepError> {
        let closed = Arc::new(AtomicBool::new(false));
        let closing = SetOnDrop(Arc::clone(&closed));
        let client = node
            .config
            .client()
            .map_err(|error| StepError::none(Cause::Unreachable(error.to_string())))?;
        let config = node.config.connection_config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                closing.0.store(true, Ordering::Release);
            }
            on_push(push);
            Ok::<(), ()>(())
        });
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| not_connected(&node.config, &error))?;
        // From here on the closure belongs to the driver's task alone, and ends with it.
        drop(config);

        let mut handshake = redis::pipe();
        handshake.cmd("HELLO").arg(3);
        handshake.cmd("CLIENT").arg("SETNAME").arg(node.config.name_on_server());
        handshake.cmd("TIME");
        node.count_request();
        let sent = node.now();
        let replies = connection
            .send_packed_commands(&handshake, 0, 3)
            .await
            .map_err(|error| not_connected(&node.config, &error))?;
        let received = node.now();
        let [hello, _name, time] = replies.as_slice() else {
            return Err(StepError::none(Cause::Unreachable(
                "the handshake was not understood".to_owned(),
            )));
        };
        for value in [hello, time] {
            if let Value::ServerError(error) = value {
                return Err(StepError {
                    effect: Effect::None,
                    ..server_refused(&node.config, error)
                });
            }
        }
        check(hello).map_err(|told| StepError::none(too_old(&told)))?;
        let server_time = time_reply(time)
            .ok_or_else(|| StepError::none(Cause::Unreachable("the server's time was not understood".to_owned())))?;
        Ok(Self {
            node: Arc::clone(node),
            connection,
            offset: ServerOffset::new(server_time, sent, received),
            closed,
            asked: AtomicU64::new(0),
            unanswered: AtomicU32::new(0),
        })
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(super) fn offset(&self) -> &ServerOffset {
        &self.offset
    }

    /// Whether it is broken, its runtime ended, or it was silent for too long.
    pub(super) fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Sends one command and waits for its reply until `until`. Dropping the future does no harm to the connection.
    pub(super) async fn request(&self, command: &Cmd, until: Instant) -> Result<Value, Failure> {
        if self.node.config.asking {
            return self.request_on_the_way(command, until).await;
        }
        let mut connection = self.connection.clone();
        let sent = self.asking();
        let reply = timeout_at(until, connection.send_packed_command(command)).await;
        match self.heard(reply, sent)? {
            Value::ServerError(error) => Err(Failure {
                error: server_refused(&self.node.config, &error),
                settled: true,
            }),
            value => Ok(value),
        }
    }

    /// As [`request`](Self::request), for a slot that is on its way to this server.
    async fn request_on_the_way(&self, command: &Cmd, until: Instant) -> Result<Value, Failure> {
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut replies = self.request_all(&both, until).await?;
        match replies.pop() {
            Some(Value::ServerError(error)) => Err(Failure {
                error: server_refused(&self.node.config, &error),
                settled: true,
            }),
            Some(value) => Ok(value),
            None => Err(not_understood()),
        }
    }

    /// Sends commands together and waits for all replies; an error of the server's stands in the place of its reply.
    pub(super) async fn request_all(&self, commands: &redis::Pipeline, until: Instant) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection.clone();
        let sent = self.asking();
        let reply = timeout_at(until, connection.send_packed_commands(commands, 0, commands.len())).await;
        self.heard(reply, sent)
    }

    /// Runs a script by its hash. Where the server does not know it yet, it is loaded unseen; where it is flushed again
    /// and again in between, its text goes along.
    pub(super) async fn evaluate(&self, script: &Script, command: &Cmd, until: Instant) -> Result<Value, Failure> {
        let sharded = self.node.config.sharded;
        let translated;
        let command = if sharded {
            translated = script.sharded_call(command);
            &translated
        } else {
            command
        };
        for _ in 0..LOADS {
            let missing = match self.request(command, until).await {
                Err(failure) if is_missing(&failure) => failure,
                settled => return settled,
            };
            tracing::debug!(script = script.name(), "loading a script");
            self.request(&script.load_command(sharded), until)
                .await
                .map_err(|refused| Failure {
                    error: StepError::none(match refused.error.cause {
                        Cause::Refused(Refusal::Permission, detail) => Cause::Refused(Refusal::ScriptMissing, detail),
                        cause => cause,
                    }),
                    settled: missing.settled,
                })?;
        }
        match self.request(command, until).await {
            Err(failure) if is_missing(&failure) => self.request(&script.whole_call(command, sharded), until).await,
            settled => settled,
        }
    }

    fn asking(&self) -> Moment {
        self.node.count_request();
        let now = self.node.now();
        if self.asked.load(Ordering::Relaxed) == 0 {
            self.asked.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        now
    }

    /// Keeps account of whether the server is still heard from.
    fn heard<T, E>(&self, reply: Result<redis::RedisResult<T>, E>, sent: Moment) -> Result<T, Failure> {
        let error = match reply {
            Ok(Ok(value)) => {
                if self.asked.load(Ordering::Relaxed) != 0 {
                    self.asked.store(0, Ordering::Relaxed);
                    self.unanswered.store(0, Ordering::Relaxed);
                }
                return Ok(value);
            }
            Ok(Err(error)) => {
                self.closed.store(true, Ordering::Release);
                broken(&self.node.config, &error)
            }
            Err(_) => {
                let now = self.node.now();
                self.silent(now);
                StepError::possible(Cause::Unreachable(format!(
                    "no answer within {:?}",
                    rounded(now.since(sent))
                )))
            }
        };
        Err(Failure { error, settled: false })
    }

    fn silent(&self, now: Moment) {
        let unanswered = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = self.asked.load(Ordering::Relaxed);
        let limit = self.node.config.response_limit;
        if asked != 0 && unanswered >= UNANSWERED && now.since(Moment::from_nanos(asked)) >= limit {
            tracing::debug!(server = %self.node.config.server(), "a silent connection is given up");
            self.closed.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("node", &self.node)
            .field("over", &self.is_over())
            .finish_non_exhaustive()
    }
}

/// Set when the driver's task ends, however it ends: with its connection, or with its runtime.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn is_missing(failure: &Failure) -> bool {
    matches!(failure.error.cause, Cause::Refused(Refusal::ScriptMissing, _))
}

fn rounded(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}
