//! The scripts: one file a step, each hashed once. `EVALSHA` runs them; a server that does not know one is given it.

use std::sync::LazyLock;

use redis::{Arg, Cmd};

/// One script with its hash.
#[derive(Debug)]
pub(super) struct Script {
    name: &'static str,
    source: String,
    hash: String,
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

    /// A call with the text of the script in the place of its hash.
    pub(super) fn whole_call(&self, call: &Cmd) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.source);
        for argument in call.args_iter().skip(2) {
            if let Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }

    pub(super) fn load_command(&self) -> Cmd {
        let mut command = Cmd::with_capacity(3, 16 + self.source.len());
        command.arg("SCRIPT").arg("LOAD").arg(&self.source);
        command
    }
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
    LATCH_SET_COUNT = "latch/set_count" after "shared/opening" "shared/latch";
    LATCH_COUNT_DOWN = "latch/count_down" after "shared/opening" "shared/latch";
    LATCH_REMOVE = "latch/remove" after "shared/opening" "shared/latch";
    LATCH_COUNT = "latch/count" after "shared/opening" "shared/latch";
    LATCH_AWAIT = "latch/await" after "shared/opening" "shared/latch";
    INSPECT = "inspect";
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
