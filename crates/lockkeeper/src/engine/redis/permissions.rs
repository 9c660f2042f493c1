//! What a user needs on the server, object by object: the commands, and the patterns for keys and channels.
//!
//! The guide's chapter on security has the same tables, and a test compares them. Another test runs all steps of each object as a
//! user with exactly this, and shows that each command and each pattern is needed.

use crate::engine::{Kind, Layout};

/// Commands that are needed whatever the object is.
pub(crate) struct Base {
    /// What they are for.
    pub(crate) purpose: &'static str,
    pub(crate) commands: &'static [&'static str],
}

pub(crate) const BASE: [Base; 4] = [
    Base {
        purpose: "connecting and every step",
        commands: &["evalsha", "time"],
    },
    Base {
        purpose: "loading scripts, unless they are preloaded",
        commands: &["script|load"],
    },
    Base {
        purpose: "being woken by signals",
        commands: &["ping", "subscribe", "unsubscribe"],
    },
    Base {
        purpose: "having a name in the server's list of clients",
        commands: &["client|setname"],
    },
];

/// What one object needs beside the base.
pub(crate) struct Needs {
    pub(crate) object: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) commands: &'static [&'static str],
    /// What its helper keys and channels begin with, before the name. All are sent as keys of scripts.
    pub(crate) helpers: &'static [&'static str],
    /// What the channels begin with, before the name.
    pub(crate) channels: &'static [&'static str],
}

pub(crate) const OBJECTS: [Needs; 8] = [
    Needs {
        object: "mutex",
        kinds: &[Kind::Mutex(Layout::Redisson), Kind::Periodic(Layout::Redisson)],
        commands: &[
            "get",
            "hdel",
            "hexists",
            "hmget",
            "hset",
            "pexpire",
            "pexpireat",
            "pttl",
            "publish",
            "set",
            "type",
            "del",
        ],
        helpers: &[
            "lockkeeper_token:{",
            "redisson_lock_token:{",
            "redisson_lock__channel:{",
        ],
        channels: &["redisson_lock__channel:{"],
    },
    Needs {
        object: "plain mutex",
        kinds: &[Kind::Mutex(Layout::Plain), Kind::Periodic(Layout::Plain)],
        commands: &[
            "del",
            "get",
            "hexists",
            "mget",
            "pexpire",
            "pexpireat",
            "pttl",
            "publish",
            "set",
            "type",
        ],
        helpers: &["lockkeeper_token:{", "redisson_lock_token:{", "lockkeeper_channel:{"],
        channels: &["lockkeeper_channel:{"],
    },
    Needs {
        object: "fenced mutex",
        kinds: &[Kind::Fenced],
        commands: &[
            "del",
            "get",
            "hdel",
            "hexists",
            "hmget",
            "hset",
            "pexpire",
            "pexpireat",
            "pttl",
            "publish",
            "set",
            "type",
        ],
        helpers: &[
            "lockkeeper_token:{",
            "redisson_lock_token:{",
            "redisson_lock__channel:{",
        ],
        channels: &["redisson_lock__channel:{"],
    },
    Needs {
        object: "spin mutex",
        kinds: &[Kind::Spin],
        commands: &[
            "del",
            "get",
            "hdel",
            "hexists",
            "hmget",
            "hset",
            "pexpire",
            "pexpireat",
            "pttl",
            "set",
            "type",
        ],
        helpers: &["lockkeeper_token:{", "redisson_lock_token:{"],
        channels: &[],
    },
    Needs {
        object: "fair mutex",
        kinds: &[Kind::Fair],
        commands: &[
            "del",
            "exists",
            "get",
            "hdel",
            "hexists",
            "hmget",
            "hset",
            "lindex",
            "lpop",
            "lpos",
            "lrange",
            "lrem",
            "pexpire",
            "pexpireat",
            "pttl",
            "publish",
            "rpush",
            "set",
            "type",
            "zadd",
            "zrem",
            "zscore",
        ],
        helpers: &[
            "lockkeeper_token:{",
            "redisson_lock_token:{",
            "redisson_lock__channel:{",
            "redisson_lock_queue:{",
            "redisson_lock_timeout:{",
        ],
        channels: &["redisson_lock__channel:{"],
    },
    Needs {
        object: "read-write lock",
        kinds: &[Kind::Read, Kind::Write],
        commands: &[
            "del",
            "get",
            "hdel",
            "hexists",
            "hget",
            "hgetall",
            "hlen",
            "hmget",
            "hset",
            "pexpire",
            "pexpireat",
            "pttl",
            "publish",
            "set",
            "type",
            "zadd",
            "zrange",
            "zrem",
            "zremrangebyscore",
        ],
        helpers: &[
            "{",
            "lockkeeper_token:{",
            "redisson_lock_token:{",
            "redisson_rwlock:{",
            "lockkeeper_writer:{",
            "lockkeeper_reader:{",
        ],
        channels: &["redisson_rwlock:{"],
    },
    Needs {
        object: "count-down latch",
        kinds: &[Kind::Latch],
        commands: &["decr", "del", "get", "hexists", "publish", "set", "type"],
        helpers: &[
            "lockkeeper_answer:{",
            "lockkeeper_latch:{",
            "redisson_countdownlatch__channel__{",
        ],
        channels: &["redisson_countdownlatch__channel__{"],
    },
    Needs {
        object: "looking at a name",
        kinds: &[],
        commands: &[
            "get",
            "getrange",
            "hexists",
            "hgetall",
            "hlen",
            "lrange",
            "pttl",
            "type",
            "zrangebyscore",
            "zscore",
        ],
        helpers: &[
            "{",
            "lockkeeper_token:{",
            "redisson_lock_token:{",
            "redisson_lock_queue:{",
            "redisson_lock_timeout:{",
            "lockkeeper_writer:{",
        ],
        channels: &[],
    },
];
