//! Which reply belongs to which request.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::journal::Request;
use crate::resp;

/// What one value from the server is.
#[derive(Debug, PartialEq)]
pub(super) enum Origin {
    /// A reply, or one of the confirmations of a subscription request.
    Reply(Arc<Request>),
    /// A reply to the second copy of a request: the client must not see it.
    Copy,
    /// A message that nobody asked for just now.
    Message,
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

#[derive(Debug)]
struct Expected {
    request: Arc<Request>,
    copy: bool,
    /// For subscription requests: the confirmations still to come.
    confirmations: Option<usize>,
}

/// The open requests of one connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: VecDeque<Expected>,
    channels: HashSet<(String, Vec<u8>)>,
    newer_protocol: bool,
}

/// The family of a subscription command (`P` for patterns, `S` for sharded) and whether it adds or takes away.
fn subscription(command: &str) -> Option<(&'static str, bool)> {
    match command {
        "SUBSCRIBE" => Some(("", true)),
        "UNSUBSCRIBE" => Some(("", false)),
        "PSUBSCRIBE" => Some(("P", true)),
        "PUNSUBSCRIBE" => Some(("P", false)),
        "SSUBSCRIBE" => Some(("S", true)),
        "SUNSUBSCRIBE" => Some(("S", false)),
        _ => None,
    }
}

pub(super) fn subscribes(command: &str) -> bool {
    subscription(command).is_some_and(|(_, adds)| adds)
}

impl Ledger {
    /// Notes a request before it is sent on.
    pub(super) fn expect(&mut self, request: &Arc<Request>, copy: bool) {
        let confirmations = subscription(&request.command).map(|kind| self.confirmations(kind, request));
        self.open.push_back(Expected {
            request: Arc::clone(request),
            copy,
            confirmations,
        });
    }

    /// One per channel named; without names one per channel subscribed to, and one if there is none.
    fn confirmations(&mut self, (family, adds): (&'static str, bool), request: &Request) -> usize {
        if request.arguments.is_empty() {
            let before = self.channels.len();
            self.channels.retain(|(of, _)| of != family);
            return (before - self.channels.len()).max(1);
        }
        for channel in &request.arguments {
            let entry = (family.to_owned(), channel.clone());
            if adds {
                self.channels.insert(entry);
            } else {
                self.channels.remove(&entry);
            }
        }
        request.arguments.len()
    }

    /// Says what the next value from the server is.
    pub(super) fn origin(&mut self, value: &[u8]) -> Origin {
        let kind = value.first().copied().unwrap_or_default();
        // These kinds do not exist in the older protocol, where messages look like replies.
        self.newer_protocol |= matches!(kind, b'>' | b'%' | b'~' | b'_' | b'#' | b',' | b'|');
        if kind == b'>' || (kind == b'*' && !self.newer_protocol) {
            let word = resp::elements(value)
                .first()
                .map(|element| String::from_utf8_lossy(resp::text(element)).to_ascii_uppercase())
                .unwrap_or_default();
            if let Some(first) = self.open.front_mut()
                && let Some(left) = first.confirmations.as_mut()
                && first.request.command == word
            {
                *left -= 1;
                return if *left == 0 {
                    self.close_first()
                } else {
                    origin_of(first)
                };
            }
            if kind == b'>' || matches!(word.as_str(), "MESSAGE" | "PMESSAGE" | "SMESSAGE") && self.is_subscribed() {
                return Origin::Message;
            }
        }
        self.close_first()
    }

    fn is_subscribed(&self) -> bool {
        !self.channels.is_empty() || self.open.iter().any(|expected| expected.confirmations.is_some())
    }

    fn close_first(&mut self) -> Origin {
        self.open
            .pop_front()
            .map_or(Origin::Message, |expected| origin_of(&expected))
    }
}

fn origin_of(expected: &Expected) -> Origin {
    if expected.copy {
        Origin::Copy
    } else {
        Origin::Reply(Arc::clone(&expected.request))
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::*;

    fn sent(ledger: &mut Ledger, journal: &mut Journal, line: &str) -> Arc<Request> {
        let request = journal.note(1, resp::arguments(line.as_bytes()));
        ledger.expect(&request, false);
        request
    }

    #[test]
    fn replies_belong_to_requests_in_order_and_pushes_to_none() {
        let (mut ledger, mut journal) = (Ledger::default(), Journal::default());
        let get = sent(&mut ledger, &mut journal, "GET a\r\n");
        let set = sent(&mut ledger, &mut journal, "SET a b\r\n");
        assert_eq!(ledger.origin(b"$1\r\nx\r\n"), Origin::Reply(get));
        assert_eq!(
            ledger.origin(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
            Origin::Message
        );
        assert_eq!(ledger.origin(b"+OK\r\n"), Origin::Reply(set));
    }

    #[test]
    fn a_subscription_is_answered_once_per_channel_in_both_protocols() {
        for kind in ['*', '>'] {
            let (mut ledger, mut journal) = (Ledger::default(), Journal::default());
            let subscribe = sent(&mut ledger, &mut journal, "SUBSCRIBE a b\r\n");
            let ping = sent(&mut ledger, &mut journal, "PING\r\n");
            let confirmation = format!("{kind}3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
            assert_eq!(
                ledger.origin(confirmation.as_bytes()),
                Origin::Reply(Arc::clone(&subscribe))
            );
            let message = format!("{kind}3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n");
            assert_eq!(ledger.origin(message.as_bytes()), Origin::Message);
            assert_eq!(ledger.origin(confirmation.as_bytes()), Origin::Reply(subscribe));
            assert_eq!(ledger.origin(b"+PONG\r\n"), Origin::Reply(ping));
            let unsubscribe = sent(&mut ledger, &mut journal, "UNSUBSCRIBE\r\n");
            let confirmation = format!("{kind}3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n");
            for _ in 0..2 {
                assert_eq!(
                    ledger.origin(confirmation.as_bytes()),
                    Origin::Reply(Arc::clone(&unsubscribe))
                );
            }
            assert!(ledger.open.is_empty());
        }
    }

    #[test]
    fn a_refused_subscription_is_answered_by_its_error() {
        let (mut ledger, mut journal) = (Ledger::default(), Journal::default());
        let subscribe = sent(&mut ledger, &mut journal, "SSUBSCRIBE a b\r\n");
        assert_eq!(ledger.origin(b"-NOPERM no\r\n"), Origin::Reply(subscribe));
        assert!(ledger.open.is_empty());
    }

    #[test]
    fn the_reply_to_a_copy_is_marked() {
        let (mut ledger, mut journal) = (Ledger::default(), Journal::default());
        let increment = sent(&mut ledger, &mut journal, "INCR a\r\n");
        ledger.expect(&increment, true);
        assert_eq!(ledger.origin(b":1\r\n"), Origin::Reply(increment));
        assert_eq!(ledger.origin(b":2\r\n"), Origin::Copy);
    }
}
