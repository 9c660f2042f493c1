//! `doctor` and `scripts` as an operator types them, against a real server.

use std::process::{Command, Output, Stdio};

use lockkeeper_testkit::{Authority, RedisServer};
use serde_json::Value;

fn ran(url: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .env("LOCKKEEPER_URL", url)
        .env_remove("LOCKKEEPER_PASSWORD")
        .stdin(Stdio::null())
        .args(words)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output
        .status
        .code()
        .unwrap_or_else(|| panic!("no exit code: {output:?}"))
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_doctor_tells_the_row_and_the_findings_by_its_exit_code_too() {
    let weak = RedisServer::start();
    let output = ran(&weak.url(), &["doctor"]);
    assert_eq!(code(&output), 80, "{output:?}");
    let told = text(&output);
    assert!(told.contains("one server, nothing on disk (P1)"), "{told}");
    assert!(
        told.contains("warning: nothing is written to disk [no-persistence]"),
        "{told}"
    );
    assert!(told.contains("Set appendonly yes."), "{told}");

    let broken = RedisServer::builder()
        .max_memory(100_000_000)
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let output = ran(&broken.url(), &["doctor", "--json"]);
    assert_eq!(code(&output), 81, "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let server = &json["servers"][0];
    assert_eq!(server["row"]["id"], "P1");
    assert_eq!(server["findings"][0]["id"], "eviction");
    assert_eq!(server["findings"][0]["severity"], "serious");

    weak.kill();
    assert_eq!(code(&ran(&weak.url(), &["doctor"])), 69);
    assert_eq!(code(&ran("redis://cache.example", &["doctor"])), 64);
}

#[test]
fn an_administrator_loads_the_scripts_for_a_user_who_may_not() {
    let server = RedisServer::builder()
        .user("app", "on >hunter2 ~* &* +@all -eval -script")
        .start();
    let app = format!("redis://app:hunter2@{}?scripts=preloaded", server.address());
    let output = ran(&app, &["run", "job", "--", "true"]);
    assert_eq!(code(&output), 1, "{output:?}");
    let told = text(&output);
    assert!(
        told.contains("lockkeeper scripts load") && !told.contains("hunter2"),
        "{told}"
    );
    assert_ne!(code(&ran(&app, &["scripts", "load"])), 0);

    let output = ran(&server.url(), &["scripts", "load"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let listed = text(&ran("redis://nowhere", &["scripts", "list"]));
    assert!(
        text(&output).starts_with(&format!("{} scripts are on 1 server", listed.lines().count())),
        "{output:?}"
    );
    assert!(listed.lines().any(|line| line.ends_with("  mutex/acquire")), "{listed}");
    assert_eq!(code(&ran(&app, &["run", "job", "--", "true"])), 0);

    let output = ran("redis://nowhere", &["scripts", "list", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), listed.lines().count());
    assert!(json[0]["text"].as_str().unwrap().contains("redis.call"));
}

#[test]
fn a_command_runs_under_a_lock_over_tls() {
    let builder = RedisServer::builder();
    if !builder.can_speak_tls() {
        return;
    }
    let authority = Authority::new();
    let server = builder
        .tls(&authority.issue(&["localhost"]), &authority)
        .config("tls-auth-clients", "no")
        .start();
    let address = format!("rediss://localhost:{}", server.tls_address().port());
    let trusted = format!("{address}?tls-ca={}", authority.file().display());
    assert_eq!(code(&ran(&trusted, &["run", "job", "--", "true"])), 0);
    let output = ran(&address, &["run", "job", "--", "true"]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(text(&output).contains("tls-ca=FILE"), "{output:?}");
}
