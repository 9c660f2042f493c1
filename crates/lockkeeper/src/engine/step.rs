use std::sync::Arc;

use super::{Copies, StepError};
use crate::base::name::Name;
use crate::base::owner::Owner;

/// How a lock is laid out on the server, and so with whom it is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Redisson's hash: Java services with Redisson and Rust services exclude and wake each other.
    #[default]
    Redisson,
    /// One string, as `SET name value NX PX ms` makes it: shared with redis-py's `Lock`, redsync, bsm/redislock,
    /// node-redlock and hand-written locks. Peers send no signal, so waiting also polls.
    Plain,
}

/// Where one mutex lives: its name with the keys and the channel that follow from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MutexTarget {
    pub(crate) layout: Layout,
    pub(crate) name: Name,
    /// The signal channel.
    pub(crate) channel: Arc<str>,
    /// Our own record of the last token and of the block that the present owner was given.
    pub(crate) token_key: String,
    /// Redisson's token key: a floor, raised where it exists, never made.
    pub(crate) peer_token_key: String,
}

impl MutexTarget {
    pub(crate) fn new(layout: Layout, name: Name) -> Self {
        let channel = match layout {
            Layout::Redisson => name.prefixed("redisson_lock__channel"),
            Layout::Plain => name.prefixed("lockkeeper_channel"),
        };
        Self {
            layout,
            channel: channel.into(),
            token_key: name.prefixed("lockkeeper_token"),
            peer_token_key: name.prefixed("redisson_lock_token"),
            name,
        }
    }
}

/// One atomic step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Take the mutex, or tell how long the present hold has left.
    Acquire(Acquire),
    /// Lengthen holds; the replies are in the order of the entries.
    Renew(Vec<Renew>),
    /// Free the mutex if this owner holds it.
    Release { target: Arc<MutexTarget>, owner: Owner },
    /// Free the mutex whoever holds it.
    ForceRelease { target: Arc<MutexTarget> },
    /// Tell what is known of the name, of whatever kind it is.
    Inspect { name: Name },
}

#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) target: Arc<MutexTarget>,
    pub(crate) owner: Owner,
    /// The key's life in milliseconds.
    pub(crate) lease: u64,
    /// How many tokens to set aside for local hand-over, at least 1.
    pub(crate) block: u32,
    pub(crate) copies: Arc<Copies>,
}

#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) target: Arc<MutexTarget>,
    pub(crate) owner: Owner,
    /// The life wanted from now on, in milliseconds; a longer remaining life is kept.
    pub(crate) lease: u64,
    /// The longest lease that this hold ever asked for: a longer remaining life is a clock step, and is cut to this.
    pub(crate) longest: u64,
    /// Whether the token record's life is to be refreshed too.
    pub(crate) refresh_token: bool,
    pub(crate) copies: Arc<Copies>,
}

/// The reply to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Acquired(Acquired),
    /// One result an entry: a failed part of a batch says nothing of the others.
    Renewed(Vec<Result<Renewed, StepError>>),
    Released(Released),
    /// Whether there was something to free.
    ForceReleased(bool),
    Inspected(Inspection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Granted; the same owner asking again gets the same tokens.
    Granted { first_token: u64, block: u32 },
    /// Held by somebody else for so many more milliseconds; `None` if the key has no expiry.
    Busy { time_left: Option<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Still held, for so many more milliseconds.
    Held,
    /// This owner does not hold it.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Freed; so many subscribers heard of it.
    Freed { receivers: u64 },
    /// This owner does not hold it.
    NotThere,
}

/// What the server knows of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// `mutex` for a lock of either layout, else a word for what the key is; empty if there is no key.
    pub(crate) kind: String,
    pub(crate) layout: Option<Layout>,
    pub(crate) holders: Vec<Holder>,
    /// The last token granted, if any is on record.
    pub(crate) token: Option<u64>,
}

/// One holder of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The owner text as stored. It is a bearer secret.
    pub(crate) owner: String,
    pub(crate) holds: u64,
    /// Milliseconds until the hold ends unless it is renewed; `None` if the key has no expiry.
    pub(crate) time_left: Option<u64>,
}
