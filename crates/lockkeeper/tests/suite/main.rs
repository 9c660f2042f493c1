//! The test suite of the library: one binary, one module a concern. `tests/README.md` tells which case is which test.

mod attacks;
mod cluster;
mod conformance;
mod fairness;
mod faults;
mod lives;
mod observing;
mod scripts;
mod security;
mod virtual_time;
