//! What Lockkeeper's own tests stand on: real servers, real processes and real faults.
//!
//! Nothing here imitates Redis. A test starts a server of its own on a free loopback port, puts a [`Proxy`] in
//! front of it where the network has to misbehave, runs workers as separate processes where a crash or a pause is
//! the point, and judges what happened from a recorded history.
//!
//! | module | for |
//! |---|---|
//! | [`server`] | start, kill, freeze, restart and look into a Redis or Valkey server |
//! | [`cluster`] | the same for a cluster of masters and replicas |
//! | [`certificates`] | make an authority and certificates, good ones and bad ones |
//! | [`proxy`] | delay, hold, lose, repeat and cut traffic at an exact request or reply |
//! | [`process`] | run worker programs and kill or freeze them |
//! | [`history`] | record who believed to hold what and when, and check it afterwards |
//! | [`register`] | the shared resource behind a lock: one that checks tokens and one that does not |
//! | [`wait`] | wait for an observable state instead of sleeping |
//! | [`real_time`] | time limits that hold while tokio's clock is paused |
//! | [`clock`] | the clock that histories are stamped with |
//!
//! Failures of the test bed itself (no server installed, a state that never comes) panic with a message that
//! says what to do: a test can only fail then, and its line is the useful one.

pub mod certificates;
pub mod clock;
pub mod cluster;
pub mod history;
pub mod process;
pub mod proxy;
pub mod real_time;
pub mod register;
pub mod server;
pub mod wait;

mod resp;
mod signal;
mod watchdog;

pub use certificates::{Authority, Identity};
pub use clock::boot_time_ns;
pub use cluster::RedisCluster;
pub use process::Process;
pub use proxy::{Matcher, Proxy, Rule};
pub use server::{RedisServer, ServerVersion};
pub use wait::wait_until;
