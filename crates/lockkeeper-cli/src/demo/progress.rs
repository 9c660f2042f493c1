//! A bar while a sale goes on; on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};

/// One sale's bar, on standard error so that it never mixes with the result.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(strategy: &'static str, requests: u64) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(requests), target);
        let style = ProgressStyle::with_template("{msg:10} {bar:40} {pos}/{len} requests, {eta} left");
        // The template is a constant; without it the bar would only look plainer.
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(strategy);
        Self(bar)
    }

    pub(super) fn show(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    /// The table follows: it must not share a line with a bar.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
