//! Optimistic updates.

use std::sync::atomic::AtomicUsize;

use redis::{Commands, Connection};

use super::*;
use crate::engine::redis::optimistic::{Change, Decision};
use crate::error::{Effect, Refusal};

/// A connection on which a decision can act at once, being no async code itself.
fn meddler(stage: &Stage) -> Connection {
    redis::Client::open(stage.server.url())
        .unwrap()
        .get_connection()
        .unwrap()
}

fn number(value: Option<&Vec<u8>>) -> u64 {
    value.map_or(0, |text| String::from_utf8_lossy(text).parse().unwrap())
}

#[tokio::test]
async fn values_are_shown_and_changes_are_made_together() {
    let stage = Stage::new().await;
    stage.ask::<()>(&["SET", "a", "1", "PX", "50000"]).await;
    stage.ask::<()>(&["SET", "gone", "x"]).await;
    let outcome = stage
        .engine
        .updates()
        .update(&["a", "none", "gone"], |values| {
            assert_eq!(values, [Some(b"1".to_vec()), None, Some(b"x".to_vec())]);
            Decision::write(
                [
                    Change::set("a", "2"),
                    Change::set("none", vec![0, 255]),
                    Change::set_for("short", "s", Duration::from_millis(40_000)),
                    Change::delete("gone"),
                ],
                "done",
            )
        })
        .await;
    assert_eq!(outcome, Ok("done"));
    let kept: i64 = stage.ask(&["PTTL", "a"]).await;
    let short: i64 = stage.ask(&["PTTL", "short"]).await;
    assert!((45_000..=50_000).contains(&kept) && (35_000..=40_000).contains(&short));
    assert_eq!(stage.ask::<i64>(&["PTTL", "none"]).await, -1);
    assert_eq!(stage.ask::<Vec<u8>>(&["GET", "none"]).await, [0, 255]);
    assert_eq!(stage.ask::<String>(&["GET", "a"]).await, "2");
    assert!(!stage.ask::<bool>(&["EXISTS", "gone"]).await);
}

#[tokio::test]
async fn a_decision_not_to_write_writes_nothing() {
    let stage = Stage::new().await;
    let outcome = stage
        .engine
        .updates()
        .update(&["a"], |values| Decision::keep(values[0].is_none()))
        .await;
    assert_eq!(outcome, Ok(true));
    assert_eq!(
        stage
            .engine
            .updates()
            .update(&[] as &[&str], |_| Decision::keep(7))
            .await,
        Ok(7)
    );
    assert!(stage.server.keys().await.is_empty());
}

#[tokio::test]
async fn a_change_in_between_is_seen_and_decided_anew() {
    let stage = Stage::new().await;
    let mut meddler = meddler(&stage);
    let mut shown = Vec::new();
    let outcome = stage
        .engine
        .updates()
        .update(&["a"], |values| {
            let seen = number(values[0].as_ref());
            shown.push(seen);
            if shown.len() < 3 {
                let _: () = meddler.set("a", seen + 10).unwrap();
            }
            Decision::write([Change::set("a", (seen + 1).to_string())], seen + 1)
        })
        .await;
    assert_eq!(outcome, Ok(21));
    assert_eq!(shown, [0, 10, 20]);
    assert_eq!(stage.ask::<u64>(&["GET", "a"]).await, 21);
}

#[tokio::test]
async fn a_conflict_every_time_is_told_and_nothing_is_written() {
    let stage = Stage::new().await;
    let mut meddler = meddler(&stage);
    let outcome = stage
        .engine
        .updates()
        .clone()
        .attempts(4)
        .update(&["a"], |values| {
            let seen = number(values[0].as_ref());
            let _: () = meddler.set("a", seen + 1).unwrap();
            Decision::write([Change::set("a", "ours"), Change::set("b", "ours")], ())
        })
        .await;
    assert_eq!(outcome, Err(Error::Conflict { attempts: 4 }));
    assert_eq!(stage.ask::<u64>(&["GET", "a"]).await, 4);
    assert!(!stage.ask::<bool>(&["EXISTS", "b"]).await);
}

#[tokio::test]
async fn no_update_is_lost_among_many() {
    let stage = Stage::new().await;
    let updates = stage.engine.updates().clone().attempts(1000);
    let workers: Vec<_> = (0..6)
        .map(|_| {
            let updates = updates.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    updates
                        .update(&["stock"], |values| {
                            let next = number(values[0].as_ref()) + 1;
                            Decision::write([Change::set("stock", next.to_string())], ())
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(stage.ask::<u64>(&["GET", "stock"]).await, 120);
    let clients = stage.server.client_list().await;
    let ours = clients.iter().filter(|client| client.name() == "lockkeeper").count();
    assert!(ours <= 1 + 4, "one for the keeper, four kept: {ours}");
}

#[tokio::test]
async fn another_kind_of_key_is_told() {
    let stage = Stage::new().await;
    stage.ask::<u64>(&["RPUSH", "list\n", "x"]).await;
    let decide = |_: &[Option<Vec<u8>>]| -> Decision<()> { panic!("there is nothing to show") };
    assert_eq!(
        stage.engine.updates().update(&["a", "list\n"], decide).await,
        Err(Error::WrongKind {
            name: "list\\n".to_owned(),
            wanted: "string",
            found: "list".to_owned()
        })
    );
}

#[tokio::test]
async fn a_full_server_refuses_the_whole() {
    let stage = Stage::new().await;
    stage.ask::<()>(&["SET", "gone", "x"]).await;
    stage.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let decide = |_: &[Option<Vec<u8>>]| Decision::write([Change::delete("gone"), Change::set("a", "1")], ());
    let outcome = stage.engine.updates().update(&["a"], decide).await;
    assert!(
        matches!(
            &outcome,
            Err(Error::Refused {
                refusal: Refusal::OutOfMemory,
                effect: Effect::None,
                ..
            })
        ),
        "{outcome:?}"
    );
    assert!(stage.ask::<bool>(&["EXISTS", "gone"]).await);
}

/// A future dropped while it watches: its connection is closed, so that no later update fails for its sake.
#[tokio::test]
async fn a_dropped_update_leaves_nothing_watched() {
    let stage = Stage::new().await;
    let updates = stage.engine.updates();
    let write = |_: &[Option<Vec<u8>>]| Decision::write([Change::set("mine", "1")], ());
    updates.update(&["mine"], write).await.unwrap();

    let watching = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let seen = Arc::clone(&watching);
        let mut meddler = meddler(&stage);
        let update = updates.update(&["watched"], move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            // The attempt will fail, and the update rest before the next one: there it is dropped.
            let _: () = meddler.incr("watched", 1).unwrap();
            Decision::write([Change::set("watched", "x")], ())
        });
        let before = watching.load(Ordering::Relaxed);
        tokio::select! {
            outcome = update => panic!("{outcome:?}"),
            () = async {
                while watching.load(Ordering::Relaxed) < before + 3 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        // A watched key that changed would make this fail on such a connection.
        stage.ask::<u64>(&["INCR", "watched"]).await;
        let once = updates.clone().attempts(1);
        assert_eq!(once.update(&["mine"], write).await, Ok(()));
    }
}

#[tokio::test]
async fn a_kept_connection_that_was_cut_is_replaced() {
    let stage = Stage::new().await;
    let write = |_: &[Option<Vec<u8>>]| Decision::write([Change::set("a", "1")], ());
    stage.engine.updates().update(&["a"], write).await.unwrap();
    stage.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    stage.engine.updates().update(&["a"], write).await.unwrap();
    stage.server.kill();
    let outcome = stage.engine.updates().update(&["a"], write).await;
    assert!(
        matches!(
            &outcome,
            Err(Error::Unreachable {
                effect: Effect::None,
                ..
            })
        ),
        "{outcome:?}"
    );
}
