//! A command under the supervisor is as if it were run directly.

use crate::Test;
use crate::processes::{children, eventually, guardian, is_zombie, runs};
use crate::rehearsal::{OWNER, TOKEN};
use crate::stage::{AMPLE, Stage, text};
use lockkeeper_cli::supervisor::Moment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

pub(crate) const TESTS: &[Test] = &[
    (
        "input_output_and_error_pass_through",
        input_output_and_error_pass_through,
    ),
    ("the_commands_code_is_ours", the_commands_code_is_ours),
    (
        "a_missing_command_is_127_and_one_that_cannot_run_126",
        a_missing_command_is_127_and_one_that_cannot_run_126,
    ),
    ("the_command_learns_about_its_hold", the_command_learns_about_its_hold),
    ("the_command_leads_its_own_group", the_command_leads_its_own_group),
    (
        "the_command_has_the_callers_signal_settings",
        the_command_has_the_callers_signal_settings,
    ),
    (
        "no_descriptor_of_ours_is_left_in_the_command",
        no_descriptor_of_ours_is_left_in_the_command,
    ),
    (
        "a_caller_that_ignores_child_signals_does_no_harm",
        a_caller_that_ignores_child_signals_does_no_harm,
    ),
    (
        "what_the_command_leaves_behind_runs_on",
        what_the_command_leaves_behind_runs_on,
    ),
    ("nothing_else_is_left", nothing_else_is_left),
];

fn input_output_and_error_pass_through() {
    let stage = Stage::new(AMPLE, 100);
    let mut running = stage.script("cat; echo problem >&2");
    running.type_in("first\nsecond\n");
    let output = running.end();
    assert_eq!(text(&output.stdout), "first\nsecond\n");
    assert_eq!(text(&output.stderr), "problem\n");
    assert_eq!(output.status.code(), Some(0));
}

fn the_commands_code_is_ours() {
    for code in [0, 1, 7, 75, 126, 127, 255] {
        assert_eq!(
            Stage::new(AMPLE, 100).script(&format!("exit {code}")).code(),
            Some(code)
        );
    }
}

fn a_missing_command_is_127_and_one_that_cannot_run_126() {
    let stage = Stage::new(AMPLE, 100);
    let output = stage.start(&["no-such-command-anywhere"]).end();
    assert_eq!(output.status.code(), Some(127));
    assert!(
        text(&output.stderr).contains("cannot run no-such-command-anywhere"),
        "{output:?}"
    );

    stage.touch("data");
    let path = stage.path("data");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let output = stage.start(&[path.to_str().expect("text")]).end();
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output.stderr).contains("cannot run"), "{output:?}");
}

fn the_command_learns_about_its_hold() {
    let before = Moment::now().time_since_boot().as_millis();
    let output = Stage::new(AMPLE, 100).start(&["env"]).end();
    let after = Moment::now().time_since_boot().as_millis();
    let environment = text(&output.stdout);
    let value = |name: &str| {
        let prefix = format!("LOCKKEEPER_{name}=");
        environment
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .expect(name)
            .to_owned()
    };
    assert_eq!(value("NAME"), "jobs:nightly");
    assert_eq!(value("TOKEN"), TOKEN.to_string());
    assert_eq!(value("OWNER"), OWNER);
    let deadline: u128 = value("DEADLINE").parse().expect("a number");
    assert!(
        (before + 120_000..=after + 120_000).contains(&deadline),
        "{before} {deadline} {after}"
    );
    let remaining: u128 = value("REMAINING").parse().expect("a number");
    assert!(
        (120_000 - (after - before) - 1..=120_000).contains(&remaining),
        "{remaining}"
    );
}

fn the_command_leads_its_own_group() {
    let output = text(
        &Stage::new(AMPLE, 100)
            .script("echo $$ $(ps -o pgid= -p $$)")
            .end()
            .stdout,
    );
    let numbers: Vec<_> = output.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1]);
}

/// What a command prints under the supervisor and without it, both below another program.
fn both_ways(above: &[&str], command: &[&str]) -> [String; 2] {
    let supervised = Stage::new(AMPLE, 100).start_below(above, command).end();
    let words = [above, command].concat();
    let direct = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .output()
        .expect("run");
    [text(&supervised.stdout), text(&direct.stdout)]
}

fn the_command_has_the_callers_signal_settings() {
    for option in [
        "--ignore-signal=HUP",
        "--ignore-signal=TSTP",
        "--block-signal=USR2",
        "--default-signal=INT",
    ] {
        let command = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"];
        let [supervised, direct] = both_ways(&["env", option], &command);
        assert_eq!(supervised, direct, "{option}");
        assert_eq!(direct.lines().count(), 3);
    }
}

fn no_descriptor_of_ours_is_left_in_the_command() {
    let [supervised, direct] = both_ways(&["env"], &["ls", "/proc/self/fd"]);
    assert_eq!(supervised, direct);
}

fn a_caller_that_ignores_child_signals_does_no_harm() {
    let stage = Stage::new(AMPLE, 100);
    let running = stage.start_below(&["env", "--ignore-signal=CHLD"], &["sh", "-c", "exit 7"]);
    assert_eq!(running.code(), Some(7));
}

fn what_the_command_leaves_behind_runs_on() {
    let stage = Stage::new(AMPLE, 100);
    let running = stage.script("sleep 300 </dev/null >/dev/null 2>&1 & echo $! >left; exit 3");
    assert_eq!(running.code(), Some(3));
    let left = stage.await_processes("left")[0];
    let lives = runs(left);
    let _ = kill(Pid::from_raw(left), Signal::SIGKILL);
    assert!(
        lives,
        "a process put into the background by the command is the command's affair"
    );
}

fn nothing_else_is_left() {
    let stage = Stage::new(AMPLE, 100);
    let mut running = stage.script("echo $$ >ready; read line");
    let command = stage.await_processes("ready")[0];
    let supervisor = running.number();
    eventually("the guardian", || guardian(supervisor).is_some());
    let all = children(supervisor);
    assert_eq!(all.len(), 2, "the command and the guardian: {all:?}");
    assert!(!all.iter().any(|process| is_zombie(*process)));
    running.type_in("go\n");
    assert_eq!(running.code(), Some(0));
    assert!(
        all.contains(&command) && !all.iter().any(|process| runs(*process)),
        "{all:?}"
    );
}
