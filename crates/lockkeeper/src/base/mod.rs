//! The ground layer: names, owners, leases, time and tokens. It knows of no server and no lock.

pub(crate) mod clock;
pub(crate) mod lease;
pub(crate) mod name;
pub(crate) mod owner;
pub(crate) mod token;
