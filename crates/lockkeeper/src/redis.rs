//! What is Redis' own: the settings of its connections, the scripts, and optimistic updates.

pub use crate::engine::redis::{
    Diagnosis, Finding, LuaScript, RedisConfig, Row, Severity, diagnose, load_scripts, scripts,
};

pub mod optimistic {
    #![doc = "Optimistic updates: read some keys, decide, and write only if nobody changed them in between."]
    #![doc = ""]
    #![doc = "See [`Keeper::optimistic`](crate::Keeper::optimistic) and [`Updates`]."]

    pub use crate::engine::redis::optimistic::{Change, Decision, Updates};
}
