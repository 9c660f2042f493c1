//! The guide: how to choose, what to send along, what happens when things end early, and what can be seen.
//!
//! All examples run on the embedded engine, many of them in virtual time: that is also how you can test your own code.

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("reading.md")]
pub mod reading {}

#[doc = include_str!("semaphores.md")]
pub mod semaphores {}

#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("cancellation.md")]
pub mod cancellation {}

#[doc = include_str!("observing.md")]
pub mod observing {}

// Its links lead to what the feature adds.
#[cfg_attr(feature = "tls", doc = include_str!("security.md"))]
#[cfg_attr(
    not(feature = "tls"),
    doc = "Build the documentation with the feature `tls` to read this chapter."
)]
pub mod security {}

#[cfg(test)]
mod tests;

/// The README's code, so that it is compiled with the examples.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
