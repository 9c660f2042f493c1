//! What the processes of a sale say to each other: one line of JSON each, over the child's standard input and output.

use super::plan::Plan;
use super::tally::Tally;
use super::trouble::Trouble;
use serde::{Deserialize, Serialize};

/// To a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// First: what to do. The child connects and says that it is ready.
    Prepare(Plan),
    /// Then, when all are ready: let the buyers in.
    Begin,
}

/// From a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// Connected, waiting for the word.
    Ready,
    /// So many requests have ended.
    Done(u64),
    /// All have, with this result. Nothing follows.
    Finished(Tally),
    /// It went wrong. Nothing follows.
    Failed(Trouble),
}
