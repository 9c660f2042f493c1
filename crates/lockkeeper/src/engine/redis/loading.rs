//! The scripts for an administrator: what there is, and loading all of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::config::RedisConfig;
use super::connecting_error;
use super::node::Node;
use super::script::all;
use super::session::Session;
use crate::base::clock::SystemClock;
use crate::engine::{Cause, StepError};
use crate::error::Error;

/// How long loading all scripts may take.
const LOADING: Duration = Duration::from_secs(10);

/// One of the scripts that keepers run on their server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LuaScript {
    /// The object and the step; `sharded` behind it is what runs on a cluster whose messages stay within their shard.
    pub name: String,
    /// The hash by which it is called: of its text by SHA-1, as the server makes it.
    pub hash: String,
    /// Its text.
    pub text: String,
}

impl fmt::Debug for LuaScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LuaScript")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// All scripts of this version, which an administrator loads where keepers may not; see
/// [`RedisConfig::preloaded_scripts`].
///
/// ```
/// let scripts = lockkeeper::redis::scripts();
/// assert!(scripts.iter().any(|script| script.name == "mutex/acquire" && script.hash.len() == 40));
/// ```
#[must_use]
pub fn scripts() -> Vec<LuaScript> {
    let of = |name: String, (text, hash): (&str, &str)| LuaScript {
        name,
        hash: hash.to_owned(),
        text: text.to_owned(),
    };
    all()
        .into_iter()
        .flat_map(|script| {
            let (plain, sharded) = script.texts();
            let sharded = (sharded != plain).then(|| of(format!("{} sharded", script.name()), sharded));
            [Some(of(script.name().to_owned(), plain)), sharded]
                .into_iter()
                .flatten()
        })
        .collect()
}

/// Loads all [`scripts`] into one server, as a user who may. On a cluster, and where replicas may take over, this is done for
/// every server; and again after each restart, since a server forgets them.
///
/// Must be called on a runtime of tokio's.
///
/// # Errors
/// Those of [`Keeper::connect`](crate::Keeper::connect); [`Error::Refused`] if this user may not load scripts.
///
/// # Cancelling
/// Some scripts may have been loaded.
pub async fn load_scripts(config: RedisConfig) -> Result<Vec<LuaScript>, Error> {
    let node = Arc::new(Node::new(config, Arc::new(SystemClock))?);
    let session = Session::open(&node, |_| {}).await.map_err(connecting_error)?;
    let until = Instant::now() + LOADING;
    let scripts = scripts();
    for script in &scripts {
        let command = redis::cmd("SCRIPT").arg("LOAD").arg(&script.text).to_owned();
        let reply = session
            .request(&command, until)
            .await
            .map_err(|failure| connecting_error(failure.error))?;
        if !matches!(&reply, Value::BulkString(hash) if hash == script.hash.as_bytes()) {
            let told = "the server gave a script another hash: something between changes what is sent".to_owned();
            return Err(connecting_error(StepError::none(Cause::Unreachable(told))));
        }
    }
    Ok(scripts)
}
