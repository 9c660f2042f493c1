use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// One signal channel as seen by this process: a count of signals that only rises.
///
/// Read [`count`](Self::count) before an attempt is sent, and wait only while it is unchanged: a signal that overtakes
/// the busy reply on another connection is then never missed.
#[derive(Debug)]
pub(crate) struct Channel {
    name: Arc<str>,
    count: AtomicU64,
    last: AtomicI64,
    messages: AtomicU64,
    live: AtomicBool,
    changed: Notify,
}

/// Stands for "none" among the messages.
const NO_NUMBER: i64 = i64::MIN;

impl Channel {
    fn new(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            count: AtomicU64::new(0),
            last: AtomicI64::new(NO_NUMBER),
            messages: AtomicU64::new(0),
            live: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether the subscription is confirmed and its connection was heard from lately: only then may a waiter rely on it.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Marks the subscription as confirmed or doubtful. Either way whoever waits looks again.
    pub(crate) fn set_live(&self, live: bool) {
        if self.live.swap(live, Ordering::AcqRel) != live {
            self.signal();
        }
    }

    /// The number that the last message brought, if one came and it was a number.
    pub(crate) fn last_message(&self) -> Option<i64> {
        Some(self.last.load(Ordering::Acquire)).filter(|message| *message != NO_NUMBER)
    }

    /// How many messages came. Not every signal is one.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Acquire)
    }

    /// A message came.
    pub(crate) fn message(&self, message: Option<i64>) {
        self.last.store(message.unwrap_or(NO_NUMBER), Ordering::Release);
        self.messages.fetch_add(1, Ordering::AcqRel);
        self.signal();
    }

    /// Something happened after which one must look again.
    pub(crate) fn signal(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Ends when the count differs from `seen`.
    pub(crate) async fn changed(&self, seen: u64) {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.count() != seen {
                return;
            }
            notified.await;
        }
    }

    /// Ends when the subscription is live.
    pub(crate) async fn becomes_live(&self) {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.is_live() {
                return;
            }
            notified.await;
        }
    }
}

/// The channels in use, counted by their subscriptions. Shared by the engines; `on_first` and `on_last` tell the engine
/// when to subscribe and when to unsubscribe.
pub(crate) struct SignalTable {
    channels: Mutex<HashMap<Arc<str>, InUse>>,
    listener: Box<dyn Fn(SignalChange) + Send + Sync>,
}

/// A channel with the number of its subscriptions.
type InUse = (Arc<Channel>, usize);

/// A channel came into use or went out of use. Reported under the table's lock, in order.
#[derive(Debug)]
pub(crate) enum SignalChange {
    First(Arc<Channel>),
    Last(Arc<Channel>),
}

impl SignalTable {
    pub(crate) fn new(listener: impl Fn(SignalChange) + Send + Sync + 'static) -> Self {
        Self {
            channels: Mutex::default(),
            listener: Box::new(listener),
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, name: &Arc<str>) -> Subscription {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let (channel, users) = channels
            .entry(Arc::clone(name))
            .or_insert_with(|| (Arc::new(Channel::new(name)), 0));
        *users += 1;
        let channel = Arc::clone(channel);
        if *users == 1 {
            (self.listener)(SignalChange::First(Arc::clone(&channel)));
        }
        Subscription {
            channel,
            table: Arc::clone(self),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel>> {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(name).map(|(channel, _)| Arc::clone(channel))
    }

    /// How many subscriptions would hear a message.
    pub(crate) fn listeners(&self, name: &str) -> u64 {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(name).map_or(0, |(_, users)| *users as u64)
    }

    /// Sends a message, and tells how many subscriptions heard it: what `PUBLISH` answers.
    pub(crate) fn publish(&self, name: &str, message: i64) -> u64 {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((channel, users)) = channels.get(name).cloned() else {
            return 0;
        };
        // Waking may drop a task of an ended runtime, and with it a subscription: not under the lock.
        drop(channels);
        channel.message(Some(message));
        users as u64
    }

    fn unsubscribe(&self, name: &Arc<str>) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, users)) = channels.get_mut(name) {
            *users -= 1;
            if *users == 0
                && let Some((channel, _)) = channels.remove(name)
            {
                (self.listener)(SignalChange::Last(channel));
            }
        }
    }
}

impl fmt::Debug for SignalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalTable").finish_non_exhaustive()
    }
}

/// One use of a channel; dropping the last one unsubscribes.
#[derive(Debug)]
pub(crate) struct Subscription {
    channel: Arc<Channel>,
    table: Arc<SignalTable>,
}

impl Subscription {
    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.table.unsubscribe(self.channel.name());
    }
}
