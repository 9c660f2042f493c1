//! Job control on a real terminal.

use crate::Test;
use crate::processes::{eventually, is_stopped, runs};
use crate::screen::Screen;
use crate::stage::{AMPLE, Lease, Stage};

pub(crate) const TESTS: &[Test] = &[
    ("the_command_has_the_terminal", the_command_has_the_terminal),
    (
        "an_interrupt_key_reaches_the_command_once",
        an_interrupt_key_reaches_the_command_once,
    ),
    (
        "the_suspend_key_stops_the_job_and_it_can_go_on",
        the_suspend_key_stops_the_job_and_it_can_go_on,
    ),
    (
        "a_job_suspended_past_its_lease_never_goes_on",
        a_job_suspended_past_its_lease_never_goes_on,
    ),
    (
        "a_background_job_stops_when_it_reads_and_gets_the_terminal_in_front",
        background,
    ),
    ("in_a_pipeline_the_command_can_still_ask_for_the_terminal", pipeline),
    (
        "the_wait_for_the_lock_can_be_suspended_and_interrupted",
        the_wait_can_be_suspended,
    ),
    ("the_modes_of_the_terminal_come_back_after_a_kill", the_modes_come_back),
    ("a_suspend_key_that_no_shell_would_undo_is_ignored", nobody_to_continue),
];

const SUSPEND: &str = "\u{1a}";
const INTERRUPT: &str = "\u{3}";

/// The supervisor's words for a shell, with a script in the folder's file.
fn line(stage: &Stage, script: &str) -> String {
    let path = stage.path("script");
    std::fs::write(&path, format!("cd {}\n{script}\n", stage.path("").display())).expect("written");
    stage.words(&["sh", path.to_str().expect("text")]).join(" ")
}

fn the_command_has_the_terminal() {
    let stage = Stage::new(AMPLE, 100);
    let mut screen = Screen::shell();
    screen.command(&line(
        &stage,
        "echo ready-$((3 + 4)); read word; echo \"word:$word:\"; exit 5",
    ));
    screen.expect("ready-7");
    screen.type_line("hello");
    screen.expect("word:hello:");
    screen.expect_code(5);
}

fn an_interrupt_key_reaches_the_command_once() {
    let stage = Stage::new(AMPLE, 100);
    let mut screen = Screen::shell();
    // A file ends it and not a line: shells may lose what is typed around a signal, also without us.
    let script = "trap 'echo int >>ints' INT; echo ready-$((3 + 4)); until [ -e go ]; do sleep 0.01; done; exit 5";
    screen.command(&line(&stage, script));
    screen.expect("ready-7");
    screen.type_keys(INTERRUPT);
    stage.await_file("ints");
    stage.touch("go");
    screen.expect_code(5);
    assert_eq!(stage.read("ints"), "int\n");

    screen.command(&line(&stage, "echo again-$((3 + 4)); exec sleep 300"));
    screen.expect("again-7");
    screen.type_keys(INTERRUPT);
    screen.expect_code(130);
}

fn the_suspend_key_stops_the_job_and_it_can_go_on() {
    let stage = Stage::new(AMPLE, 100);
    let mut screen = Screen::shell();
    let script = "sleep 300 & echo $PPID $$ $! >ready; read word; echo \"word:$word:\"; kill $!; exit 5";
    screen.command(&line(&stage, script));
    let processes = stage.await_processes("ready");
    for round in 0..3 {
        screen.type_keys(SUSPEND);
        screen.expect("Stopped");
        eventually("all stopped", || processes.iter().all(|process| is_stopped(*process)));
        screen.command(&format!("echo free-{round}-$((3 + 4))"));
        screen.expect(&format!("free-{round}-7"));
        screen.command("fg");
        eventually("all going on", || !processes.iter().any(|process| is_stopped(*process)));
    }
    screen.type_line("hello");
    screen.expect("word:hello:");
    screen.expect_code(5);
}

fn a_job_suspended_past_its_lease_never_goes_on() {
    let stage = Stage::new(Lease::Renewed(500), 100);
    let mut screen = Screen::shell();
    screen.command(&line(&stage, "echo $$ >ready; while :; do echo x >>work; done"));
    let command = stage.await_processes("ready")[0];
    screen.type_keys(SUSPEND);
    screen.expect("Stopped");
    eventually("stopped or killed", || is_stopped(command) || !runs(command));
    let work = stage.read("work");
    eventually("the end of the lease", || !runs(command));
    screen.command("fg");
    screen.expect_code(79);
    assert_eq!(stage.read("work"), work, "it worked on after the hold was over");
}

fn background() {
    let stage = Stage::new(AMPLE, 100);
    let mut screen = Screen::shell();
    screen.command(&format!(
        "{} &",
        line(&stage, "echo $PPID $$ >ready; read word; echo \"word:$word:\"; exit 5")
    ));
    let processes = stage.await_processes("ready");
    eventually("stopped for reading", || {
        processes.iter().all(|process| is_stopped(*process))
    });
    screen.command("fg");
    screen.type_line("hello");
    screen.expect("word:hello:");
    screen.expect_code(5);
}

fn pipeline() {
    let stage = Stage::new(AMPLE, 100);
    let mut screen = Screen::shell();
    let script = "read piped; echo ready-$((3 + 4)); read typed </dev/tty; echo \"both:$piped:$typed:\"";
    screen.command(&format!("echo data | {} | cat", line(&stage, script)));
    screen.expect("ready-7");
    screen.type_line("hello");
    screen.expect("both:data:hello:");
    // While it does not ask, keys go to the whole pipeline, and are passed on.
    screen.command(&format!(
        "sleep 300 | {}",
        line(&stage, "echo again-$((3 + 4)); exec sleep 300")
    ));
    screen.expect("again-7");
    screen.type_keys(INTERRUPT);
    screen.expect_code(130);
}

fn the_wait_can_be_suspended() {
    let stage = Stage::new(AMPLE, 100);
    stage.touch("busy");
    let mut screen = Screen::shell();
    let words = line(&stage, "exit 5");
    screen.command(&words);
    eventually("the wait", || stage.path("waiting").exists());
    screen.type_keys(SUSPEND);
    screen.expect("Stopped");
    std::fs::remove_file(stage.path("busy")).expect("removed");
    screen.command("fg");
    screen.expect_code(5);

    std::fs::remove_file(stage.path("waiting")).expect("removed");
    stage.touch("busy");
    screen.command(&words);
    eventually("the wait", || stage.path("waiting").exists());
    screen.type_keys(INTERRUPT);
    screen.expect_code(130);
}

fn the_modes_come_back() {
    let stage = Stage::new(AMPLE, 50);
    let words = line(&stage, "trap '' TERM; stty raw -echo; echo >ready; exec sleep 300");
    // No job control here: such a shell would put the modes back itself.
    let mut screen = Screen::open(&["sh", "-c", &format!("{words}; echo code-$?-; stty -a; echo all-shown")]);
    stage.await_file("ready");
    stage.touch("lose");
    screen.expect("code-79-");
    screen.expect(" icanon");
    screen.expect(" echo ");
    screen.expect("all-shown");
}

fn nobody_to_continue() {
    let stage = Stage::new(AMPLE, 100);
    let words = line(&stage, "echo ready-$((3 + 4)); read word; echo \"word:$word:\"; exit 5");
    let mut screen = Screen::open(&["sh", "-c", &format!("{words}; echo code-$?-")]);
    screen.expect("ready-7");
    screen.type_keys(SUSPEND);
    screen.type_line("hello");
    screen.expect("word:hello:");
    screen.expect("code-5-");
}
