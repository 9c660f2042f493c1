//! `elect`: real processes that lead one after the other.

use std::time::{Duration, Instant};

use lockkeeper_testkit::RedisServer;
use nix::sys::signal::Signal;

use crate::stage::{Background, Program, code, lockkeeper, ran, show, until};

fn candidate(server: &RedisServer, options: &[&str], name: &str) -> Background {
    let options = [options, &["--candidate", name]].concat();
    Background::start_as(server, "elect", &options, &["jobs"])
}

#[test]
fn the_command_runs_while_leading_and_the_next_one_takes_over() {
    let server = RedisServer::start();
    let first = candidate(&server, &[], "one").started();
    let found = show(&server, "jobs");
    assert_eq!((&found["kind"], &found["state"]), (&"election".into(), &"held".into()));
    assert_eq!(found["holders"][0]["candidate"], "one");
    let term = found["token"].as_u64().unwrap();
    let second = candidate(&server, &[], "two");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    until("the second campaigns", || {
        !runtime.block_on(server.pubsub_channels()).is_empty()
    });
    assert!(!second.has_started());
    // A signal is passed on to the command, and ends the program with it.
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ended().0.code(), Some(143));
    let second = second.started();
    let found = show(&server, "jobs");
    assert_eq!(found["holders"][0]["candidate"], "two");
    assert!(found["token"].as_u64().unwrap() > term);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.ended().0.code(), Some(143));
    assert_eq!(show(&server, "jobs")["state"], "free");
}

#[test]
fn the_command_runs_again_at_the_next_term() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let terms = folder.path().join("terms");
    let script = format!("echo $LOCKKEEPER_TOKEN >> {}; exit 3", terms.display());
    let mut program = Program(
        lockkeeper(&server)
            .args(["elect", "jobs", "--", "sh", "-c", &script])
            .spawn()
            .unwrap(),
    );
    let lines = || {
        std::fs::read_to_string(&terms)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    until("three terms", || lines().len() >= 3);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(program.0.id()).unwrap());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let mut status = None;
    until("the end", || {
        status = program.0.try_wait().unwrap();
        status.is_some()
    });
    // Between two terms the signal ends the program, within one its command.
    let ended = status.unwrap().code();
    assert!(ended == Some(143) || ended == Some(3), "{status:?}");
    let terms: Vec<u64> = lines().iter().map(|line| line.parse().unwrap()).collect();
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
    until("nobody leads", || show(&server, "jobs")["state"] == "free");
}

#[test]
fn a_deposed_leader_is_stopped_and_stands_again() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "echo $$ $LOCKKEEPER_TOKEN >> {}/terms; while :; do sleep 0.02; done",
        folder.path().display()
    );
    let _program = Program(
        lockkeeper(&server)
            .args(["elect", "--lease", "1500ms", "jobs", "--", "sh", "-c", &script])
            .spawn()
            .unwrap(),
    );
    let terms = || -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(folder.path().join("terms")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(pid, term)| (pid.to_owned(), term.parse().unwrap()))
            .collect()
    };
    until("the first term", || terms().len() == 1);
    let output = ran(&server, &["unlock", "--force", "--json", "jobs"]);
    assert_eq!(code(&output), 0, "{output:?}");
    until("another term", || terms().len() == 2);
    let terms = terms();
    assert!(terms[0].1 < terms[1].1, "{terms:?}");
    assert!(
        !std::path::Path::new(&format!("/proc/{}", terms[0].0)).exists(),
        "the first command is gone"
    );
}

#[test]
fn once_ends_with_the_commands_code_or_with_79() {
    let server = RedisServer::start();
    let output = ran(&server, &["elect", "--once", "jobs", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code(&output), 7, "{output:?}");
    let deposed = candidate(&server, &["--once", "--lease", "1500ms"], "one").started();
    assert_eq!(code(&ran(&server, &["unlock", "--force", "jobs"])), 0);
    let (status, text) = deposed.ended();
    assert_eq!(status.code(), Some(79), "{text}");
    let output = ran(&server, &["elect", "jobs", "--", "no-such-command-anywhere"]);
    assert_eq!(code(&output), 127, "no term after term of it: {output:?}");
    let output = ran(
        &server,
        &["elect", "--candidate", &"x".repeat(2_000), "jobs", "--", "true"],
    );
    assert_eq!(code(&output), 64, "{output:?}");
}

#[test]
fn a_killed_leader_takes_its_command_along_and_costs_its_lease() {
    let server = RedisServer::start();
    let lease = ["--lease", "2s"];
    let first = candidate(&server, &lease, "one").started();
    let second = candidate(&server, &lease, "two");
    let killed = Instant::now();
    first.signal(Signal::SIGKILL);
    let second = second.started();
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!(show(&server, "jobs")["holders"][0]["candidate"], "two");
    second.signal(Signal::SIGTERM);
    assert_eq!(second.ended().0.code(), Some(143));
}

#[test]
fn a_standby_outlives_an_outage_of_the_server() {
    let server = RedisServer::builder().append_only().start();
    let leader = candidate(&server, &["--once", "--lease", "2s"], "one").started();
    let standby = candidate(&server, &[], "two");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    until("the standby campaigns", || {
        !runtime.block_on(server.pubsub_channels()).is_empty()
    });
    // Longer than a waiting call puts up with by itself, which is ten seconds.
    server.freeze();
    let (status, text) = leader.ended();
    assert_eq!(status.code(), Some(79), "{text}");
    until("the standby is told, and goes on", || {
        standby.errors().contains("campaigning again")
    });
    server.thaw();
    let standby = standby.started();
    assert_eq!(show(&server, "jobs")["holders"][0]["candidate"], "two");
    standby.signal(Signal::SIGTERM);
    assert_eq!(standby.ended().0.code(), Some(143));
}
