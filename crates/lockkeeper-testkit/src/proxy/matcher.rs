//! Which traffic a fault is for.

use std::fmt;
use std::sync::Arc;

use super::journal::Request;

/// Chooses requests, and the replies to them.
///
/// All conditions must hold. Traffic that belongs to no request (messages of a subscription, a replication
/// stream) is chosen only by conditions on the connection.
#[derive(Clone, Default)]
#[must_use]
pub struct Matcher {
    commands: Vec<String>,
    texts: Vec<Vec<u8>>,
    subscriber: Option<bool>,
    connection: Option<u64>,
    condition: Option<Condition>,
}

type Condition = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// What a matcher may know of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    pub(super) connection: u64,
    pub(super) subscriber: bool,
}

impl Matcher {
    /// Everything.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of this command, in any case, such as `EVALSHA`.
    pub fn command(name: &str) -> Self {
        Self::commands([name])
    }

    /// Requests of any of these commands.
    pub fn commands<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            commands: names.into_iter().map(str::to_ascii_uppercase).collect(),
            ..Self::default()
        }
    }

    /// Script calls: `EVAL`, `EVALSHA` and `FCALL`.
    pub fn scripts() -> Self {
        Self::commands(["EVAL", "EVALSHA", "FCALL"])
    }

    /// Connections that have sent `SUBSCRIBE`, `PSUBSCRIBE` or `SSUBSCRIBE`, from that request on.
    pub fn subscribers() -> Self {
        Self {
            subscriber: Some(true),
            ..Self::default()
        }
    }

    /// Connections that have not subscribed to anything so far.
    pub fn not_subscribers() -> Self {
        Self {
            subscriber: Some(false),
            ..Self::default()
        }
    }

    /// And one of the arguments contains this text.
    pub fn containing(mut self, text: impl AsRef<[u8]>) -> Self {
        self.texts.push(text.as_ref().to_vec());
        self
    }

    /// And it is on the connection with this number (from 1, see [`Request::connection`]).
    pub fn on_connection(mut self, number: u64) -> Self {
        self.connection = Some(number);
        self
    }

    /// And this holds for the request.
    pub fn when(mut self, condition: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    pub(super) fn chooses_connection(&self, sight: Sight) -> bool {
        self.subscriber.is_none_or(|wanted| wanted == sight.subscriber)
            && self.connection.is_none_or(|wanted| wanted == sight.connection)
    }

    pub(super) fn chooses(&self, sight: Sight, request: Option<&Request>) -> bool {
        if !self.chooses_connection(sight) {
            return false;
        }
        let Some(request) = request else {
            return self.commands.is_empty() && self.texts.is_empty() && self.condition.is_none();
        };
        (self.commands.is_empty() || self.commands.contains(&request.command))
            && self.texts.iter().all(|text| request.contains(text))
            && self.condition.as_ref().is_none_or(|condition| condition(request))
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
        f.debug_struct("Matcher")
            .field("commands", &self.commands)
            .field("texts", &texts)
            .field("subscriber", &self.subscriber)
            .field("connection", &self.connection)
            .field("condition", &self.condition.is_some())
            .finish()
    }
}
