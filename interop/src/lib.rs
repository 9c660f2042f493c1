//! Lockkeeper's locks beside those of its peers: real Redisson in a real JVM, real redis-py in a real Python.
//!
//! A peer is a small program that does what it is told over its standard input ([`Peer`]); `interop/test` builds them. The tests drive
//! both sides on one server, and a [mixed load](load) runs processes of both kinds against each other.

pub mod holding;
pub mod load;
mod peer;
pub mod redis_py;
pub mod redisson;

pub use peer::{Peer, PeerThread, Pending, Refused};
