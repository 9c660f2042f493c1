//! Every object that Redisson has, held by Java and by Rust on one server.

mod crashes;
mod exclusion;
mod fair;
mod fenced;
mod latch;
mod load;
mod mutex;
mod rwlock;
mod spin;
mod stage;
