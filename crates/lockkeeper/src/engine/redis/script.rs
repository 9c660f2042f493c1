//! The scripts: one file a step, each hashed once. `EVALSHA` runs them; a server that does not know one is given it.

use std::sync::LazyLock;

use redis::{Arg, Cmd};

/// One script with its hash.
#[derive(Debug)]
pub(super) struct Script {
    name: &'static str,
    source: &'static str,
    hash: String,
}

impl Script {
    fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            hash: redis::Script::new(source).get_hash().to_owned(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(super) fn source(&self) -> &'static str {
        self.source
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
        command.arg(self.source);
        for argument in call.args_iter().skip(2) {
            if let Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }

    pub(super) fn load_command(&self) -> Cmd {
        let mut command = Cmd::with_capacity(3, 16 + self.source.len());
        command.arg("SCRIPT").arg("LOAD").arg(self.source);
        command
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal $(then $shared:literal)?;)+) => {
        $(
            pub(super) static $constant: LazyLock<Script> =
                LazyLock::new(|| {
                    Script::new($name, concat!(
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
    MUTEX_FORCE_RELEASE = "mutex/force_release";
    PLAIN_ACQUIRE = "plain/acquire" then "shared/grant";
    PLAIN_RENEW = "plain/renew";
    PLAIN_RELEASE = "plain/release";
    PLAIN_FORCE_RELEASE = "plain/force_release";
    SPIN_RELEASE = "spin/release";
    SPIN_FORCE_RELEASE = "spin/force_release";
    FENCED_ACQUIRE = "fenced/acquire";
    INSPECT = "inspect";
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
