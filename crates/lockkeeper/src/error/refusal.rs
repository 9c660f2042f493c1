use std::fmt;

/// The class of an error that the server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// User or password missing, wrong, or not allowed to run a command (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Permission,
    /// The server is out of memory and takes no new lock (`OOM`). Renewing and releasing still work.
    OutOfMemory,
    /// It is a replica, or a demoted master (`READONLY`).
    ReadOnly,
    /// It is starting, or runs somebody's long script, or its master is away (`LOADING`, `BUSY`, `MASTERDOWN`,
    /// `CLUSTERDOWN`, `TRYAGAIN`).
    NotReady,
    /// It refuses writes because it cannot persist or replicate them (`MISCONF`, `NOREPLICAS`).
    Durability,
    /// The keys of one call lie in different slots, or on another node (`CROSSSLOT`, `MOVED`, `ASK`).
    Slot,
    /// It has as many clients as it allows.
    TooManyClients,
    /// It is older than Redis 6.2, or lacks a command that is needed.
    TooOld,
    /// The fencing token has reached its end (2^53): somebody wrote a value that is no token.
    TokenExhausted,
    /// A script that an administrator must load is missing (`NOSCRIPT` where loading is not allowed).
    ScriptMissing,
    /// Anything else.
    Other,
}

impl Refusal {
    /// Whether it may pass by itself.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::NotReady | Self::ReadOnly | Self::TooManyClients)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "permission",
            Self::OutOfMemory => "out of memory",
            Self::ReadOnly => "read only",
            Self::NotReady => "not ready",
            Self::Durability => "durability",
            Self::Slot => "slot",
            Self::TooManyClients => "too many clients",
            Self::TooOld => "too old",
            Self::TokenExhausted => "token exhausted",
            Self::ScriptMissing => "script missing",
            Self::Other => "error",
        })
    }
}
