use std::time::Duration;

/// Why a name cannot be used. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// The name has too many bytes.
    #[error("it has {length} bytes, and at most {longest} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        longest: usize,
    },
    /// The name's braces are no proper hash tag.
    #[error(
        "its braces would put it and its helper keys into different slots of a cluster; use none, or one pair around a part, as in {{orders}}:42"
    )]
    Braces,
}

/// Why a candidate's text cannot be used. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateError {
    /// The text has too many bytes.
    #[error("it has {length} bytes, and at most {longest} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        longest: usize,
    },
}

/// Why a lease cannot be used. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease is too short (zero included).
    #[error("{lease:?} is too short, the shortest is {shortest:?}")]
    TooShort {
        /// What was asked for.
        lease: Duration,
        /// The limit.
        shortest: Duration,
    },
    /// The lease is too long.
    #[error("{lease:?} is too long, the longest is {longest:?}")]
    TooLong {
        /// What was asked for.
        lease: Duration,
        /// The limit.
        longest: Duration,
    },
    /// Half the lease or more would be kept back as drift and margin.
    #[error(
        "of {lease:?}, drift and margin keep back {kept_back:?}, half of it or more; ask for a longer lease or a smaller margin"
    )]
    ConsumedByMargin {
        /// What was asked for.
        lease: Duration,
        /// What would be kept back.
        kept_back: Duration,
    },
}

/// Why a number of permits cannot be used. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermitsError {
    /// A hold of no permits is none.
    #[error("at least one permit must be asked for")]
    None,
    /// There are too many.
    #[error("{wanted} permits are too many, at most {most} are allowed")]
    TooMany {
        /// What was asked for.
        wanted: u32,
        /// The limit.
        most: u32,
    },
    /// The life of the semaphore is too short or too long.
    #[error("the life of a semaphore must be between a millisecond and a year")]
    Life,
}

/// Why a configuration cannot be used. The texts never hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is no URL that Lockkeeper understands.
    #[error("{0}")]
    Unreadable(String),
    /// The scheme needs something that this build or version does not have.
    #[error("the scheme \"{0}\" is not supported; use redis://, rediss://, unix:// or redis+unix://")]
    Scheme(String),
    /// A `rediss://` URL in a program that was built without TLS.
    #[error("rediss:// needs TLS, and this program was built without it: switch Lockkeeper's cargo feature \"tls\" on")]
    WithoutTls,
    /// A TLS setting for a connection that is in plain text, or half of a pair.
    #[error("{0}")]
    Tls(&'static str),
    /// A certificate or a key cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// A server on another machine, and no credentials.
    #[error(
        "{0} is on another machine, and there are no credentials: whoever reaches it could take and free every lock; \
         give a user and a password, or say allow-anonymous=true in the URL (RedisConfig::allow_anonymous) if the network is closed"
    )]
    Anonymous(String),
    /// A limit is zero, or contradicts another.
    #[error("{0}")]
    Limit(&'static str),
}
