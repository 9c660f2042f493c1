//! `run`, `show` and `unlock`.

use std::time::{Duration, Instant};

use lockkeeper_testkit::RedisServer;
use serde_json::Value;

use crate::stage::{Background, code, lockkeeper, ran, show, until};

#[test]
fn the_command_runs_under_the_lock_and_its_code_comes_back() {
    let server = RedisServer::start();
    let program = env!("CARGO_BIN_EXE_lockkeeper");
    let script =
        format!("{program} show --json job; echo \"$LOCKKEEPER_NAME $LOCKKEEPER_TOKEN $LOCKKEEPER_OWNER\"; exit 7");
    let output = ran(&server, &["run", "job", "--", "sh", "-c", &script]);
    assert_eq!(code(&output), 7, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let held: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&held["name"], &held["kind"]), (&"job".into(), &"mutex".into()));
    assert_eq!((&held["layout"], &held["state"]), (&"redisson".into(), &"held".into()));
    let holder = &held["holders"][0];
    assert_eq!(holder["holds"], 1);
    assert!(holder["ttl_ms"].as_u64().unwrap() > 25_000);
    let told = format!("job {} {}", held["token"], holder["owner"].as_str().unwrap());
    assert_eq!(lines.next().unwrap(), told);
    assert_eq!(show(&server, "job")["state"], "free");
}

#[test]
fn a_command_that_cannot_run_frees_the_lock() {
    let server = RedisServer::start();
    for (command, expected) in [("no-such-command-anywhere", 127), ("/etc/passwd", 126)] {
        let output = ran(&server, &["run", "job", "--", command]);
        assert_eq!(code(&output), expected, "{output:?}");
        assert_eq!(show(&server, "job")["state"], "free");
    }
    let output = ran(&server, &["run", "job", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(code(&output), 143);
}

#[test]
fn a_held_lock_is_not_acquired_in_time() {
    let server = RedisServer::start();
    for layout in ["redisson", "plain"] {
        let holder = Background::start(&server, &["--layout", layout], layout).started();
        let once = ran(
            &server,
            &["run", "--wait", "0", "--layout", layout, layout, "--", "true"],
        );
        assert_eq!(code(&once), 75, "{once:?}");
        let started = Instant::now();
        let timed = ran(
            &server,
            &["run", "--wait", "400ms", "--layout", layout, layout, "--", "true"],
        );
        assert_eq!(code(&timed), 75, "{timed:?}");
        assert!(started.elapsed() >= Duration::from_millis(400));
        assert_eq!(show(&server, layout)["layout"], layout);
        holder.let_go();
        assert_eq!(holder.ended().0.code(), Some(0));
        let after = ran(
            &server,
            &["run", "--wait", "0", "--layout", layout, layout, "--", "true"],
        );
        assert_eq!(code(&after), 0, "{after:?}");
    }
}

#[test]
fn a_waiting_command_starts_when_the_lock_is_freed() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &[], "job").started();
    let waiting = Background::start(&server, &[], "job");
    holder.let_go();
    assert_eq!(holder.ended().0.code(), Some(0));
    let second = waiting.started();
    second.let_go();
    assert_eq!(second.ended().0.code(), Some(0));
}

#[test]
fn a_signal_while_waiting_leaves_nothing() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &[], "job").started();
    let waiting = Background::start(&server, &[], "job");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    until("the waiter is subscribed", || {
        !runtime.block_on(server.pubsub_channels()).is_empty()
    });
    waiting.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(waiting.ended().0.code(), Some(143));
    holder.let_go();
    assert_eq!(holder.ended().0.code(), Some(0));
    assert_eq!(show(&server, "job")["state"], "free");
    assert!(runtime.block_on(server.pubsub_channels()).is_empty());
}

#[test]
fn a_signal_is_passed_on_and_the_lock_freed() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &[], "job").started();
    holder.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(holder.ended().0.code(), Some(143));
    assert_eq!(show(&server, "job")["state"], "free");
}

#[test]
fn a_forced_unlock_is_told_to_the_holder() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &["--lease", "1500ms"], "job").started();
    let output = ran(&server, &["unlock", "--force", "--json", "--reason", "test", "job"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["freed"], &report["state"]), (&true.into(), &"free".into()));
    assert_eq!(report["holders"].as_array().unwrap().len(), 1);
    // Nothing lets the command go on: the next renewal finds the hold gone, and ends it.
    let (status, text) = holder.ended();
    assert_eq!(status.code(), Some(79), "{text}");
    let again = ran(&server, &["unlock", "--force", "--json", "job"]);
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(report["freed"], false);
    assert_eq!(code(&ran(&server, &["unlock", "job"])), 64, "never without --force");
}

#[test]
fn a_frozen_server_ends_the_command_before_its_key_can_expire() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &["--lease", "1200ms"], "job").started();
    let frozen = Instant::now();
    server.freeze();
    let (status, text) = holder.ended();
    server.thaw();
    assert_eq!(status.code(), Some(79), "{text}");
    // The lease, and the time that the farewell waits for an answer.
    assert!(frozen.elapsed() < Duration::from_secs(9), "{:?}", frozen.elapsed());
}

#[test]
fn a_killed_program_leaves_neither_child_nor_grandchild() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "sleep 300 & echo $! > {0}/grandchild; echo $$ > {0}/child; touch {0}/ready; wait",
        folder.path().display()
    );
    let mut program = lockkeeper(&server)
        .args(["run", "job", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    until("the command started", || folder.path().join("ready").exists());
    program.kill().unwrap();
    program.wait().unwrap();
    for whose in ["child", "grandchild"] {
        let pid = std::fs::read_to_string(folder.path().join(whose)).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        until("the process is gone", || match std::fs::read_to_string(&stat) {
            Ok(text) => text.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'),
            Err(_) => true,
        });
    }
}

#[test]
fn trouble_has_its_own_codes() {
    let server = RedisServer::start();
    let address = server.url();
    server.stop();
    for words in [
        vec!["run", "job", "--", "true"],
        vec!["show", "job"],
        vec!["unlock", "--force", "job"],
    ] {
        let mut command = lockkeeper(&server);
        let output = command.env("LOCKKEEPER_URL", &address).args(&words).output().unwrap();
        assert_eq!(code(&output), 69, "{output:?}");
    }
    for words in [
        vec!["run", "job"],
        vec!["run", "--lease", "0", "job", "--", "true"],
        vec!["run", "--as", "fair", "--at-least", "2s", "job", "--", "true"],
        vec!["run", "--wait", "soon", "job", "--", "true"],
        vec!["run", "--url", "http://127.0.0.1", "job", "--", "true"],
    ] {
        assert_eq!(code(&ran(&server, &words)), 64, "{words:?}");
    }
}

#[test]
fn passwords_are_taken_and_never_shown() {
    const CANARY: &str = "canary-7f3a";
    let server = RedisServer::builder().password(CANARY).start();
    let address = format!("redis://{}", server.address());
    let mut command = lockkeeper(&server);
    let right = command
        .env("LOCKKEEPER_URL", &address)
        .env("LOCKKEEPER_PASSWORD", CANARY)
        .args(["run", "job", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(code(&right), 0, "{right:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{CANARY}\n")).unwrap();
    let mut command = lockkeeper(&server);
    let from_file = command
        .env("LOCKKEEPER_URL", &address)
        .args(["show", "--password-file", file.path().to_str().unwrap(), "job"])
        .output()
        .unwrap();
    assert_eq!(code(&from_file), 0, "{from_file:?}");
    let mut command = lockkeeper(&server);
    let wrong = command
        .env("LOCKKEEPER_URL", &address)
        .env("LOCKKEEPER_PASSWORD", format!("{CANARY}-wrong"))
        .env("RUST_LOG", "trace")
        .args(["show", "job"])
        .output()
        .unwrap();
    assert_ne!(code(&wrong), 0);
    for output in [&right, &from_file, &wrong] {
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!text.contains(CANARY), "{text}");
    }
}
