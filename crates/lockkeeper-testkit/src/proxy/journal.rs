//! What went through the proxy.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// How many requests are remembered; older ones are only counted.
const REMEMBERED: usize = 10_000;

/// One request of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// Number of the connection, from 1, in the order of arrival.
    pub connection: u64,
    /// Number of the request, from 1, over all connections.
    pub number: u64,
    /// The command's name in capitals, without its subcommand.
    pub command: String,
    /// Everything behind the name.
    pub arguments: Vec<Vec<u8>>,
    /// When the proxy had read it.
    pub at: Instant,
}

impl Request {
    /// The argument at `index` (from 0, the name not counted) as text; empty if there is none.
    #[must_use]
    pub fn argument(&self, index: usize) -> Cow<'_, str> {
        self.arguments
            .get(index)
            .map_or(Cow::Borrowed(""), |bytes| String::from_utf8_lossy(bytes))
    }

    /// Whether any argument contains `text`.
    #[must_use]
    pub fn contains(&self, text: impl AsRef<[u8]>) -> bool {
        let text = text.as_ref();
        text.is_empty()
            || self
                .arguments
                .iter()
                .any(|argument| argument.windows(text.len()).any(|part| part == text))
    }
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) by_command: BTreeMap<String, u64>,
    pub(super) recent: VecDeque<Arc<Request>>,
}

impl Journal {
    pub(super) fn note(&mut self, connection: u64, words: Vec<Vec<u8>>) -> Arc<Request> {
        let mut words = words.into_iter();
        let command = words
            .next()
            .map(|name| String::from_utf8_lossy(&name).to_ascii_uppercase())
            .unwrap_or_default();
        self.requests += 1;
        *self.by_command.entry(command.clone()).or_default() += 1;
        let request = Arc::new(Request {
            connection,
            number: self.requests,
            command,
            arguments: words.collect(),
            at: Instant::now(),
        });
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(&request));
        request
    }
}
