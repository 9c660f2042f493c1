//! Typed errors. Each says whether the effect may have happened, and none stands for two things.

mod argument;
mod loss;
mod refusal;
mod tls;

use std::time::Duration;

pub use argument::{CandidateError, LeaseError, NameError, PermitsError, UrlError};
pub use loss::LossReason;
pub use refusal::Refusal;
pub use tls::TlsFault;

/// Why a call did not do what it was asked to.
///
/// *Busy*, *unreachable*, *refused*, *lost* and *not held* are different errors, so that "somebody else has it" is never
/// mistaken for "the server is down". [`effect`](Self::effect) tells whether the call may have taken effect all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds it, and the call was not to wait.
    #[error("\"{name}\" is held by another owner")]
    Busy {
        /// The name, control characters escaped.
        name: String,
        /// When the present hold ends unless it is renewed, as the server last told; `None` if that is not known or
        /// if the key carries no expiry at all.
        time_left: Option<Duration>,
    },

    /// The time to wait ended while somebody else held it, while there were not enough permits, or while a latch was closed.
    #[error("\"{name}\" was not to be had within {waited:?}")]
    TimedOut {
        /// The name, control characters escaped.
        name: String,
        /// How long the call waited.
        waited: Duration,
    },

    /// The limit on attempts of a polling wait was reached while somebody else held it.
    #[error("\"{name}\" was still held by another owner after {attempts} attempts")]
    AttemptsUsedUp {
        /// The name, control characters escaped.
        name: String,
        /// How many attempts were made.
        attempts: u32,
    },

    /// No answer came from the server in time. This says nothing about who holds the lock.
    #[error("the server could not be reached while {doing}: {detail}")]
    Unreachable {
        /// What was being done.
        doing: &'static str,
        /// What went wrong, without credentials.
        detail: String,
        /// Whether the request may have run. What may have been granted is given back in the background.
        effect: Effect,
    },

    /// The server is not trusted, or does not trust this side. Nothing was sent.
    #[error("no TLS connection ({fault}): {detail}")]
    Tls {
        /// What is the matter.
        fault: TlsFault,
        /// The details, and what can be done about it.
        detail: String,
    },

    /// The server answered with an error.
    #[error("the server refused ({refusal}): {detail}")]
    Refused {
        /// The class of the refusal.
        refusal: Refusal,
        /// The server's text, without credentials.
        detail: String,
        /// Whether the request may have taken effect.
        effect: Effect,
    },

    /// The key holds something that is not this kind of object. Nothing was changed.
    #[error("\"{name}\" is a {found} on the server, not a {wanted}; choose another name or remove that key")]
    WrongKind {
        /// The name, control characters escaped.
        name: String,
        /// What was asked for.
        wanted: &'static str,
        /// What is there.
        found: String,
    },

    /// The hold has ended without being given up: whatever it protected may be in other hands.
    #[error("the hold was lost: {0}")]
    Lost(LossReason),

    /// There was nothing to release: the server holds no record of this guard's hold.
    #[error("the lock was not held any more")]
    NotHeld,

    /// The release was sent but not confirmed. It is repeated in the background until it is confirmed or the lease ends.
    #[error("the outcome of the release is not known: {detail}")]
    OutcomeUnknown {
        /// What went wrong.
        detail: String,
    },

    /// The name cannot be used.
    #[error("bad name: {0}")]
    Name(#[from] NameError),

    /// The candidate's text of an election cannot be used.
    #[error("bad candidate: {0}")]
    Candidate(#[from] CandidateError),

    /// The lease cannot be used.
    #[error("bad lease: {0}")]
    Lease(#[from] LeaseError),

    /// The number of permits cannot be used.
    #[error("bad number of permits: {0}")]
    Permits(#[from] PermitsError),

    /// The URL or another part of the configuration cannot be used.
    #[error("bad configuration: {0}")]
    Url(#[from] UrlError),

    /// Only the plain mutex has a layout beside Redisson's. Nothing was sent.
    #[error("a {kind} has Redisson's layout and no other; leave the layout as it is, or use a plain mutex")]
    NoSuchLayout {
        /// What was asked for.
        kind: &'static str,
    },

    /// Other readers hold the lock, so that this one cannot become its writer. The read hold stays as it was.
    #[error(
        "\"{name}\" has other readers; give the read hold up before asking for the write lock, and look again at what was read"
    )]
    OtherReaders {
        /// The name, control characters escaped.
        name: String,
    },

    /// Other guards share this hold, by re-entry, so that it cannot become another one.
    #[error("other guards share this hold of \"{name}\"; give them up first")]
    SharedHold {
        /// The name, control characters escaped.
        name: String,
    },

    /// Whoever reads asked for the write lock, and would have waited for itself for ever. Nothing was sent.
    #[error(
        "the caller reads \"{name}\" itself and would wait for itself; make the read guard a write guard by try_upgrade, or give it up first"
    )]
    WouldWaitForItself {
        /// The name, control characters escaped.
        name: String,
    },

    /// An inner lock call asked for a lease that the outer hold cannot satisfy.
    #[error(
        "the inner lease of {inner:?} is longer than what the outer hold has left ({outer:?}); ask for less, or extend the outer hold first"
    )]
    InnerLease {
        /// What the inner call asked for.
        inner: Duration,
        /// What the outer hold can give.
        outer: Duration,
    },

    /// Every retry of an optimistic update met a change by somebody else. Nothing was written.
    #[error("the keys changed under every one of {attempts} attempts")]
    Conflict {
        /// How many attempts were made.
        attempts: u32,
    },

    /// A blocking call was made on a thread that drives async tasks; it would have stopped them all.
    #[error("a blocking call inside async code: await the async form, or move the call into tokio's spawn_blocking")]
    BlockingInAsync,

    /// The keeper was closed.
    #[error("the keeper is closed")]
    Closed,
}

/// Whether a failed call may have taken effect on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It did not happen.
    None,
    /// It may have happened. Lockkeeper undoes what it can in the background.
    Possible,
}

impl Error {
    /// Whether the effect may have happened.
    ///
    /// ```
    /// use lockkeeper::{Effect, Error};
    /// assert_eq!(Error::NotHeld.effect(), Effect::None);
    /// ```
    #[must_use]
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Unreachable { effect, .. } | Self::Refused { effect, .. } => *effect,
            Self::OutcomeUnknown { .. } => Effect::Possible,
            _ => Effect::None,
        }
    }

    /// Whether it only says that somebody else was there first.
    #[must_use]
    pub const fn is_contention(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::TimedOut { .. }
                | Self::AttemptsUsedUp { .. }
                | Self::OtherReaders { .. }
                | Self::Conflict { .. }
        )
    }

    /// Whether the server, or the way to it, is the trouble.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether the same call may succeed later without anybody changing the program or the deployment.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.is_transient(),
            _ => self.is_contention() || self.is_unreachable(),
        }
    }
}
