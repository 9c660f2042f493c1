//! A hold that is lost takes its command along.

use crate::Test;
use crate::processes::{eventually, runs};
use crate::stage::{AMPLE, Lease, Stage, text};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_loss_sends_term_and_ends_with_79", a_loss_sends_term_and_ends_with_79),
    (
        "who_ignores_term_is_killed_when_the_key_can_expire",
        who_ignores_term_is_killed_when_the_key_can_expire,
    ),
    (
        "the_rest_of_the_group_goes_with_the_command",
        the_rest_of_the_group_goes_with_the_command,
    ),
    (
        "a_fixed_lease_ends_the_command_without_any_notice",
        a_fixed_lease_ends_the_command_without_any_notice,
    ),
    (
        "a_renewed_hold_outlives_many_leases",
        a_renewed_hold_outlives_many_leases,
    ),
    (
        "a_supervisor_that_stands_still_does_not_let_the_command_run_on",
        standing_still,
    ),
];

fn a_loss_sends_term_and_ends_with_79() {
    let stage = Stage::new(AMPLE, 15_000);
    let running = stage.script("trap 'echo cleaned; exit 0' TERM; echo >ready; while :; do sleep 0.02; done");
    stage.await_file("ready");
    stage.touch("lose");
    let output = running.end();
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        ("cleaned\n".to_owned(), Some(79))
    );
}

fn who_ignores_term_is_killed_when_the_key_can_expire() {
    let margin = 300;
    let stage = Stage::new(AMPLE, margin);
    let running = stage.script("trap '' TERM; sleep 300 & echo $$ $! >ready; wait");
    let processes = stage.await_processes("ready");
    let start = Instant::now();
    stage.touch("lose");
    assert_eq!(running.code(), Some(79));
    assert!(
        start.elapsed() >= Duration::from_millis(margin),
        "killed before its time: {:?}",
        start.elapsed()
    );
    eventually("all killed", || !processes.iter().any(|process| runs(*process)));
}

fn the_rest_of_the_group_goes_with_the_command() {
    let stage = Stage::new(AMPLE, 15_000);
    // The grandchild ignores TERM, and its parent ends long before the time for KILL.
    let script = "sh -c 'trap \"\" TERM; echo >grandchild; exec sleep 300' & echo $! >ready; wait";
    let running = stage.script(script);
    stage.await_file("grandchild");
    let grandchild = stage.await_processes("ready")[0];
    stage.touch("lose");
    assert_eq!(running.code(), Some(79));
    eventually("the grandchild's end", || !runs(grandchild));
}

fn a_fixed_lease_ends_the_command_without_any_notice() {
    let stage = Stage::new(Lease::Fixed(400), 15_000);
    let start = Instant::now();
    assert_eq!(stage.start(&["sleep", "300"]).code(), Some(79));
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "TERM came only with KILL: {:?}",
        start.elapsed()
    );
}

fn a_renewed_hold_outlives_many_leases() {
    let stage = Stage::new(Lease::Renewed(800), 100);
    let start = Instant::now();
    assert_eq!(stage.start(&["sleep", "2"]).code(), Some(0));
    assert!(start.elapsed() >= Duration::from_secs(2));
}

fn standing_still() {
    let stage = Stage::new(Lease::Renewed(600), 100);
    let running = stage.script("sleep 300 & echo $$ $! >ready; wait");
    let processes = stage.await_processes("ready");
    running.signal(Signal::SIGSTOP);
    eventually("killed by the guardian", || {
        !processes.iter().any(|process| runs(*process))
    });
    assert!(
        crate::processes::is_stopped(running.number()),
        "the supervisor had no part in it"
    );
    running.signal(Signal::SIGCONT);
    assert_eq!(running.code(), Some(79));
}
