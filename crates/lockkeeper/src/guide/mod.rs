//! The guide: how to choose, what to send along, what happens when things end early, and what can be seen.
//!
//! All examples run on the embedded engine, many of them in virtual time: that is also how you can test your own code.

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("reading.md")]
pub mod reading {}

#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("cancellation.md")]
pub mod cancellation {}

#[doc = include_str!("observing.md")]
pub mod observing {}

#[cfg(test)]
mod tests;

/// The README's code, so that it is compiled with the examples.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
