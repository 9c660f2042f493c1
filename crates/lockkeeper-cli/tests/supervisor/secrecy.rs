//! A password typed on the command line does not stay there.

use crate::Test;
use crate::stage::text;
use lockkeeper_cli::arguments::{PASSWORD_VARIABLE, hide_passwords};
use lockkeeper_cli::supervisor::start_again;
use std::process::{Command, ExitCode};

pub(crate) const PART: &str = "__secrecy";

pub(crate) const TESTS: &[Test] = &[(
    "a_password_moves_from_the_command_line_to_the_environment",
    it_moves_to_the_environment,
)];

/// Starts again as the program's `main` does, then prints what `ps` would show, and the password.
pub(crate) fn show_ourselves() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some((clean, password)) = hide_passwords(&words) {
        panic!("{}", start_again(&clean, &password));
    }
    let shown = std::fs::read("/proc/self/cmdline").expect("our command line");
    println!("{} {}", std::process::id(), text(&shown).replace('\0', " "));
    println!("{}", std::env::var(PASSWORD_VARIABLE).expect("a password"));
    ExitCode::SUCCESS
}

fn it_moves_to_the_environment() {
    let program = std::env::current_exe().expect("our path");
    let child = Command::new(&program)
        .args([PART, "--url", "redis://user:ca%2Fnary@host:1/2", "name", "--", "kept"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let number = child.id();
    let output = text(&child.wait_with_output().expect("output").stdout);
    let expected = format!(
        "{number} {} {PART} --url redis://user@host:1/2 name -- kept \nca/nary\n",
        program.display()
    );
    assert_eq!(output, expected);
}
