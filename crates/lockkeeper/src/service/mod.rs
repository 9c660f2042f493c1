//! What every object needs and none should write again: the local queue, waiting, renewal and clean-up.

pub(crate) mod attempt;
pub(crate) mod cleanup;
pub(crate) mod core;
pub(crate) mod executor;
pub(crate) mod gate;
pub(crate) mod hold;
pub(crate) mod local_queue;
pub(crate) mod meters;
pub(crate) mod operation;
pub(crate) mod place;
pub(crate) mod register;
pub(crate) mod release;
pub(crate) mod renewal;
pub(crate) mod request;
pub(crate) mod turn;
pub(crate) mod waiter;
pub(crate) mod waiting;
pub(crate) mod watch;
