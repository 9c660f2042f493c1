//! Signals to the supervisor.

use crate::Test;
use crate::processes::{eventually, guardian, is_stopped, runs};
use crate::stage::{AMPLE, Stage, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const TESTS: &[Test] = &[
    (
        "an_ignored_hangup_does_not_end_the_wait",
        an_ignored_hangup_does_not_end_the_wait,
    ),
    ("signals_are_passed_on", signals_are_passed_on),
    ("grandchildren_get_them_too", grandchildren_get_them_too),
    (
        "a_command_ended_by_a_signal_is_128_and_its_number",
        a_command_ended_by_a_signal_is_128_and_its_number,
    ),
    (
        "a_signal_ends_the_wait_for_the_lock",
        a_signal_ends_the_wait_for_the_lock,
    ),
    ("an_ignored_hangup_stays_ignored", an_ignored_hangup_stays_ignored),
    (
        "a_stopped_command_without_a_terminal_keeps_its_hold",
        a_stopped_command_without_a_terminal_keeps_its_hold,
    ),
];

const ALL: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
];

fn signals_are_passed_on() {
    for signal in ALL {
        let stage = Stage::new(AMPLE, 100);
        let name = signal.as_str().strip_prefix("SIG").expect("a name");
        let running = stage.script(&format!(
            "trap 'echo got-{name}; exit 9' {name}; echo >ready; while :; do sleep 0.02; done"
        ));
        stage.await_file("ready");
        running.signal(signal);
        let output = running.end();
        assert_eq!(
            (text(&output.stdout), output.status.code()),
            (format!("got-{name}\n"), Some(9))
        );
    }
}

fn grandchildren_get_them_too() {
    let stage = Stage::new(AMPLE, 100);
    let running = stage.script("sleep 300 & echo $! >grandchild; trap 'wait; exit 4' TERM; echo >ready; wait");
    stage.await_file("ready");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(4));
    assert!(!runs(stage.await_processes("grandchild")[0]));
}

fn a_command_ended_by_a_signal_is_128_and_its_number() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let stage = Stage::new(AMPLE, 100);
        let running = stage.script("echo >ready; exec sleep 300");
        stage.await_file("ready");
        running.signal(signal);
        assert_eq!(running.code(), Some(128 + signal as i32));
    }
    assert_eq!(Stage::new(AMPLE, 100).script("kill -KILL $$").code(), Some(137));
}

fn a_signal_ends_the_wait_for_the_lock() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let stage = Stage::new(AMPLE, 100);
        stage.touch("busy");
        let running = stage.script("echo >started");
        eventually("the wait", || stage.path("waiting").exists());
        running.signal(signal);
        assert_eq!(running.code(), Some(128 + signal as i32));
        assert!(!stage.path("started").exists(), "the command ran without the lock");
    }
}

fn an_ignored_hangup_does_not_end_the_wait() {
    let stage = Stage::new(AMPLE, 100);
    stage.touch("busy");
    let running = stage.start_below(&["env", "--ignore-signal=HUP"], &["true"]);
    eventually("the wait", || stage.path("waiting").exists());
    running.signal(Signal::SIGHUP);
    // The system hands out the lower number first, so it is the hangup that would count.
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(128 + Signal::SIGTERM as i32));
}

fn an_ignored_hangup_stays_ignored() {
    let stage = Stage::new(AMPLE, 100);
    let script = "trap 'echo got-TERM; exit 9' TERM; echo >ready; while :; do sleep 0.02; done";
    let running = stage.start_below(&["env", "--ignore-signal=HUP"], &["sh", "-c", script]);
    stage.await_file("ready");
    running.signal(Signal::SIGHUP);
    // Passed on in order, so a hangup that got through would have ended the command first.
    running.signal(Signal::SIGTERM);
    let output = running.end();
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        ("got-TERM\n".to_owned(), Some(9))
    );
}

fn a_stopped_command_without_a_terminal_keeps_its_hold() {
    let stage = Stage::new(AMPLE, 100);
    // In a session without a terminal nobody would continue the supervisor, so it must not stop.
    let script = "echo $PPID $$ >ready; kill -STOP $$; exit 6";
    let running = stage.start_below(&["setsid", "--wait"], &["sh", "-c", script]);
    let processes = stage.await_processes("ready");
    let (supervisor, command) = (processes[0], processes[1]);
    eventually("the stop", || is_stopped(command));
    // A supervisor that had stopped would not replace its guardian.
    eventually("the guardian", || guardian(supervisor).is_some());
    let first = guardian(supervisor).expect("a guardian");
    kill(Pid::from_raw(first), Signal::SIGKILL).expect("killed");
    eventually("another guardian", || {
        guardian(supervisor).is_some_and(|now| now != first)
    });
    assert!(is_stopped(command));
    kill(Pid::from_raw(command), Signal::SIGCONT).expect("continued");
    assert_eq!(running.code(), Some(6));
}
