//! The fair lock: one line on the server, in which Java and Rust stand behind each other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::{Error, Lease};
use redis::cmd;

use super::stage::{LONG, key, ms, soon, stage};

async fn line(name: &str) -> Vec<String> {
    let queue = key("redisson_lock_queue", name);
    stage().server.query(cmd("LRANGE").arg(queue).arg(0).arg(-1)).await
}

#[tokio::test]
async fn first_come_first_served_across_both() {
    let keeper = stage().keeper().await;
    let mutex = keeper.fair_mutex("fair-1").lease(Lease::fixed(LONG));
    let guard = mutex.lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for place in 0..6_u64 {
        let served = Arc::clone(&served);
        if place % 2 == 0 {
            // Java: once granted it is recorded, and only then told to unlock.
            let name = format!("fair-1-{place}");
            let waiting = stage().thread(&name).start("fair lock fair-1 60000");
            waiters.push(tokio::spawn(async move {
                waiting.value::<String>().await;
                served.lock().unwrap().push(place);
                stage().thread(&name).tell("fair unlock fair-1").await;
            }));
        } else {
            // Each from a process of its own as far as the server can tell.
            let mutex = stage().keeper().await.fair_mutex("fair-1").lease(Lease::fixed(LONG));
            waiters.push(tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                served.lock().unwrap().push(place);
                guard.unlock().await.unwrap();
            }));
        }
        stage().in_line("fair-1", place + 1).await;
    }
    // Both read the same order, and who only tries overtakes nobody.
    let found = keeper.inspect("fair-1").await.unwrap();
    assert_eq!(found.kind.as_deref(), Some("fair"));
    let shown: Vec<String> = found.waiting.into_iter().map(|waiter| waiter.owner).collect();
    assert_eq!(shown, line("fair-1").await);
    assert_eq!(shown.len(), 6);
    guard.unlock().await.unwrap();
    for waiter in waiters {
        soon("a turn", waiter).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(line("fair-1").await, Vec::<String>::new());
}

#[tokio::test]
async fn who_gives_up_leaves_no_ghost() {
    let (java, other) = (stage().thread("fair-2"), stage().thread("fair-2-other"));
    let keeper = stage().keeper().await;
    java.tell("fair lock fair-2 60000").await;

    // Ours by its time, ours by being dropped, and Java's.
    let refused = keeper.fair_mutex("fair-2").wait(ms(300)).lock().await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    stage().in_line("fair-2", 0).await;
    let dropped = keeper.fair_mutex("fair-2");
    let waiting = tokio::spawn(async move { dropped.lock().await });
    stage().in_line("fair-2", 1).await;
    waiting.abort();
    stage().in_line("fair-2", 0).await;
    assert!(!other.ask::<bool>("fair tryLock fair-2 300").await);
    stage().in_line("fair-2", 0).await;

    // One in the middle goes, and the one behind it is served in its turn.
    let first = keeper.fair_mutex("fair-2").wait(Duration::from_secs(2));
    let first = tokio::spawn(async move { first.lock().await });
    stage().in_line("fair-2", 1).await;
    let second = other.start("fair lock fair-2 60000");
    stage().in_line("fair-2", 2).await;
    assert!(matches!(first.await.unwrap(), Err(Error::TimedOut { .. })));
    stage().in_line("fair-2", 1).await;
    assert!(second.is_under_way());
    java.tell("fair unlock fair-2").await;
    soon("Java's turn", second.value::<String>()).await;
    other.tell("fair unlock fair-2").await;
}

/// Redisson's own waiters are stranded so: the lock ends without a message, and nobody tells the head.
#[tokio::test]
async fn a_lock_that_ends_without_a_message_strands_nobody() {
    let (java, head) = (stage().thread("fair-3"), stage().thread("fair-3-head"));
    let keeper = stage().keeper().await;
    java.tell("fair lock fair-3 60000").await;
    let first = head.start("fair lock fair-3 60000");
    stage().in_line("fair-3", 1).await;
    let mutex = keeper.fair_mutex("fair-3");
    let second = tokio::spawn(async move { mutex.lock().await });
    stage().in_line("fair-3", 2).await;
    let () = stage().server.query(cmd("DEL").arg("fair-3")).await;
    // Ours looks again behind a Java waiter, and tells it.
    soon("a call to Java's head", first.value::<String>()).await;
    assert!(!second.is_finished());
    head.tell("fair unlock fair-3").await;
    soon("our turn", second).await.unwrap().unwrap().unlock().await.unwrap();
}

/// And where Java's head has given up before, which calls nobody, the one of ours behind it is served all the same.
#[tokio::test]
async fn a_java_head_that_gave_up_strands_nobody_of_ours() {
    let (java, head) = (stage().thread("fair-7"), stage().thread("fair-7-head"));
    let keeper = stage().keeper().await;
    java.tell("fair lock fair-7 60000").await;
    let giving_up = head.start("fair tryLock fair-7 1500");
    stage().in_line("fair-7", 1).await;
    let mutex = keeper.fair_mutex("fair-7");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    stage().in_line("fair-7", 2).await;
    assert!(!giving_up.value::<bool>().await, "it is held");
    stage().in_line("fair-7", 1).await;
    let () = stage().server.query(cmd("DEL").arg("fair-7")).await;
    let guard = soon("a grant by looking again", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
}

/// The other way round we do tell: a head of ours that goes away calls a Java waiter behind it in the same step.
#[tokio::test]
async fn a_head_of_ours_that_gives_up_on_a_free_lock_calls_javas() {
    let (java, behind) = (stage().thread("fair-4"), stage().thread("fair-4-behind"));
    let keeper = stage().keeper().await;
    java.tell("fair lock fair-4 60000").await;
    let mutex = keeper.fair_mutex("fair-4").wait(Duration::from_secs(20));
    let head = tokio::spawn(async move { mutex.lock().await });
    stage().in_line("fair-4", 1).await;
    let waiting = behind.start("fair lock fair-4 60000");
    stage().in_line("fair-4", 2).await;
    // Freed without a message, and then the head is dropped.
    let () = stage().server.query(cmd("DEL").arg("fair-4")).await;
    head.abort();
    soon("a call to Java", waiting.value::<String>()).await;
    behind.tell("fair unlock fair-4").await;
}

#[tokio::test]
async fn a_dead_waiter_of_ours_costs_java_one_grace() {
    let (java, behind) = (stage().thread("fair-5"), stage().thread("fair-5-behind"));
    java.tell("fair lock fair-5 3000").await;
    let mut dead = stage().start_rust(&["fair:fair-5".to_owned()]);
    stage().in_line("fair-5", 1).await;
    let waiting = behind.start("fair lock fair-5 60000");
    stage().in_line("fair-5", 2).await;
    dead.kill().unwrap();
    // Three seconds of lease and five of grace; Java alone would keep the dead one for five minutes.
    let limit = Duration::from_secs(30);
    let granted = tokio::time::timeout(limit, waiting.value::<String>()).await;
    granted.expect("a grant after lease and grace");
    behind.tell("fair unlock fair-5").await;
}

#[tokio::test]
async fn who_only_tries_overtakes_nobody() {
    let (java, keeper) = (stage().thread("fair-6"), stage().keeper().await);
    let waiter = stage().another_java();
    java.tell("fair lock fair-6 60000").await;
    let _waiting = waiter.thread("waiter").start("fair lock fair-6 60000");
    stage().in_line("fair-6", 1).await;
    // Free, while a waiter is at the head that does not come; for others it is alive until its time is over.
    waiter.kill();
    let () = stage().server.query(cmd("DEL").arg("fair-6")).await;
    let refused = keeper.fair_mutex("fair-6").try_lock().await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert!(!java.ask::<bool>("fair tryLock fair-6").await);
    stage().in_line("fair-6", 1).await;
}
