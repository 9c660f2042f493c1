//! A pause with nothing held and nothing running, when the command has ended.

use crate::Test;
use crate::processes::{eventually, runs};
use crate::stage::{AMPLE, Running, Stage};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    (
        "the_pause_lasts_as_long_as_it_was_meant_to",
        the_pause_lasts_as_long_as_it_was_meant_to,
    ),
    ("a_signal_ends_the_pause", a_signal_ends_the_pause),
];

/// A supervisor whose command has ended.
fn pausing(stage: &Stage, milliseconds: u64) -> Running {
    std::fs::write(stage.path("pause"), milliseconds.to_string()).expect("written");
    let running = stage.script("echo $$ >command; exit 5");
    let command = stage.await_processes("command")[0];
    eventually("the command's end", || !runs(command));
    running
}

fn the_pause_lasts_as_long_as_it_was_meant_to() {
    let stage = Stage::new(AMPLE, 50);
    let start = Instant::now();
    let running = pausing(&stage, 2_000);
    assert_eq!(running.code(), Some(5));
    assert!(start.elapsed() >= Duration::from_millis(2_000), "{:?}", start.elapsed());
}

fn a_signal_ends_the_pause() {
    let stage = Stage::new(AMPLE, 50);
    let running = pausing(&stage, 100_000);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(143));
}
