use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Copies, StepError};
use crate::base::name::Name;
use crate::base::owner::Owner;

/// How a lock is laid out on the server, and so with whom it is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Redisson's hash: Java services with Redisson and Rust services exclude and wake each other.
    #[default]
    Redisson,
    /// One string, as `SET name value NX PX ms` makes it: shared with redis-py's `Lock`, redsync, bsm/redislock,
    /// node-redlock and hand-written locks. Peers send no signal, so waiting also polls.
    Plain,
}

/// The mode of a hash that is an election, and the word for it. A mutex finds a mode and is refused, as by a read-write
/// lock's; Redisson's locks find it taken.
pub(crate) const ELECTION: &str = "election";

/// The field with an election's term.
pub(crate) const TERM: &str = "term";

/// What an object is: which steps it has, and what its keys look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Mutex(Layout),
    /// Redisson's hash without any message: waiters poll.
    Spin,
    /// Redisson's hash, with the tokens on Redisson's own key.
    Fenced,
    /// Redisson's hash, and a line of those who wait.
    Fair,
    /// Reading under a read-write lock: Redisson's hash of a mode and its holders, and a key beside it for each read hold.
    Read,
    /// Writing under the same.
    Write,
    /// A mutex for a run that is made once in a period: at its end the key may rest, held by nobody.
    Periodic(Layout),
    /// A hash of our own: the leader with its candidate's text, and its term. Its channel tells beginnings and ends of terms.
    Election,
    /// Redisson's count-down latch: a number that is there only while it is above zero.
    Latch,
    /// Redisson's expirable semaphore: a number of permits, and beside it the ids of those that are held, each with its end.
    Permits,
    /// Redisson's plain semaphore: a number of permits and nothing else.
    Counter,
}

impl Kind {
    /// The word for it in errors.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::Spin => "spin mutex",
            Self::Fenced => "fenced mutex",
            Self::Fair => "fair mutex",
            Self::Read | Self::Write => "read-write lock",
            Self::Periodic(_) => "mutex",
            Self::Election => ELECTION,
            Self::Latch => "latch",
            Self::Permits => "semaphore",
            Self::Counter => "counting semaphore",
        }
    }

    /// Whether peers may free it without a signal that we could hear, so that waiting also polls.
    pub(crate) const fn is_silent(self) -> bool {
        matches!(self.layout(), Layout::Plain)
    }

    /// How its key is laid out: every kind but the plain mutex has what Redisson has, or what is only ours.
    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::Mutex(layout) | Self::Periodic(layout) => layout,
            _ => Layout::Redisson,
        }
    }

    /// Whether callers of one process share a queue, in which one hold may serve several of them; else each has a hold of
    /// its own.
    pub(crate) const fn is_queued(self) -> bool {
        matches!(self, Self::Mutex(_) | Self::Spin | Self::Fenced)
    }

    /// Whether callers of one process that cannot have it at once stand in one line, of which only the head asks.
    pub(crate) const fn is_lined_up(self) -> bool {
        match self {
            Self::Mutex(_)
            | Self::Spin
            | Self::Fenced
            | Self::Periodic(_)
            | Self::Write
            | Self::Permits
            | Self::Counter
            | Self::Election => true,
            Self::Fair | Self::Read | Self::Latch => false,
        }
    }

    /// Whether a waiter has a place on the server, which is to be given up when it goes away.
    pub(crate) const fn keeps_places(self) -> bool {
        match self {
            Self::Fair | Self::Write => true,
            Self::Mutex(_)
            | Self::Spin
            | Self::Fenced
            | Self::Periodic(_)
            | Self::Read
            | Self::Election
            | Self::Latch
            | Self::Permits
            | Self::Counter => false,
        }
    }

    /// Whether a hold may pass from one local caller to the next without asking.
    pub(crate) const fn hands_over(self) -> bool {
        matches!(self, Self::Mutex(_))
    }
}

impl From<Layout> for Kind {
    fn from(layout: Layout) -> Self {
        Self::Mutex(layout)
    }
}

/// Where one object lives: its name with the keys and the channel that follow from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// The signal channel.
    pub(crate) channel: Arc<str>,
    /// Our own record of the last token and of the block that the present owner was given.
    pub(crate) token_key: String,
    /// Redisson's token key: a floor, raised where it exists. Only the fenced mutex makes it.
    pub(crate) peer_token_key: String,
}

impl Target {
    pub(crate) fn new(kind: impl Into<Kind>, name: Name) -> Self {
        let kind = kind.into();
        let channel = match kind {
            Kind::Mutex(Layout::Redisson)
            | Kind::Spin
            | Kind::Fenced
            | Kind::Fair
            | Kind::Periodic(Layout::Redisson) => name.prefixed("redisson_lock__channel"),
            Kind::Mutex(Layout::Plain) | Kind::Periodic(Layout::Plain) => name.prefixed("lockkeeper_channel"),
            Kind::Read | Kind::Write => name.prefixed("redisson_rwlock"),
            Kind::Permits | Kind::Counter => name.prefixed("redisson_sc"),
            Kind::Election => name.prefixed("lockkeeper_election"),
            // Redisson adds braces whatever the name has.
            Kind::Latch => format!("redisson_countdownlatch__channel__{{{}}}", name.as_str()),
        };
        Self {
            kind,
            channel: channel.into(),
            token_key: name.prefixed("lockkeeper_token"),
            peer_token_key: name.prefixed("redisson_lock_token"),
            name,
        }
    }

    /// Where the answer to one operation is kept for a while, so that a repeat gets the same.
    pub(crate) fn answer_key(&self, mark: &Owner) -> String {
        format!("{}:{}", self.name.prefixed("lockkeeper_answer"), mark.as_str())
    }

    /// The ids of the permits that are held, as 16 bytes each, with their ends in milliseconds of the server's time.
    pub(crate) fn permits_key(&self) -> String {
        self.name.suffixed("timeout")
    }

    /// Which of the two semaphores we made, since their numbers look alike.
    pub(crate) fn semaphore_record_key(&self) -> String {
        self.name.prefixed("lockkeeper_semaphore")
    }

    /// What we know of a latch beside its count: how it last ended, and when.
    pub(crate) fn latch_record_key(&self) -> String {
        self.name.prefixed("lockkeeper_latch")
    }

    /// The channel on which this owner waits.
    pub(crate) fn channel_of(&self, owner: &Owner) -> Arc<str> {
        match self.kind {
            Kind::Fair => self.channel_of_text(owner.as_str()),
            _ => Arc::clone(&self.channel),
        }
    }

    /// The channel of one waiter in the line of a fair mutex.
    pub(crate) fn channel_of_text(&self, waiter: &str) -> Arc<str> {
        format!("{}:{waiter}", self.channel).into()
    }

    /// The line of a fair mutex, head first.
    pub(crate) fn queue_key(&self) -> String {
        self.name.prefixed("redisson_lock_queue")
    }

    /// When each waiter of a fair mutex counts as dead, in milliseconds of the server's time.
    pub(crate) fn timeout_key(&self) -> String {
        self.name.prefixed("redisson_lock_timeout")
    }

    /// The key of an owner's first read hold; ours have no other.
    pub(crate) fn hold_key(&self, owner: &Owner) -> String {
        self.name.suffixed(&format!("{}:rwlock_timeout:1", owner.as_str()))
    }

    /// What the keys of all read holds of a read-write lock begin with, before the owner.
    pub(crate) fn hold_key_base(&self) -> String {
        self.name.suffixed("")
    }

    /// Which writers wait, each with the moment until which its notice stands, in milliseconds of the server's time.
    pub(crate) fn writers_key(&self) -> String {
        self.name.prefixed("lockkeeper_writer")
    }

    /// There while it is the turn of readers who have waited for long.
    pub(crate) fn readers_key(&self) -> String {
        self.name.prefixed("lockkeeper_reader")
    }
}

/// One atomic step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Take the object, or tell how long the present hold has left.
    Acquire(Acquire),
    /// Take one side of a read-write lock in the place of the hold that `from` has on the other. The same again gets the same
    /// answer.
    Convert { acquire: Acquire, from: Owner },
    /// Lengthen holds; the replies are in the order of the entries.
    Renew(Vec<Renew>),
    /// Free the object if this owner holds it, and take it out of any line in which it waits.
    Release { target: Arc<Target>, owner: Owner },
    /// End this owner's hold, but keep the name taken, by nobody, until its rest is over.
    Rest {
        target: Arc<Target>,
        owner: Owner,
        rest: Rest,
    },
    /// Free the object whoever holds it.
    ForceRelease { target: Arc<Target> },
    /// Something else that this kind of object can do.
    Operate(Operation),
    /// Tell what is known of the name, of whatever kind it is.
    Inspect { name: Name },
}

impl Step {
    /// The name that it is about; none if it may be about several.
    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Self::Acquire(step) | Self::Convert { acquire: step, .. } => Some(&step.target.name),
            Self::Release { target, .. } | Self::Rest { target, .. } | Self::ForceRelease { target } => {
                Some(&target.name)
            }
            Self::Operate(step) => Some(&step.target.name),
            Self::Inspect { name } => Some(name),
            Self::Renew(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: Owner,
    /// The key's life in milliseconds.
    pub(crate) lease: u64,
    /// How many tokens to set aside for local hand-over, at least 1.
    pub(crate) block: u32,
    /// How many permits a plain semaphore is to give. Leased ones are counted by the ids in the owner text.
    pub(crate) permits: u32,
    /// Whether the caller goes on waiting if it is refused, and since when: some kinds keep a place for it.
    pub(crate) waiting: Option<Waiting>,
    /// What an election tells others of its leader.
    pub(crate) candidate: Option<Arc<str>>,
    pub(crate) copies: Arc<Copies>,
}

/// What some kinds want to know of a caller that goes on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// How long it has waited, in milliseconds.
    pub(crate) waited: u64,
    /// How long a place in line is kept for a caller that is not heard of, in milliseconds.
    pub(crate) grace: u64,
}

/// Until when a name stays taken after its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// In milliseconds of the server's time.
    pub(crate) until: u64,
    /// No longer than this from the end of the hold, in milliseconds: more than that is a clock that stepped back.
    pub(crate) longest: u64,
}

/// The mark of a name that rests, before the text of its last owner: no step of that owner finds itself there any more,
/// but for a repeat of the one that laid it to rest.
const RESTING: &str = "lockkeeper_resting:";

/// The text in the place of an owner's while its name rests.
pub(crate) fn resting_mark(owner: &Owner) -> String {
    format!("{RESTING}{}", owner.as_str())
}

/// Whether the text of a holder is that of a name at rest.
pub(crate) fn is_resting_mark(text: &str) -> bool {
    text.starts_with(RESTING)
}

#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: Owner,
    /// The life wanted from now on, in milliseconds; a longer remaining life is kept.
    pub(crate) lease: u64,
    /// The longest lease that this hold ever asked for: a longer remaining life is a clock step, and is cut to this.
    pub(crate) longest: u64,
    /// Whether the token record's life is to be refreshed too.
    pub(crate) refresh_token: bool,
    pub(crate) copies: Arc<Copies>,
}

/// What an object does beside being held. An operation that changes something carries a mark, under which its answer is
/// kept: the same mark again changes nothing and gets the same answer.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) target: Arc<Target>,
    pub(crate) action: Action,
    pub(crate) mark: Owner,
    pub(crate) copies: Arc<Copies>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Set the count of a latch that has none; answers 1 if that was done, else 0.
    SetCount(u64),
    /// Count a latch down; answers the count that is left.
    CountDown,
    /// Tell the count of a latch.
    Count,
    /// The same for who waits, and knows that it was closed at a server time of `since` microseconds (0 if it knows nothing):
    /// answers the count, or [`LATCH_OPENED`] and the like if it has ended since then.
    AwaitLatch { since: u64 },
    /// Remove a latch whatever its count; answers 1 if there was one, else 0.
    RemoveLatch,
    /// Set the permits of a semaphore that has none, for so many milliseconds or for ever; answers 1 if that was done, else 0.
    TrySetPermits { permits: u64, life: Option<u64> },
    /// Set the permits of a leased semaphore, those that are held counted in.
    SetPermits(u64),
    /// Add so many permits, or take so many away; answers 0 if the semaphore had to be there for that and is not, else 1.
    AddPermits { permits: i64, if_there: bool },
    /// Take away all permits that are available; answers how many.
    DrainPermits,
    /// Tell how many permits are available, and how many are held.
    CountPermits,
    /// Remove a semaphore with all that is held of it; answers 1 if there was one, else 0.
    RemovePermits,
}

impl Action {
    /// Whether it changes something, so that its answer is kept for a repeat.
    pub(crate) const fn is_change(self) -> bool {
        !matches!(self, Self::Count | Self::AwaitLatch { .. } | Self::CountPermits)
    }
}

/// What who waits for a latch is told beside its count: it was opened.
pub(crate) const LATCH_OPENED: i64 = 0;

/// It was removed.
pub(crate) const LATCH_REMOVED: i64 = -1;

/// It is gone, and no step of ours ended it.
pub(crate) const LATCH_GONE: i64 = -2;

/// How long it is remembered that we made a latch, in milliseconds, from when its count was set.
pub(crate) const LATCH_RECORD_LIFE: u64 = 24 * 60 * 60 * 1000;

/// How long it is remembered how a latch ended, in milliseconds: longer than a waiter goes without looking.
pub(crate) const LATCH_END_LIFE: u64 = 10 * 60 * 1000;

/// How long it is remembered which semaphore a name is, in milliseconds, from when its permits were last set or added.
pub(crate) const SEMAPHORE_RECORD_LIFE: u64 = 24 * 60 * 60 * 1000;

/// The end of a permit that never ends, as Java writes it.
pub(crate) const NEVER: i64 = 922_337_203_685_477;

/// How long the answer to an operation is kept, in milliseconds: longer than any copy of it may come late.
pub(crate) const ANSWER_LIFE: u64 = 60_000;

/// The reply to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Acquired(Acquired),
    /// One result an entry: a failed part of a batch says nothing of the others.
    Renewed(Vec<Result<Renewed, StepError>>),
    Released(Released),
    /// Whether there was something to free.
    ForceReleased(bool),
    Operated(Outcome),
    Inspected(Inspection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Granted; the same owner asking again gets the same tokens.
    Granted { first_token: u64, block: u32 },
    /// Held by somebody else.
    Busy(Busy),
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Number(i64),
    Permits { available: i64, acquired: i64 },
}

impl Outcome {
    /// The number that most actions answer with.
    pub(crate) const fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Permits { available, .. } => *available,
        }
    }
}

/// What a refused caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    /// The present hold has so many more milliseconds; `None` if the key has no expiry.
    pub(crate) time_left: Option<u64>,
    /// Whoever goes on waiting must look again after so many milliseconds, whatever it hears; `None` where the time left
    /// says enough.
    pub(crate) look_again: Option<u64>,
}

impl Busy {
    pub(crate) const fn until(time_left: Option<u64>) -> Self {
        Self {
            time_left,
            look_again: None,
        }
    }
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
    /// It rests, for so many more milliseconds; nobody was told.
    Resting { time_left: Option<u64> },
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
    /// How many milliseconds the name still rests, if nobody holds it and it does.
    pub(crate) resting: Option<u64>,
    /// The candidate's text of an election's leader.
    pub(crate) candidate: Option<String>,
    /// Who waits in a line on the server, head first.
    pub(crate) waiting: Vec<InLine>,
    /// Numbers that belong to its kind, each with a word for it.
    pub(crate) counts: BTreeMap<&'static str, i64>,
    /// The last token granted, if any is on record.
    pub(crate) token: Option<u64>,
}

impl Inspection {
    /// What is known of an election with a leader. Its token is the present term.
    pub(crate) fn of_election(owner: &str, candidate: &str, term: u64, time_left: Option<u64>) -> Self {
        Self {
            kind: ELECTION.to_owned(),
            holders: vec![Holder {
                owner: owner.to_owned(),
                holds: 1,
                writes: false,
                time_left,
            }],
            candidate: Some(candidate.to_owned()),
            token: Some(term),
            ..Self::default()
        }
    }
}

/// One waiter in a line on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InLine {
    pub(crate) owner: String,
    /// Milliseconds until it counts as dead unless it is heard of; `None` if that is not on record.
    pub(crate) time_left: Option<u64>,
}

/// One holder of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The owner text as stored. It is a bearer secret.
    pub(crate) owner: String,
    pub(crate) holds: u64,
    /// Milliseconds until the hold ends unless it is renewed; `None` if the key has no expiry.
    pub(crate) time_left: Option<u64>,
    /// Whether it is the writer of a read-write lock.
    pub(crate) writes: bool,
}
