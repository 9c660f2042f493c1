/// Why a hold ended without being given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed: the lease ended, or no renewal was confirmed in time.
    #[error("its deadline passed")]
    DeadlinePassed,
    /// The server no longer knows the hold: it expired, was freed by force, or the server lost its data.
    #[error("the server no longer knows it")]
    GoneOnServer,
    /// The longest total time that was allowed for the hold is over.
    #[error("its longest total time is over")]
    LongestHoldReached,
    /// This process was forked from the one that holds it.
    #[error("it belongs to the parent process")]
    Forked,
    /// The keeper was closed.
    #[error("the keeper was closed")]
    KeeperClosed,
}

impl LossReason {
    /// A short word for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadlinePassed => "deadline",
            Self::GoneOnServer => "gone",
            Self::LongestHoldReached => "longest_hold",
            Self::Forked => "forked",
            Self::KeeperClosed => "closed",
        }
    }
}
