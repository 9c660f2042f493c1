//! The ticket sale: what it prints, what it leaves behind, and what it survives.

use lockkeeper_testkit::process::Process;
use lockkeeper_testkit::{RedisServer, wait_until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// How many tickets the sale with a killed server has; 600 unless set.
const TICKETS_VARIABLE: &str = "LOCKKEEPER_DEMO_TICKETS";
const FIELDS: [&str; 11] = [
    "strategy",
    "stock",
    "requests",
    "sold",
    "oversold",
    "lost_updates",
    "seconds",
    "requests_per_second",
    "wait_p50_us",
    "wait_p99_us",
    "round_trips_per_sale",
];

fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.arg("demo").args(words);
    command
}

fn demo(words: &[&str]) -> Output {
    program(words).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The reports of a run that ended well.
fn reports(output: &Output) -> Vec<Value> {
    let problem = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{problem}");
    assert_eq!(problem, "", "nothing to complain about, and no bar outside a terminal");
    text(&output.stdout).lines().map(report).collect()
}

fn report(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
}

fn count(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

fn assert_exact(report: &Value, stock: u64) {
    assert_eq!(
        (
            count(report, "sold"),
            count(report, "oversold"),
            count(report, "lost_updates")
        ),
        (stock, 0, 0),
        "{report}"
    );
}

fn assert_all_strategies(reports: &[Value]) {
    let names: Vec<_> = reports.iter().map(|report| report["strategy"].as_str()).collect();
    assert_eq!(names, [Some("none"), Some("optimistic"), Some("spin"), Some("mutex")]);
    assert!(count(&reports[0], "oversold") > 0, "{}", reports[0]);
    assert!(count(&reports[0], "lost_updates") > 0, "{}", reports[0]);
    for report in &reports[1..] {
        assert_exact(report, 200);
    }
}

#[test]
fn with_nothing_but_the_program_only_the_unguarded_sale_oversells() {
    let output = demo(&["--json"]);
    let reports = reports(&output);
    assert_all_strategies(&reports);
    for line in text(&output.stdout).lines() {
        let places: Vec<_> = FIELDS.iter().map(|field| line.find(&format!("\"{field}\":"))).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{line}");
        assert_eq!(report(line).as_object().map(serde_json::Map::len), Some(FIELDS.len()));
    }
    for report in &reports {
        assert!(count(report, "requests") > count(report, "stock"), "{report}");
        assert!(report["round_trips_per_sale"].as_f64() >= Some(2.0), "{report}");
        assert!(report["requests_per_second"].as_f64() > Some(0.0), "{report}");
    }
}

#[test]
fn the_unguarded_sale_oversells_every_time() {
    for _ in 0..20 {
        let reports = reports(&demo(&["--json", "--strategy", "none"]));
        assert_eq!(reports.len(), 1);
        assert!(count(&reports[0], "oversold") > 0, "{}", reports[0]);
    }
}

#[test]
fn people_get_a_table_without_control_characters() {
    let output = demo(&["--strategy", "mutex", "--strategy", "none"]);
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stdout);
    for part in [
        "strategy",
        "lost updates",
        "wait p99",
        "round trips/sale",
        "none",
        "mutex",
    ] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(!table.contains("spin") && !table.contains('\u{1b}'), "{table}");
}

#[test]
fn a_server_that_is_not_there_is_69_and_nothing_is_printed() {
    // Port 1 is reserved and nobody's.
    let output = demo(&["--json", "--redis", "redis://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server_all_strategies_sell_and_leave_nothing_behind() {
    let server = RedisServer::start();
    assert_all_strategies(&reports(&demo(&["--json", "--redis", &server.url()])));
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_one_stock_and_the_password_is_passed_on_unseen() {
    let server = RedisServer::builder().password("canary").start();
    let output = demo(&["--json", "--processes", "4", "--redis", &server.url()]);
    assert!(!text(&output.stderr).contains("canary"));
    assert_all_strategies(&reports(&output));
    assert_eq!(server.keys().await, Vec::<String>::new());
}

/// The numbers of the processes that this one started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a living process");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A sale that goes on until it is told otherwise, on four processes.
fn start_sale(server: &RedisServer, strategy: &str, stock: u64) -> Process {
    let stock_text = stock.to_string();
    let requests = (stock + 100).to_string();
    let url = server.url();
    let command = program(&[
        "--json",
        "--processes",
        "4",
        "--strategy",
        strategy,
        "--redis",
        &url,
        "--stock",
        &stock_text,
        "--requests",
        &requests,
    ]);
    Process::from_command(command).expect("the program")
}

/// What the stored count says, once there is one.
async fn left(server: &RedisServer) -> Option<u64> {
    let keys = server.keys().await;
    let key = keys.iter().find(|key| key.ends_with(":stock"))?;
    server.query(redis::cmd("HGET").arg(key).arg("left")).await
}

async fn until_left_below(server: &RedisServer, bound: u64) -> u64 {
    wait_until("tickets to be sold", Duration::from_secs(120), async || {
        match left(server).await {
            Some(left) if left < bound => Ok(left),
            seen => Err(seen),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mutex_oversells_nothing_while_its_server_is_killed_and_restarted_with_its_data() {
    let tickets = std::env::var(TICKETS_VARIABLE).map_or(600, |text| text.parse().expect(TICKETS_VARIABLE));
    let server = RedisServer::builder()
        .append_only()
        .config("appendfsync", "always")
        .start();
    let mut sale = start_sale(&server, "mutex", tickets);
    for part in [2, 1] {
        let before = until_left_below(&server, tickets * part / 3).await;
        assert!(before > 0, "the sale was over before the server was killed");
        server.kill();
        assert!(sale.is_running());
        server.restart();
        let after = left(&server).await.expect("the stock came back with the data");
        assert!(after > 0 && after <= before, "{before} before, {after} after");
    }
    let line = sale.next_line(Duration::from_secs(300)).await.expect("a report");
    let status = sale.wait(Duration::from_secs(30)).await.expect("the end");
    assert!(status.success(), "{status} after {line}");
    assert_exact(&report(&line), tickets);
    println!("{line}");
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_written_locks_and_optimism_survive_a_restart_too() {
    for strategy in ["spin", "optimistic"] {
        let server = RedisServer::builder()
            .append_only()
            .config("appendfsync", "always")
            .start();
        let mut sale = start_sale(&server, strategy, 150);
        until_left_below(&server, 100).await;
        server.restart();
        let line = sale.next_line(Duration::from_secs(120)).await.expect("a report");
        let status = sale.wait(Duration::from_secs(30)).await.expect("the end");
        assert!(status.success(), "{status} after {line}");
        assert_exact(&report(&line), 150);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_ends_by_itself_and_a_stock_that_vanished_is_no_result() {
    let server = RedisServer::builder().append_only().start();
    let mut sale = start_sale(&server, "mutex", 100_000);
    until_left_below(&server, 99_950).await;
    let keys = server.keys().await;
    assert!(keys.len() >= 2, "{keys:?}");
    for key in keys {
        assert!(key.contains("lockkeeper-demo:"), "{key}");
        let life: i64 = server.query(redis::cmd("PTTL").arg(&key)).await;
        // -2: the lock was freed in the meantime. -1 would be a key for ever.
        assert!(life == -2 || (1..=900_000).contains(&life), "{key}: {life}");
    }
    server.restart_empty();
    let silence = sale.next_line(Duration::from_secs(60)).await.expect_err("no report");
    assert_eq!(silence.kind(), std::io::ErrorKind::UnexpectedEof);
    let status = sale.wait(Duration::from_secs(30)).await.expect("the end");
    assert_eq!(status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_show_no_address_and_end_with_their_parent_however_it_ends() {
    let server = RedisServer::builder().password("canary").start();
    let mut sale = start_sale(&server, "mutex", 100_000);
    until_left_below(&server, 99_950).await;
    let children = children(sale.pid());
    assert_eq!(children.len(), 4, "{children:?}");
    for child in &children {
        let line = fs::read(format!("/proc/{child}/cmdline")).expect("a living child");
        assert!(text(&line).ends_with("__buyers\0"), "{}", text(&line));
    }
    sale.kill().expect("killed");
    for child in children {
        let folder = format!("/proc/{child}");
        wait_until("a child to end", Duration::from_secs(10), async || {
            let state = fs::read_to_string(Path::new(&folder).join("stat")).unwrap_or_default();
            // A zombie has ended; whoever inherited it may take its time to notice.
            state.is_empty() || state.contains(") Z ")
        })
        .await;
    }
}
