//! What is Redis' own: the settings of its connections, and optimistic updates.

pub use crate::engine::redis::RedisConfig;

pub mod optimistic {
    #![doc = "Optimistic updates: read some keys, decide, and write only if nobody changed them in between."]
    #![doc = ""]
    #![doc = "See [`Keeper::optimistic`](crate::Keeper::optimistic) and [`Updates`]."]

    pub use crate::engine::redis::optimistic::{Change, Decision, Updates};
}
