//! The connection that listens: it carries subscriptions alone, and brings them in line with what is wanted.
//!
//! A task on the keeper's runtime compares the channels in use with those that the server has confirmed, and sends what
//! is missing in one go. Messages reach their channel straight from the driver's task; whether a channel is live is
//! decided by the listening task alone.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};

use super::backoff::Backoff;
use super::node::Node;
use super::session::Session;
use crate::engine::{Channel, SignalChange, SignalTable};

/// The most subscriptions that are changed in one go.
const BATCH: usize = 500;

/// Starts the listening task. It ends with the table, and connects when a channel first comes into use.
pub(super) fn start(node: &Arc<Node>, keeper: &Handle) -> Arc<SignalTable> {
    let (sender, changes) = mpsc::unbounded_channel();
    let table = Arc::new(SignalTable::new(move |change| {
        // Nobody listens any more only when the keeper's runtime has ended: then no channel is ever live.
        drop(sender.send(change));
    }));
    let listener = Listener {
        node: Arc::clone(node),
        table: Arc::downgrade(&table),
        changes,
        wanted: HashMap::new(),
        touched: HashSet::new(),
        refusal_told: false,
    };
    drop(keeper.spawn(listener.run()));
    table
}

struct Listener {
    node: Arc<Node>,
    table: Weak<SignalTable>,
    changes: UnboundedReceiver<SignalChange>,
    /// The channels in use.
    wanted: HashMap<Arc<str>, Arc<Channel>>,
    /// Channels of which the server may not know yet what is wanted.
    touched: HashSet<Arc<str>>,
    refusal_told: bool,
}

/// The table is gone: nobody can subscribe any more.
struct Closed;

/// One change of the server's side.
enum Wish {
    Subscribe(Arc<Channel>),
    Unsubscribe(Arc<str>),
}

impl Listener {
    async fn run(mut self) {
        let mut backoff = Backoff::reconnecting();
        while let Ok(()) = self.until_wanted().await {
            match Line::open(&self.node, self.table.clone()).await {
                Some(line) => {
                    let listened = self.listen(line, &mut backoff).await;
                    for channel in self.wanted.values() {
                        channel.set_live(false);
                    }
                    if listened.is_err() {
                        return;
                    }
                    tracing::debug!(server = %self.node.config.server(), "the signal connection is over");
                }
                None => tracing::debug!(server = %self.node.config.server(), "no signal connection"),
            }
            if self.pause(backoff.next()).await.is_err() {
                return;
            }
        }
    }

    async fn until_wanted(&mut self) -> Result<(), Closed> {
        self.take_changes()?;
        while self.wanted.is_empty() {
            let change = self.changes.recv().await.ok_or(Closed)?;
            self.take(change);
        }
        Ok(())
    }

    async fn pause(&mut self, span: Duration) -> Result<(), Closed> {
        let over = sleep(span);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                change = self.changes.recv() => self.take(change.ok_or(Closed)?),
            }
        }
    }

    fn take_changes(&mut self) -> Result<(), Closed> {
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.take(change),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Closed),
            }
        }
    }

    fn take(&mut self, change: SignalChange) {
        let (SignalChange::First(channel) | SignalChange::Last(channel)) = &change;
        self.touched.insert(Arc::clone(channel.name()));
        match change {
            SignalChange::First(channel) => drop(self.wanted.insert(Arc::clone(channel.name()), channel)),
            SignalChange::Last(channel) => drop(self.wanted.remove(channel.name())),
        }
    }

    /// Keeps one connection's subscriptions in line until it is over.
    async fn listen(&mut self, mut line: Line, backoff: &mut Backoff) -> Result<(), Closed> {
        let period = self.node.config.heartbeat;
        let mut beat = interval_at(Instant::now() + period, period);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.touched = self.wanted.keys().cloned().collect();
        loop {
            self.take_changes()?;
            let wishes = line.wishes(&self.wanted, &mut self.touched);
            if !wishes.is_empty() {
                let Some(refused) = line.grant(&wishes, Instant::now() + period).await else {
                    return Ok(());
                };
                backoff.reset();
                self.tell_refusal(&refused);
                continue;
            }
            let retry = line.next_retry();
            tokio::select! {
                change = self.changes.recv() => self.take(change.ok_or(Closed)?),
                () = line.over.notified() => return Ok(()),
                _ = beat.tick(), if !self.wanted.is_empty() => {
                    if !line.is_alive(Instant::now() + period).await {
                        return Ok(());
                    }
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                    self.touched.extend(line.refused.keys().cloned());
                }
            }
        }
    }

    fn tell_refusal(&mut self, refused: &[String]) {
        if let Some(error) = refused.first()
            && !std::mem::replace(&mut self.refusal_told, true)
        {
            tracing::warn!(
                server = %self.node.config.server(), error = %error,
                "the server refuses a subscription; waiting goes on by looking again and again"
            );
        }
    }
}

/// One connection for signals, with what the server has confirmed on it.
struct Line {
    session: Session,
    subscribed: HashSet<Arc<str>>,
    /// Channels that the server refused, with the time of the next try.
    refused: HashMap<Arc<str>, (Instant, Backoff)>,
    /// Something came from the server since the last heartbeat.
    heard: Arc<AtomicBool>,
    /// How many confirmations of `UNSUBSCRIBE` are to come.
    leaving: Arc<AtomicI64>,
    /// The connection ended, or left a channel unasked, so that replies no longer match requests.
    over: Arc<Notify>,
}

impl Line {
    async fn open(node: &Arc<Node>, table: Weak<SignalTable>) -> Option<Self> {
        let over = Arc::new(Notify::new());
        let heard = Arc::new(AtomicBool::new(false));
        let leaving = Arc::new(AtomicI64::new(0));
        let ear = Ear {
            table,
            heard: Arc::clone(&heard),
            leaving: Arc::clone(&leaving),
            over: Arc::clone(&over),
        };
        let session = Session::open(node, move |push| ear.hear(&push)).await.ok()?;
        Some(Self {
            session,
            subscribed: HashSet::new(),
            refused: HashMap::new(),
            heard,
            leaving,
            over,
        })
    }

    /// What is missing on the server's side for the channels that were touched. One that is in use again before it was
    /// left is live at once.
    fn wishes(&mut self, wanted: &HashMap<Arc<str>, Arc<Channel>>, touched: &mut HashSet<Arc<str>>) -> Vec<Wish> {
        let now = Instant::now();
        let mut wishes = Vec::new();
        touched.retain(|name| {
            if wishes.len() == BATCH {
                return true;
            }
            match (wanted.get(name), self.subscribed.contains(name)) {
                (Some(channel), true) => channel.set_live(true),
                (Some(channel), false) => {
                    if self.refused.get(name).is_none_or(|(retry, _)| *retry <= now) {
                        wishes.push(Wish::Subscribe(Arc::clone(channel)));
                    }
                }
                (None, true) => wishes.push(Wish::Unsubscribe(Arc::clone(name))),
                (None, false) => drop(self.refused.remove(name)),
            }
            false
        });
        wishes
    }

    /// Sends the wishes, one channel a command, and takes in what the server confirms. Tells the refusals, or `None` if
    /// the connection cannot be relied on any more.
    async fn grant(&mut self, wishes: &[Wish], until: Instant) -> Option<Vec<String>> {
        let sharded = self.session.node().config.sharded;
        let (subscribe, unsubscribe) = if sharded {
            ("SSUBSCRIBE", "SUNSUBSCRIBE")
        } else {
            ("SUBSCRIBE", "UNSUBSCRIBE")
        };
        let (subscribed, unsubscribed) = if sharded {
            (PushKind::SSubscribe, PushKind::SUnsubscribe)
        } else {
            (PushKind::Subscribe, PushKind::Unsubscribe)
        };
        let mut commands = redis::pipe();
        let mut leaving = 0;
        for wish in wishes {
            match wish {
                Wish::Subscribe(channel) => commands.cmd(subscribe).arg(&**channel.name()),
                Wish::Unsubscribe(name) => {
                    leaving += 1;
                    commands.cmd(unsubscribe).arg(&**name)
                }
            };
        }
        self.leaving.fetch_add(leaving, Ordering::AcqRel);
        let replies = tokio::select! {
            replies = self.session.request_all(&commands, until) => replies.ok()?,
            () = self.over.notified() => return None,
        };
        self.heard.store(true, Ordering::Release);

        let mut refused = Vec::new();
        for (wish, reply) in wishes.iter().zip(&replies) {
            match (wish, reply) {
                (Wish::Subscribe(channel), Value::ServerError(error)) => {
                    refused.push(format!("{} {}", error.code(), error.details().unwrap_or_default()));
                    let (retry, backoff) = self.refused.entry(Arc::clone(channel.name())).or_insert_with(|| {
                        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
                        (Instant::now(), backoff)
                    });
                    *retry = Instant::now() + backoff.next();
                }
                (Wish::Subscribe(channel), reply) if confirms(reply, &subscribed, channel.name()) => {
                    self.refused.remove(channel.name());
                    self.subscribed.insert(Arc::clone(channel.name()));
                    channel.set_live(true);
                }
                (Wish::Unsubscribe(name), reply) if confirms(reply, &unsubscribed, name) => {
                    self.subscribed.remove(name);
                }
                _ => return None,
            }
        }
        Some(refused)
    }

    fn next_retry(&self) -> Option<Instant> {
        self.refused.values().map(|(retry, _)| *retry).min()
    }

    /// Whether the server was heard lately, or answers now.
    async fn is_alive(&mut self, until: Instant) -> bool {
        if self.heard.swap(false, Ordering::AcqRel) {
            return true;
        }
        let ping = redis::cmd("PING");
        tokio::select! {
            reply = self.session.request(&ping, until) => reply.is_ok(),
            () = self.over.notified() => false,
        }
    }
}

fn confirms(reply: &Value, wanted: &PushKind, name: &str) -> bool {
    match reply {
        Value::Push { kind, data } => kind == wanted && channel_name(data) == Some(name),
        _ => false,
    }
}

fn channel_name(data: &[Value]) -> Option<&str> {
    match data.first()? {
        Value::BulkString(name) => std::str::from_utf8(name).ok(),
        _ => None,
    }
}

/// All messages of Redisson's and ours are numbers.
fn message_of(data: &[Value]) -> Option<i64> {
    match data.get(1)? {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Hears what the server sends unasked. Called in the driver's task: it must not block.
struct Ear {
    table: Weak<SignalTable>,
    heard: Arc<AtomicBool>,
    leaving: Arc<AtomicI64>,
    over: Arc<Notify>,
}

impl Ear {
    fn hear(&self, push: &PushInfo) {
        self.heard.store(true, Ordering::Release);
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                let Some(table) = self.table.upgrade() else { return };
                if let Some(channel) = channel_name(&push.data).and_then(|name| table.get(name)) {
                    channel.message(message_of(&push.data));
                }
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe | PushKind::PUnsubscribe
                if self.leaving.fetch_sub(1, Ordering::AcqRel) > 0 => {}
            PushKind::Unsubscribe | PushKind::SUnsubscribe | PushKind::PUnsubscribe | PushKind::Disconnection => {
                self.over.notify_one();
            }
            _ => {}
        }
    }
}
