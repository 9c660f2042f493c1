//! The scripts: one file a step, each hashed once. `EVALSHA` runs them; a server that does not know one is given it.

use std::sync::{LazyLock, OnceLock};

use redis::{Arg, Cmd};

/// One script with its hash.
#[derive(Debug)]
pub(super) struct Script {
    name: &'static str,
    source: String,
    hash: String,
    /// The same for servers on which messages stay within their shard.
    sharded: OnceLock<(String, String)>,
}

impl Script {
    /// `opening` stands between the header and the body.
    fn new(name: &'static str, opening: &str, source: &str) -> Self {
        let header: usize = source
            .split_inclusive('\n')
            .take_while(|line| line.starts_with("--"))
            .map(str::len)
            .sum();
        let (header, body) = source.split_at(header);
        let source = [header, opening, body].concat();
        Self {
            name,
            hash: redis::Script::new(&source).get_hash().to_owned(),
            source,
            sharded: OnceLock::new(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    #[cfg(test)]
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// The beginning of a call: keys, then arguments, are to follow. `size` is about how many bytes they have.
    pub(super) fn call(&self, keys: usize, arguments: usize, size: usize) -> Cmd {
        let mut command = Cmd::with_capacity(3 + keys + arguments, 64 + size);
        command.arg("EVALSHA").arg(&self.hash).arg(keys);
        command
    }

    /// Source and hash for a server on which messages stay within their shard.
    fn sharded(&self) -> &(String, String) {
        self.sharded.get_or_init(|| {
            let source = self.source.replace("'PUBLISH'", "'SPUBLISH'");
            let hash = redis::Script::new(&source).get_hash().to_owned();
            (source, hash)
        })
    }

    /// A call with the text of the script in the place of its hash.
    pub(super) fn whole_call(&self, call: &Cmd, sharded: bool) -> Cmd {
        let source = if sharded { &self.sharded().0 } else { &self.source };
        with_first(call, "EVAL", source)
    }

    /// The same call where messages stay within their shard.
    pub(super) fn sharded_call(&self, call: &Cmd) -> Cmd {
        with_first(call, "EVALSHA", &self.sharded().1)
    }

    pub(super) fn load_command(&self, sharded: bool) -> Cmd {
        let source = if sharded { &self.sharded().0 } else { &self.source };
        let mut command = Cmd::with_capacity(3, 16 + source.len());
        command.arg("SCRIPT").arg("LOAD").arg(source);
        command
    }
}

/// A call of the same keys and arguments, by another command with another first word.
fn with_first(call: &Cmd, name: &str, first: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(first);
    for argument in call.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            command.arg(bytes);
        }
    }
    command
}

macro_rules! scripts {
    ($($constant:ident = $name:literal $(after $($opening:literal)+)? $(then $shared:literal)?;)+) => {
        $(
            pub(super) static $constant: LazyLock<Script> =
                LazyLock::new(|| {
                    Script::new($name, concat!($($(include_str!(concat!("scripts/", $opening, ".lua"))),+)?), concat!(
                        include_str!(concat!("scripts/", $name, ".lua")),
                        $(include_str!(concat!("scripts/", $shared, ".lua")),)?
                    ))
                });
        )+

        #[cfg(test)]
        pub(super) fn all() -> Vec<&'static Script> {
            vec![$(&*$constant),+]
        }
    };
}

scripts! {
    MUTEX_ACQUIRE = "mutex/acquire" then "shared/grant";
    MUTEX_RENEW = "mutex/renew";
    MUTEX_RELEASE = "mutex/release";
    MUTEX_REST = "mutex/rest" after "shared/opening";
    MUTEX_FORCE_RELEASE = "mutex/force_release";
    PLAIN_ACQUIRE = "plain/acquire" then "shared/grant";
    PLAIN_RENEW = "plain/renew";
    PLAIN_RELEASE = "plain/release";
    PLAIN_REST = "plain/rest" after "shared/opening";
    PLAIN_FORCE_RELEASE = "plain/force_release";
    SPIN_RELEASE = "spin/release";
    SPIN_FORCE_RELEASE = "spin/force_release";
    FENCED_ACQUIRE = "fenced/acquire";
    FAIR_ACQUIRE = "fair/acquire" after "shared/line" then "shared/grant";
    FAIR_RELEASE = "fair/release" after "shared/opening" "shared/line";
    FAIR_FORCE_RELEASE = "fair/force_release" after "shared/opening" "shared/line";
    RWLOCK_ACQUIRE_READ = "rwlock/acquire_read" after "shared/opening" "shared/rwlock";
    RWLOCK_ACQUIRE_WRITE = "rwlock/acquire_write" after "shared/rwlock" then "shared/grant";
    RWLOCK_UPGRADE = "rwlock/upgrade" after "shared/rwlock" then "shared/grant";
    RWLOCK_DOWNGRADE = "rwlock/downgrade" after "shared/opening" "shared/rwlock";
    RWLOCK_RENEW_READ = "rwlock/renew_read" after "shared/opening";
    RWLOCK_RELEASE_READ = "rwlock/release_read" after "shared/opening" "shared/rwlock";
    RWLOCK_RELEASE_WRITE = "rwlock/release_write" after "shared/opening" "shared/rwlock";
    RWLOCK_FORCE_RELEASE = "rwlock/force_release" after "shared/opening" "shared/rwlock";
    ELECTION_ACQUIRE = "election/acquire" then "shared/grant";
    ELECTION_RELEASE = "election/release" after "shared/opening";
    ELECTION_FORCE_RELEASE = "election/force_release" after "shared/opening";
    LATCH_SET_COUNT = "latch/set_count" after "shared/opening" "shared/latch";
    LATCH_COUNT_DOWN = "latch/count_down" after "shared/opening" "shared/latch";
    LATCH_REMOVE = "latch/remove" after "shared/opening" "shared/latch";
    LATCH_COUNT = "latch/count" after "shared/opening" "shared/latch";
    LATCH_AWAIT = "latch/await" after "shared/opening" "shared/latch";
    PERMITS_ACQUIRE = "permits/acquire" after "shared/opening" "shared/permits";
    PERMITS_RENEW = "permits/renew" after "shared/opening" "shared/permits";
    PERMITS_RELEASE = "permits/release" after "shared/opening" "shared/permits";
    PERMITS_SET = "permits/set" after "shared/opening" "shared/permits" "shared/change_permits";
    SEMAPHORE_ACQUIRE = "semaphore/acquire" after "shared/opening" "shared/permits";
    SEMAPHORE_GIVE_BACK = "semaphore/give_back" after "shared/opening" "shared/permits";
    SEMAPHORE_TRY_SET = "semaphore/try_set" after "shared/opening" "shared/permits" "shared/change_permits";
    SEMAPHORE_ADD = "semaphore/add" after "shared/opening" "shared/permits" "shared/change_permits";
    SEMAPHORE_DRAIN = "semaphore/drain" after "shared/opening" "shared/permits" "shared/change_permits";
    SEMAPHORE_REMOVE = "semaphore/remove" after "shared/opening" "shared/permits" "shared/change_permits";
    SEMAPHORE_COUNT = "semaphore/count" after "shared/opening" "shared/permits";
    INSPECT = "inspect" after "shared/opening" "shared/rwlock";
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
