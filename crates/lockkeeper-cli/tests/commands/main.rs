//! `run`, `elect`, `show` and `unlock` as a user types them, against a real server.

mod elections;
mod kinds;
mod running;
mod stage;
