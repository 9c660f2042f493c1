//! Scripts: missing, flushed all the time, kept out by somebody else's; and what goes over the line for a call.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, Refusal, Unlocked};
use lockkeeper_testkit::{Matcher, Proxy, wait_until};
use redis::cmd;

use super::bed::{Bed, SOON, locking, soon, traffic};
use super::in_both_layouts;

in_both_layouts!(
    calls_carry_hashes_and_few_bytes,
    a_flush_while_held_is_not_noticed,
    flushes_all_the_time_are_not_noticed,
    a_flush_right_before_the_call_every_time_is_not_noticed,
    a_busy_server_is_waited_for,
    every_prefix_of_requests_leaves_only_keys_that_end,
);

/// B66: one `EVALSHA` a call, the script's text never again, and one command for the whole of each operation.
async fn calls_carry_hashes_and_few_bytes(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let mutex = bed.mutex(&keeper, "bytes");
    bed.proxy.clear_log();
    let requests = bed.proxy.requests();
    for _ in 0..100 {
        mutex.lock().await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(bed.proxy.requests() - requests, 200);
    let guard = mutex.lock().await.unwrap();
    guard.extend(Duration::from_secs(40)).await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(bed.proxy.requests() - requests, 203);
    for request in bed.proxy.log() {
        assert_eq!(request.command, "EVALSHA");
        let bytes: usize = request.arguments.iter().map(Vec::len).sum();
        assert!(bytes < 300, "{bytes} bytes");
    }
}

/// B66: renewal and release meet a server without scripts.
async fn a_flush_while_held_is_not_noticed(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let lease = Lease::renewed(Duration::from_secs(1));
    let guard = bed.mutex(&keeper, "flushed").lease(lease).lock().await.unwrap();
    let flush = async || bed.ask::<()>(cmd("SCRIPT").arg("FLUSH")).await;
    flush().await;
    // Well beyond the lease, so that only renewals can have kept it.
    let held_until = Instant::now() + Duration::from_millis(1500);
    wait_until("a hold kept by renewals", SOON, async || Instant::now() > held_until).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(bed.life("flushed").await > 0);
    flush().await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    flush().await;
    let guard = soon("the lock", bed.mutex(&other, "flushed").try_lock()).await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

/// H32.
async fn flushes_all_the_time_are_not_noticed(layout: Layout) {
    let bed = Bed::new(layout);
    let keepers = [bed.direct().await, bed.direct().await];
    let work = async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4 {
            let mutex = bed
                .mutex(&keepers[task % 2], &format!("flushes{}", task / 2))
                .wait(SOON);
            tasks.spawn(async move {
                for _ in 0..60 {
                    let guard = mutex.lock().await.expect("nothing to be noticed");
                    guard
                        .extend(Duration::from_secs(40))
                        .await
                        .expect("nothing to be noticed");
                    guard.unlock().await.expect("nothing to be noticed");
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    tokio::pin!(work);
    let mut connection = bed.server.connection().await;
    let mut flushes = 0;
    let started = Instant::now();
    loop {
        tokio::select! {
            () = &mut work => break,
            () = tokio::time::sleep(Duration::from_millis(5)) => {
                cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
                flushes += 1;
            }
        }
        assert!(started.elapsed() < SOON, "no end after {flushes} flushes");
    }
    assert!(flushes > 0);
}

/// H32 at its worst: whenever the script was loaded, it is flushed before the call that needs it.
async fn a_flush_right_before_the_call_every_time_is_not_noticed(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let mut connection = bed.server.connection().await;
    let mut flushes = 0;
    cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
    // Between the load, which has run, and the word of it.
    let hold_next_load = || {
        let loads = bed
            .proxy
            .log()
            .into_iter()
            .filter(|request| request.command == "SCRIPT");
        let last = loads.map(|request| request.number).max().unwrap_or_default();
        let later = Matcher::command("SCRIPT").when(move |request| request.number > last);
        bed.proxy.on(later).nth(1).hold_replies()
    };
    let mut load = hold_next_load();
    let call = locking(&bed.mutex(&keeper, "worst").wait(SOON));
    let started = Instant::now();
    while !call.is_finished() && flushes < 6 && started.elapsed() < SOON {
        if load.times_fired() > 0 {
            cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
            flushes += 1;
            std::mem::replace(&mut load, hold_next_load()).release();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    load.release();
    assert!(flushes > 2, "{flushes} flushes show nothing");
    let (guard, _) = soon("the lock", call).await.unwrap().expect("nothing to be noticed");
    guard.unlock().await.unwrap();
}

/// H33: somebody's endless script. It is not ours to kill.
async fn a_busy_server_is_waited_for(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let mut killer = bed.server.connection().await;
    let mut culprit = bed.server.connection().await;
    let () = bed
        .ask(cmd("CONFIG").arg("SET").arg("busy-reply-threshold").arg(50))
        .await;
    let endless = tokio::spawn(async move {
        cmd("EVAL")
            .arg("while true do end")
            .arg(0)
            .exec_async(&mut culprit)
            .await
    });
    wait_until("a busy server", SOON, async || {
        let told = cmd("PING").query_async::<String>(&mut killer).await;
        told.is_err_and(|error| error.code() == Some("BUSY"))
    })
    .await;
    let calls = bed.proxy.requests_of("SCRIPT");
    let waiting = locking(&bed.mutex(&keeper, "busy").wait(SOON));
    wait_until("repeats", SOON, async || traffic(&bed.proxy, "busy").acquires >= 3).await;
    assert!(!waiting.is_finished());
    let short = bed.mutex(&keeper, "busy-too").wait(Duration::from_millis(200));
    let refused = short.lock().await.unwrap_err();
    // Its last copy may have had no time left for an answer.
    let typed = matches!(
        refused,
        Error::Refused {
            refusal: Refusal::NotReady,
            ..
        } | Error::Unreachable { .. }
    );
    assert!(typed, "{refused:?}");
    cmd("SCRIPT").arg("KILL").exec_async(&mut killer).await.unwrap();
    let (guard, _) = soon("the lock after the script", waiting).await.unwrap().unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(
        bed.proxy.requests_of("SCRIPT"),
        calls,
        "the keeper killed or loaded nothing"
    );
    assert!(endless.await.unwrap().is_err());
}

/// B60: a client that dies behind any of its requests. Each step is one command, so there is nothing half done.
async fn every_prefix_of_requests_leaves_only_keys_that_end(layout: Layout) {
    let bed = Bed::new(layout);
    let mut seen = BTreeSet::new();
    let mut complete = false;
    for prefix in 1..=40 {
        // A way of its own, which nobody from an earlier round can use.
        let proxy = Proxy::start(bed.server.address());
        let cut = proxy.on(Matcher::any()).nth(prefix).cut_after_request();
        let name = format!("prefix{prefix}");
        let life = async {
            let keeper = Keeper::connect(&proxy.url()).await?;
            let mutex = bed.mutex(&keeper, &name);
            let guard = mutex.lock().await?;
            guard.extend(Duration::from_secs(35)).await?;
            let inner = guard.reenter()?;
            guard.unlock().await?;
            inner.unlock().await?;
            mutex.lock().await?.extend(Duration::from_secs(35)).await
        };
        let died = async {
            cut.fired().await;
            // No second chance: whatever the client would do to clean up stays inside.
            proxy.refuse_connections();
            proxy.reset_all();
        };
        tokio::select! {
            () = died => {}
            lived = life => {
                // Not yet cut: this was the whole of it, unless the cut is what ended it.
                complete = lived.is_ok() && cut.times_fired() == 0;
            }
        }
        drop(proxy);
        for key in bed.server.keys().await {
            let life = bed.life(&key).await;
            assert!(life != -1, "{key} never ends after {prefix} requests");
            if life > 0 && key.contains(&name) {
                seen.insert(key.replace(&name, "NAME"));
            }
        }
        if complete {
            break;
        }
    }
    assert!(complete, "more than 40 requests");
    // Else nothing was looked at.
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["NAME", "lockkeeper_token:{NAME}"]
    );
}
