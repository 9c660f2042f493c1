//! Every object that Redisson has, held by Java and by Rust on one server.

mod load;
mod mutex;
mod mutex_crashes;
mod stage;
