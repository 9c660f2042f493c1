//! The program as scripts meet it, as far as no lock is involved.

use std::process::{Command, Output};

fn lockkeeper(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(words)
        .env("CLICOLOR_FORCE", "1")
        .env("FORCE_COLOR", "1")
        .env("LOCKKEEPER_URL", "redis://:canary@127.0.0.1:1")
        .output()
        .expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn bad_usage_is_64_on_standard_error() {
    for words in [
        &[][..],
        &["fly"],
        &["run", "name"],
        &["run", "--wait", "5", "name", "--", "true"],
        &["unlock", "name"],
    ] {
        let output = lockkeeper(words);
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn help_and_version_are_0_on_standard_output() {
    for words in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let output = lockkeeper(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(output.stderr.is_empty() && !output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn help_explains_the_exit_codes_and_the_environment() {
    let help = text(&lockkeeper(&["run", "--help"]).stdout);
    for part in [
        "79 ",
        "75 ",
        "128+n",
        "LOCKKEEPER_TOKEN",
        "LOCKKEEPER_DEADLINE",
        "LOCKKEEPER_PASSWORD",
    ] {
        assert!(help.contains(part), "{part} in\n{help}");
    }
}

#[test]
fn neither_colour_nor_password_is_printed_into_a_pipe() {
    for words in [&["--help"][..], &["run", "--help"], &["fly"], &["show"], &["man"]] {
        let output = lockkeeper(words);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(!all.contains('\u{1b}'), "{words:?}: {all}");
        assert!(!all.contains("canary"), "{words:?}: {all}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = lockkeeper(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = text(&output.stdout);
        for part in ["run", "show", "unlock", "demo", "max-hold"] {
            assert!(script.contains(part), "{part} for {shell}");
        }
    }
}

#[test]
fn the_manual_page_has_every_command() {
    let output = lockkeeper(&["man"]);
    assert_eq!(output.status.code(), Some(0));
    let page = text(&output.stdout);
    assert!(page.contains(".TH lockkeeper 1"), "{page}");
    for part in [
        "LOCKKEEPER RUN",
        "LOCKKEEPER SHOW",
        "LOCKKEEPER UNLOCK",
        "LOCKKEEPER DEMO",
        "LOCKKEEPER_DEADLINE",
        "max\\-hold",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
