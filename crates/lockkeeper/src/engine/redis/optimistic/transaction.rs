use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::{Change, ChangeKind, Pool, failed};
use crate::base::lease::whole_milliseconds;
use crate::engine::redis::refusal::server_refused;
use crate::engine::redis::session::Session;
use crate::engine::{Cause, StepError};
use crate::error::{Effect, Error};

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Written, or there was nothing to write.
    Written,
    /// Somebody changed a key in the meantime; nothing was written.
    Changed,
}

/// A connection that watches keys. Only [`finish`](Self::finish) gives it back; dropped before that it is closed, and
/// with it ends the watching.
#[derive(Debug)]
pub(super) struct Transaction {
    pool: Arc<Pool>,
    session: Session,
}

impl Transaction {
    /// Watches the keys and reads them.
    pub(super) async fn begin(
        pool: &Arc<Pool>,
        session: Session,
        keys: &[&[u8]],
    ) -> Result<(Self, Vec<Option<Vec<u8>>>), Error> {
        let transaction = Self {
            pool: Arc::clone(pool),
            session,
        };
        if keys.is_empty() {
            return Ok((transaction, Vec::new()));
        }
        let mut commands = redis::pipe();
        commands.cmd("WATCH").arg(keys);
        for key in keys {
            commands.cmd("GET").arg(*key);
        }
        let replies = transaction.ask(&commands).await.map_err(|error| {
            // Reading changes nothing.
            failed(&StepError {
                effect: Effect::None,
                ..error
            })
        })?;
        let mut values = Vec::with_capacity(keys.len());
        for (place, reply) in replies.into_iter().enumerate() {
            match reply {
                Value::ServerError(error) if error.code() == "WRONGTYPE" && place > 0 => {
                    return Err(transaction.wrong_kind(keys[place - 1]).await);
                }
                Value::ServerError(error) => {
                    return Err(failed(&StepError {
                        effect: Effect::None,
                        ..transaction.refused(&error)
                    }));
                }
                Value::BulkString(value) => values.push(Some(value)),
                Value::Nil => values.push(None),
                _ if place == 0 => {}
                _ => return Err(not_understood(Effect::None)),
            }
        }
        Ok((transaction, values))
    }

    /// Writes the changes if no watched key was changed, or just ends the watching if there are none.
    pub(super) async fn finish(self, changes: Vec<Change>) -> Result<Outcome, Error> {
        let mut commands = redis::pipe();
        if changes.is_empty() {
            commands.cmd("UNWATCH");
            // What was decided was true when it was read; nothing depends on this reply but the connection.
            if self.ask(&commands).await.is_ok() {
                self.give_back();
            }
            return Ok(Outcome::Written);
        }
        commands.cmd("MULTI");
        for change in &changes {
            add(&mut commands, change);
        }
        commands.cmd("EXEC");
        let replies = self.ask(&commands).await.map_err(|error| failed(&error))?;

        let Some((result, queued)) = replies.split_last() else {
            return Err(not_understood(Effect::Possible));
        };
        let outcome = match result {
            Value::Nil => Outcome::Changed,
            Value::Array(results) => match results.iter().find_map(server_error) {
                // One of the commands failed while the others were done.
                Some(error) => {
                    return Err(failed(&StepError {
                        effect: Effect::Possible,
                        ..self.refused(error)
                    }));
                }
                None => Outcome::Written,
            },
            Value::ServerError(aborted) => {
                // A command was refused before anything was done; its own error tells more than the last one.
                let error = queued.iter().find_map(server_error).unwrap_or(aborted);
                return Err(failed(&StepError {
                    effect: Effect::None,
                    ..self.refused(error)
                }));
            }
            _ => return Err(not_understood(Effect::Possible)),
        };
        self.give_back();
        Ok(outcome)
    }

    fn give_back(self) {
        self.pool.put_back(self.session);
    }

    async fn ask(&self, commands: &Pipeline) -> Result<Vec<Value>, StepError> {
        let until = Instant::now() + self.limit();
        self.session
            .request_all(commands, until)
            .await
            .map_err(|failure| failure.error)
    }

    fn limit(&self) -> Duration {
        self.pool.node.config.response_limit
    }

    fn refused(&self, error: &redis::ServerError) -> StepError {
        server_refused(&self.pool.node.config, error)
    }

    /// Asks what the key holds, for the error's text.
    async fn wrong_kind(&self, key: &[u8]) -> Error {
        let mut command = redis::cmd("TYPE");
        command.arg(key);
        let found = match self.session.request(&command, Instant::now() + self.limit()).await {
            Ok(Value::SimpleString(kind)) => kind,
            _ => "key of another kind".to_owned(),
        };
        let name: String = String::from_utf8_lossy(key).chars().flat_map(printable).collect();
        Error::WrongKind {
            name,
            wanted: "string",
            found,
        }
    }
}

/// Control characters escaped, so that no log line can be forged.
fn printable(character: char) -> Vec<char> {
    if character.is_control() {
        character.escape_default().collect()
    } else {
        vec![character]
    }
}

fn add(commands: &mut Pipeline, change: &Change) {
    match &change.kind {
        ChangeKind::Set { value, life: None } => commands.cmd("SET").arg(&change.key).arg(value).arg("KEEPTTL"),
        ChangeKind::Set {
            value,
            life: Some(life),
        } => commands
            .cmd("SET")
            .arg(&change.key)
            .arg(value)
            .arg("PX")
            .arg(whole_milliseconds(*life).max(1)),
        ChangeKind::Delete => commands.cmd("DEL").arg(&change.key),
    };
}

fn server_error(value: &Value) -> Option<&redis::ServerError> {
    match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

fn not_understood(effect: Effect) -> Error {
    failed(&StepError {
        cause: Cause::Unreachable("the server's reply was not understood".to_owned()),
        effect,
    })
}
