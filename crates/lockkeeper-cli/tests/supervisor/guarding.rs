//! The supervisor is killed with KILL, or its guardian is.

use crate::Test;
use crate::processes::{children, eventually, guardian, is_zombie, runs};
use crate::stage::{AMPLE, Running, Stage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const TESTS: &[Test] = &[
    (
        "killed_it_leaves_neither_child_nor_grandchild",
        killed_it_leaves_neither_child_nor_grandchild,
    ),
    (
        "killed_with_its_group_it_leaves_nothing_either",
        killed_with_its_group_it_leaves_nothing_either,
    ),
    (
        "a_guardian_that_was_killed_is_replaced",
        a_guardian_that_was_killed_is_replaced,
    ),
    (
        "killed_at_any_moment_of_the_start_it_leaves_nothing",
        killed_at_any_moment_of_the_start_it_leaves_nothing,
    ),
];

/// A family that cannot be talked into ending.
const FAMILY: &str = "trap '' TERM HUP INT; sleep 300 & sh -c 'sleep 300 & echo $! >deep; wait' & \
                      while [ ! -s deep ]; do sleep 0.01; done; echo $$ $! $(cat deep) >ready; wait";

fn family(stage: &Stage) -> (Running, Vec<i32>) {
    let running = stage.script(FAMILY);
    let processes = stage.await_processes("ready");
    assert_eq!(processes.len(), 3);
    let supervisor = running.number();
    eventually("the guardian", || guardian(supervisor).is_some());
    (running, processes)
}

fn await_end(processes: &[i32]) {
    eventually("the family's end", || !processes.iter().any(|process| runs(*process)));
}

fn killed_it_leaves_neither_child_nor_grandchild() {
    let stage = Stage::new(AMPLE, 100);
    let (running, processes) = family(&stage);
    let guardian = guardian(running.number()).expect("a guardian");
    running.signal(Signal::SIGKILL);
    await_end(&processes);
    eventually("the guardian's end", || !runs(guardian));
}

fn killed_with_its_group_it_leaves_nothing_either() {
    let stage = Stage::new(AMPLE, 100);
    // `setsid` forks if it leads a group already, so the number that counts is written by the group itself.
    let script = format!("echo $PPID >supervisor; {FAMILY}");
    let _running = stage.start_below(&["setsid", "--wait"], &["sh", "-c", &script]);
    let processes = stage.await_processes("ready");
    let supervisor = stage.await_processes("supervisor")[0];
    eventually("the guardian", || guardian(supervisor).is_some());
    kill(Pid::from_raw(-supervisor), Signal::SIGKILL).expect("killed");
    await_end(&processes);
}

fn a_guardian_that_was_killed_is_replaced() {
    let stage = Stage::new(AMPLE, 100);
    let (running, processes) = family(&stage);
    let supervisor = running.number();
    let first = guardian(supervisor).expect("a guardian");
    kill(Pid::from_raw(first), Signal::SIGKILL).expect("killed");
    eventually("another guardian", || {
        guardian(supervisor).is_some_and(|now| now != first)
    });
    assert!(
        !children(supervisor).into_iter().any(is_zombie),
        "the first one was waited for"
    );
    running.signal(Signal::SIGKILL);
    await_end(&processes);
}

fn killed_at_any_moment_of_the_start_it_leaves_nothing() {
    for microseconds in (0..40).map(|step| step * 250) {
        let stage = Stage::new(AMPLE, 100);
        let running = stage.script("echo $$ >began; sleep 300 & echo $! >grandchild; wait");
        let supervisor = running.number();
        // Not a wait for something: the moments of the start are what is tried here.
        std::thread::sleep(std::time::Duration::from_micros(microseconds));
        let seen = children(supervisor);
        running.signal(Signal::SIGKILL);
        await_end(&seen);
        drop(running);
        for name in ["began", "grandchild"] {
            let numbers = stage.read(name);
            await_end(
                &numbers
                    .split_whitespace()
                    .filter_map(|word| word.parse().ok())
                    .collect::<Vec<_>>(),
            );
        }
    }
}
