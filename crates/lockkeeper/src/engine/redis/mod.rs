//! The Redis engine.
