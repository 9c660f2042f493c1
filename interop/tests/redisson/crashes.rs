//! Processes that are killed while they hold or wait, of each kind at once.

use std::time::Duration;

use lockkeeper::Lease;
use lockkeeper_interop::holding::Kind;

use super::stage::{LONG, Stage, soon};

/// A word of Java's and one of ours that exclude each other.
const PAIRS: [(&str, &str); 7] = [
    ("mutex", "mutex"),
    ("fenced", "fenced"),
    ("fair", "fair"),
    ("write", "write"),
    ("read", "write"),
    ("write", "read"),
    ("spin", "spin"),
];

fn pairs(test: &str) -> impl Iterator<Item = (&'static str, &'static str, Kind, String)> {
    PAIRS.into_iter().map(move |(theirs, ours)| {
        let name = format!("{test}-{theirs}-{ours}");
        (theirs, ours, ours.parse().unwrap(), name)
    })
}

#[tokio::test]
async fn killed_java_holders_are_survived() {
    let stage = Stage::new();
    let java = stage.another_java();
    let keeper = stage.keeper().await;
    let mut waiting = Vec::new();
    for (theirs, _, kind, name) in pairs("java-holder") {
        java.thread("holder").tell(format!("{theirs} lock {name}")).await;
        let keeper = keeper.clone();
        waiting.push(tokio::spawn(async move {
            // While it lives, its watchdog keeps the lock for longer than one watchdog time.
            let wait = Some(Duration::from_secs(4));
            let refused = kind.acquire(&keeper, &name, wait, Lease::fixed(LONG)).await;
            assert!(
                refused.as_ref().is_err_and(lockkeeper::Error::is_contention),
                "{refused:?}"
            );
            name
        }));
    }
    let mut names = Vec::new();
    for refused in waiting {
        names.push(refused.await.unwrap());
    }
    let granted: Vec<_> = pairs("java-holder")
        .map(|(_, _, kind, name)| {
            let keeper = keeper.clone();
            tokio::spawn(async move { kind.acquire(&keeper, &name, None, Lease::fixed(LONG)).await })
        })
        .collect();
    java.kill();
    for (name, granted) in names.iter().zip(granted) {
        let hold = soon(&format!("the end of a dead process's lease of {name}"), granted).await;
        hold.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn killed_rust_holders_are_survived() {
    let stage = Stage::new();
    let objects: Vec<String> = pairs("rust-holder")
        .map(|(_, ours, _, name)| format!("{ours}:{name}"))
        .collect();
    let mut rust = stage.another_rust(&objects).await;
    let mut refused = Vec::new();
    for (theirs, _, _, name) in pairs("rust-holder") {
        // While it lives, its leases are renewed for longer than one lease.
        refused.push(stage.thread(&name).start(format!("{theirs} tryLock {name} 3000")));
    }
    for refused in refused {
        assert!(!refused.value::<bool>().await);
    }
    let mut waiting = Vec::new();
    for (theirs, _, _, name) in pairs("rust-holder") {
        waiting.push((
            stage.thread(&name).start(format!("{theirs} lock {name}")),
            stage.thread(&name).start(format!("{theirs} unlock {name}")),
        ));
    }
    assert!(waiting.iter().all(|(lock, _)| lock.is_under_way()));
    rust.kill().unwrap();
    for (lock, unlock) in waiting {
        soon("the end of a dead process's lease", lock.value::<String>()).await;
        unlock.value::<String>().await;
    }
}

#[tokio::test]
async fn killed_java_waiters_are_survived() {
    let stage = Stage::new();
    let java = stage.another_java();
    let keeper = stage.keeper().await;
    let mut holds = Vec::new();
    for (theirs, _, kind, name) in pairs("java-waiter") {
        // Short and renewed, as a place in a fair queue is kept for the rest of the lease and the waiter's own time.
        let lease = Lease::renewed(Duration::from_secs(3));
        holds.push(kind.acquire(&keeper, &name, None, lease).await.unwrap());
        let _waiting = java.thread(&name).start(format!("{theirs} lock {name}"));
        stage.waiting(theirs, &name, 1).await;
    }
    java.kill();
    for (hold, (_, _, kind, name)) in holds.into_iter().zip(pairs("java-waiter")) {
        hold.release().await.unwrap();
        let next = kind.acquire(&keeper, &name, None, Lease::fixed(LONG));
        soon("a grant past a dead waiter", next)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}
