use std::sync::Arc;

use crate::engine::SignalTable;

/// The messages of one step. They are sent once the step is done and the state unlocked, since who hears one may at once
/// make a step of its own.
pub(super) struct Post<'a> {
    signals: &'a SignalTable,
    letters: Vec<(Arc<str>, i64)>,
}

impl<'a> Post<'a> {
    pub(super) const fn new(signals: &'a SignalTable) -> Self {
        Self {
            signals,
            letters: Vec::new(),
        }
    }

    /// Takes a message on, and tells how many will hear it: what `PUBLISH` answers.
    pub(super) fn publish(&mut self, channel: &Arc<str>, message: i64) -> u64 {
        self.letters.push((Arc::clone(channel), message));
        self.signals.listeners(channel)
    }

    pub(super) fn send(self) {
        for (channel, message) in self.letters {
            self.signals.publish(&channel, message);
        }
    }
}
