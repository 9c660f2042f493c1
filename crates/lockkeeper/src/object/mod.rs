//! The objects that users hold in their hands. Each is thin: its options, its guard, and calls into the services.

pub(crate) mod election;
pub(crate) mod hold_handle;
pub(crate) mod holding;
pub(crate) mod latch;
pub(crate) mod mutex;
pub(crate) mod options;
pub(crate) mod periodic;
pub(crate) mod rwlock;
pub(crate) mod scope;
pub(crate) mod semaphore;
