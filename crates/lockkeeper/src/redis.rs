//! What is Redis' own: the settings of its connections.

pub use crate::engine::redis::RedisConfig;
