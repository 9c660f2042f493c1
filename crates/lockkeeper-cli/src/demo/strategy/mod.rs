//! Four ways to buy a ticket. Each reads the stock, thinks, and writes; they differ in how they keep others out.

pub(super) mod mutex;
pub(super) mod none;
pub(super) mod optimistic;
pub(super) mod spin;
