//! Everything at once: two Java processes and two Rust processes at random work on the same few names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_interop::load::{Contended, Limit};
use lockkeeper_interop::redisson::{self, Times};
use lockkeeper_testkit::history::{Ending, History};
use lockkeeper_testkit::{Process, RedisServer, wait_until};
use redis::cmd;
use rustix::time::{ClockId, clock_gettime};

use super::stage::SOON;

/// How long the load lasts, in seconds.
const SECONDS: &str = "LOCKKEEPER_INTEROP_SECONDS";

/// The seed of a run that is to be done again.
const SEED: &str = "LOCKKEEPER_INTEROP_SEED";

/// What they fight for: a kind and a name, and a number of permits where there are some.
const OBJECTS: [&str; 6] = [
    "mutex:hot",
    "mutex:{tag}warm",
    "fenced:fenced",
    "fair:fair",
    "rwlock:rwlock",
    "spin:spin",
];

/// Processes of each kind, and threads or tasks in each.
const PROCESSES: u64 = 2;
const TASKS: u64 = 3;

/// A patient wait is over after 30 seconds.
const END: Duration = Duration::from_secs(60);

/// What Java's clock lacks to the one that histories are stamped with: the time that the machine slept.
fn clock_offset() -> i64 {
    let nanoseconds = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    if cfg!(not(target_os = "linux")) {
        return 0;
    }
    let before = nanoseconds(ClockId::Monotonic);
    let boot = nanoseconds(ClockId::Boottime);
    let offset = boot - before;
    // Below a millisecond it is only the time between the two looks.
    if offset < 1_000_000 { 0 } else { offset }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_each() {
    let seconds = std::env::var(SECONDS).map_or(8, |text| text.parse().expect("a number of seconds"));
    let seed: u64 = std::env::var(SEED).map_or_else(
        |_| fastrand::u64(..1 << 32),
        |text| text.parse().expect("a seed, as a run prints it"),
    );
    println!("seed {seed}, {seconds} s");
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(format!("{name}.jsonl"));
    let objects = OBJECTS.join(" ");
    let milliseconds = (seconds * 1000).to_string();

    let javas: Vec<_> = (0..PROCESSES)
        .map(|_| redisson::start(&server, Times::default()))
        .collect();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut theirs = Vec::new();
    for (number, java) in javas.iter().enumerate() {
        let name = format!("java-{number}");
        files.push(file(&name));
        for task in 0..TASKS {
            let seed = seed + 100 * (number as u64 + 1) + task;
            theirs.push(java.thread(format!("load-{task}")).start(format!(
                "load run {name} {} {} {milliseconds} {seed} {objects}",
                file(&name).display(),
                clock_offset(),
            )));
        }
    }
    let mut ours = Vec::new();
    for number in 0..PROCESSES {
        let name = format!("rust-{number}");
        files.push(file(&name));
        let mut arguments = vec![
            "load".to_owned(),
            server.url(),
            name.clone(),
            file(&name).display().to_string(),
            milliseconds.clone(),
            (seed + 1000 * (number + 1)).to_string(),
            TASKS.to_string(),
        ];
        arguments.extend(OBJECTS.map(str::to_owned));
        ours.push(Process::start(env!("CARGO_BIN_EXE_lockkeeper-interop-worker"), arguments).unwrap());
    }

    let limit = Duration::from_secs(seconds) + END;
    let mut grants: Vec<u64> = Vec::new();
    for process in &mut ours {
        let said = process.line_starting_with("grants ", limit).await;
        grants.push(said.expect("a process without a fault").parse().unwrap());
    }
    for pending in theirs {
        grants.push(pending.value().await);
    }
    println!("grants {grants:?}");
    assert!(
        grants.iter().all(|grants| *grants > 0),
        "somebody never had a turn: {grants:?}"
    );
    judge(&server, &files).await;
}

async fn judge(server: &RedisServer, files: &[PathBuf]) {
    let history = History::read(files).unwrap();
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in history.entries() {
        match &entry.ending {
            Some(Ending::Granted(_)) => *counted.entry(&entry.object).or_default() += 1,
            Some(Ending::Refused(reason)) => *refused.entry(reason).or_default() += 1,
            _ => {}
        }
    }
    println!("grants {counted:?}, refused {refused:?}");
    history.assert_sound();
    assert_eq!(refused.get("stuck"), None, "a wait of 30 seconds ended without a grant");
    for contended in OBJECTS.iter().flat_map(|text| Contended::read(text)) {
        for name in &contended.names() {
            match contended.limit {
                Limit::One => {
                    let counter: u64 = server.query(cmd("GET").arg(format!("counter:{name}"))).await;
                    let writes = history
                        .entries()
                        .iter()
                        .filter(|entry| entry.object == *name && entry.grant().is_some())
                        .filter(|entry| entry.sharing == lockkeeper_testkit::history::Sharing::Exclusive)
                        .count() as u64;
                    assert_eq!(counter, writes, "updates of {name} were lost");
                }
                Limit::Readers => {}
                Limit::Permits(limit) => assert_eq!(history.more_than(limit, name), []),
            }
        }
    }
    nothing_is_held(server).await;
}

/// Nothing is left but what the work wrote, the record of tokens, permits, and latches that an old Redisson leaves.
async fn nothing_is_held(server: &RedisServer) {
    const LEFT: [&str; 5] = [
        "counter:",
        "inside:",
        "lockkeeper_token:",
        "redisson_lock_token:",
        "redisson_unlock_latch:",
    ];
    wait_until("an end of all holds and waits", SOON, async || {
        let mut keys = server.keys().await;
        keys.retain(|key| !LEFT.iter().any(|left| key.starts_with(left)));
        let left = (keys, server.pubsub_channels().await);
        if left.0.is_empty() && left.1.is_empty() {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
}
