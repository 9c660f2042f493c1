//! Latch and semaphores as Redisson stores and signals them, step by step; and what a server without memory refuses.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use lockkeeper_testkit::wait_until;
use redis::aio::PubSub;

use super::*;
use crate::engine::{Action, Busy, Cause, Kind, NEVER, Operation, Outcome};
use crate::error::Refusal;

/// The messages of every channel, heard by a client of its own.
struct Ear(PubSub);

impl Ear {
    async fn new(stage: &Stage) -> Self {
        let client = redis::Client::open(stage.server.url()).unwrap();
        let mut subscriber = client.get_async_pubsub().await.unwrap();
        subscriber.psubscribe("*").await.unwrap();
        Self(subscriber)
    }

    /// Everything that was said since the last time, in order. A mark of our own comes last.
    async fn heard(&mut self, stage: &Stage) -> Vec<(String, String)> {
        let _: u64 = stage.ask(&["PUBLISH", "mark", "mark"]).await;
        let mut heard = Vec::new();
        let mut messages = self.0.on_message();
        loop {
            let message = messages.next().await.expect("the connection lives");
            if message.get_channel_name() == "mark" {
                return heard;
            }
            heard.push((message.get_channel_name().to_owned(), message.get_payload().unwrap()));
        }
    }
}

fn of(kind: Kind, name: &str) -> Arc<Target> {
    Arc::new(Target::new(kind, Name::new(name).unwrap()))
}

async fn operate(stage: &Stage, target: &Arc<Target>, action: Action) -> Outcome {
    operate_as(stage, target, action, owner()).await
}

async fn operate_as(stage: &Stage, target: &Arc<Target>, action: Action, mark: Owner) -> Outcome {
    let operation = Operation {
        target: Arc::clone(target),
        action,
        mark,
        copies: Arc::new(Copies::new()),
    };
    match stage.perform(Step::Operate(operation)).await.unwrap().reply {
        Reply::Operated(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// So many ids that nobody else has.
fn ids(count: u32) -> Owner {
    crate::base::owner::OwnerSource::new().next_permits(count)
}

fn bytes(owner: &Owner) -> BTreeSet<Vec<u8>> {
    let byte = |id: &str, place: usize| u8::from_str_radix(&id[place..place + 2], 16).unwrap();
    owner
        .permits()
        .map(|id| (0..32).step_by(2).map(|place| byte(id, place)).collect())
        .collect()
}

fn leased(target: &Arc<Target>, owner: &Owner, lease: u64) -> Acquire {
    Acquire {
        lease,
        ..asking(target, owner)
    }
}

fn said(channel: &str, message: &str) -> (String, String) {
    (channel.to_owned(), message.to_owned())
}

fn set(permits: u64) -> Action {
    Action::TrySetPermits { permits, life: None }
}

fn add(permits: i64) -> Action {
    Action::AddPermits {
        permits,
        if_there: false,
    }
}

#[tokio::test]
async fn a_latch_says_zero_only_when_it_reaches_zero() {
    let stage = Stage::new().await;
    let mut ear = Ear::new(&stage).await;
    for (name, channel) in [
        ("x", "redisson_countdownlatch__channel__{x}"),
        // Redisson adds braces whatever the name has.
        ("{orders}:42", "redisson_countdownlatch__channel__{{orders}:42}"),
    ] {
        let target = of(Kind::Latch, name);
        assert_eq!(operate(&stage, &target, Action::SetCount(2)).await, Outcome::Number(1));
        assert_eq!(ear.heard(&stage).await, [said(channel, "1")]);
        assert_eq!(operate(&stage, &target, Action::SetCount(9)).await, Outcome::Number(0));
        assert_eq!(operate(&stage, &target, Action::CountDown).await, Outcome::Number(1));
        assert_eq!(stage.ask::<String>(&["GET", name]).await, "1");
        assert_eq!(stage.ask::<i64>(&["PTTL", name]).await, -1, "as Redisson leaves it");
        assert_eq!(ear.heard(&stage).await, []);
        let last = owner();
        for _ in 0..2 {
            // The repeat of the last count-down neither counts nor signals.
            let down = operate_as(&stage, &target, Action::CountDown, last.clone()).await;
            assert_eq!(down, Outcome::Number(0));
        }
        assert_eq!(ear.heard(&stage).await, [said(channel, "0")]);
        assert!(!stage.ask::<bool>(&["EXISTS", name]).await);
        assert_eq!(operate(&stage, &target, Action::CountDown).await, Outcome::Number(0));
        assert_eq!(operate(&stage, &target, Action::RemoveLatch).await, Outcome::Number(0));
        assert_eq!(ear.heard(&stage).await, []);
        assert!(!stage.ask::<bool>(&["EXISTS", name]).await, "no key below zero");
        operate(&stage, &target, Action::SetCount(3)).await;
        assert_eq!(operate(&stage, &target, Action::RemoveLatch).await, Outcome::Number(1));
        assert_eq!(ear.heard(&stage).await, [said(channel, "1"), said(channel, "1")]);
    }
    for key in stage.server.keys().await {
        assert_ne!(stage.ask::<i64>(&["PTTL", &key]).await, -1, "{key} never ends");
    }
}

/// The layout's example.
#[tokio::test]
async fn the_plain_semaphore_is_a_number_and_tells_the_new_one() {
    let stage = Stage::new().await;
    let mut ear = Ear::new(&stage).await;
    let target = of(Kind::Counter, "x");
    let channel = "redisson_sc:{x}";
    operate(&stage, &target, add(5)).await;
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "5");
    assert_eq!(ear.heard(&stage).await, [said(channel, "5")]);
    let taker = owner();
    let two = Acquire {
        permits: 2,
        ..asking(&target, &taker)
    };
    for _ in 0..2 {
        stage.granted(&two).await;
        assert_eq!(
            stage.ask::<String>(&["GET", "x"]).await,
            "3",
            "a repeat takes nothing more"
        );
    }
    let mark = owner();
    for _ in 0..2 {
        operate_as(&stage, &target, add(1), mark.clone()).await;
    }
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "4");
    assert_eq!(ear.heard(&stage).await, [said(channel, "4")]);
    assert_eq!(operate(&stage, &target, Action::DrainPermits).await, Outcome::Number(4));
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "0");
    // Below one nothing is told: Java's listener stumbles over it.
    operate(&stage, &target, add(-3)).await;
    operate(&stage, &target, add(2)).await;
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "-1");
    assert_eq!(ear.heard(&stage).await, []);
    // What its caller never took comes back once, and a late copy takes nothing.
    for _ in 0..2 {
        let given_back = stage.release(&target, &taker).await.unwrap();
        let first = stage.ask::<String>(&["GET", "x"]).await == "1" && given_back != Released::NotThere;
        assert!(first || given_back == Released::NotThere, "{given_back:?}");
    }
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "1");
    assert_eq!(ear.heard(&stage).await, [said(channel, "1")]);
    let one = Acquire { permits: 1, ..two };
    assert_eq!(stage.acquire(&one).await, Ok(Acquired::Busy(Busy::until(None))));
    // The same if the release comes before the request that it undoes.
    let early = owner();
    assert_eq!(stage.release(&target, &early).await, Ok(Released::NotThere));
    let late = Acquire {
        permits: 1,
        ..asking(&target, &early)
    };
    assert_eq!(stage.acquire(&late).await, Ok(Acquired::Busy(Busy::until(None))));
    assert_eq!(stage.ask::<String>(&["GET", "x"]).await, "1");
    let life = Some(60_000);
    assert_eq!(
        operate(
            &stage,
            &of(Kind::Counter, "y"),
            Action::TrySetPermits { permits: 1, life }
        )
        .await,
        Outcome::Number(1)
    );
    operate(&stage, &of(Kind::Counter, "y"), add(1)).await;
    assert!(
        stage.ask::<i64>(&["PTTL", "y"]).await > 50_000,
        "adding leaves the life alone"
    );
}

/// The layout's test vector for the expirable semaphore. Where Redisson publishes how many were released, we publish how many
/// are available then.
#[tokio::test]
async fn leased_permits_are_kept_as_redisson_keeps_them() {
    let stage = Stage::new().await;
    let mut ear = Ear::new(&stage).await;
    let target = of(Kind::Permits, "s");
    let channel = "redisson_sc:{s}";
    let value = async || stage.ask::<String>(&["GET", "s"]).await;
    assert_eq!(operate(&stage, &target, set(3)).await, Outcome::Number(1));
    assert_eq!(operate(&stage, &target, set(9)).await, Outcome::Number(0));
    assert_eq!(ear.heard(&stage).await, [said(channel, "3")]);
    let short = ids(1);
    stage.granted(&leased(&target, &short, 200)).await;
    assert_eq!(value().await, "2");
    // Two of Java's, which never end.
    let java = ids(2);
    for id in bytes(&java) {
        let mut command = redis::cmd("ZADD");
        command.arg("{s}:timeout").arg(NEVER).arg(id);
        let _: u64 = stage.server.query(&command).await;
    }
    let _: i64 = stage.ask(&["DECRBY", "s", "2"]).await;
    let left = stage.busy_as(&target, &ids(1)).await;
    assert!(left.is_some_and(|left| (1..=200).contains(&left)), "{left:?}");
    let next = ids(1);
    let granted = wait_until("the end of the short one", LIMIT, async || {
        matches!(
            stage.acquire(&leased(&target, &next, 30_000)).await,
            Ok(Acquired::Granted { .. })
        )
    });
    granted.await;
    assert_eq!(value().await, "0");
    assert_eq!(ear.heard(&stage).await, [said(channel, "1")], "what ended is told");
    let mut members: Vec<Vec<u8>> = {
        let mut command = redis::cmd("ZRANGE");
        stage.server.query(command.arg("{s}:timeout").arg(0).arg(-1)).await
    };
    members.sort();
    let expected: Vec<_> = bytes(&java).union(&bytes(&next)).cloned().collect();
    assert_eq!(members, expected, "ids are raw bytes");
    assert_eq!(
        stage.ask::<i64>(&["PTTL", "{s}:timeout"]).await,
        -1,
        "as long as the number"
    );

    // Of those that are left one ends in half a minute, and Java's never.
    let left = stage.busy_as(&target, &ids(1)).await;
    assert!(left.is_some_and(|left| left > 25_000 && left <= 30_000), "{left:?}");
    assert_eq!(stage.release(&target, &short).await, Ok(Released::NotThere));
    assert!(matches!(
        stage.release(&target, &next).await,
        Ok(Released::Freed { .. })
    ));
    assert_eq!(stage.release(&target, &next).await, Ok(Released::NotThere));
    assert_eq!(
        (value().await, ear.heard(&stage).await),
        ("1".to_owned(), vec![said(channel, "1")])
    );
    stage.granted(&leased(&target, &ids(1), 30_000)).await;
    let _: i64 = stage
        .ask(&["ZREMRANGEBYSCORE", "{s}:timeout", "0", "900000000000000"])
        .await;
    assert_eq!(
        stage.busy_as(&target, &ids(1)).await,
        None,
        "only what never ends is left"
    );
    let inspection = stage.inspect(&target).await;
    assert_eq!((&*inspection.kind, inspection.holders.len()), ("permits", 2));
    assert!(inspection.holders.iter().all(|holder| holder.time_left.is_none()));
    assert!(matches!(
        stage.release(&target, &java).await,
        Ok(Released::Freed { .. })
    ));
    assert_eq!(
        (value().await, ear.heard(&stage).await),
        ("2".to_owned(), vec![said(channel, "2")])
    );
}

#[tokio::test]
async fn permits_that_ended_come_back_with_whatever_happens_next() {
    let stage = Stage::new().await;
    let target = of(Kind::Permits, "s");
    operate(&stage, &target, set(10)).await;
    let (kept, ended) = (ids(3), ids(3));
    stage.granted(&leased(&target, &kept, 30_000)).await;
    stage.granted(&leased(&target, &ended, 1)).await;
    wait_until("three have ended", LIMIT, async || {
        operate(&stage, &target, Action::CountPermits).await
            == Outcome::Permits {
                available: 7,
                acquired: 3,
            }
    })
    .await;
    assert_eq!(stage.ask::<String>(&["GET", "s"]).await, "4", "a look changes nothing");
    let mut ear = Ear::new(&stage).await;
    assert_eq!(
        stage.release(&target, &kept).await,
        Ok(Released::Freed { receivers: 1 })
    );
    assert_eq!(stage.ask::<String>(&["GET", "s"]).await, "10");
    assert_eq!(ear.heard(&stage).await, [said("redisson_sc:{s}", "10")]);
    assert_eq!(stage.release(&target, &ended).await, Ok(Released::NotThere));
    assert_eq!(stage.ask::<String>(&["GET", "s"]).await, "10", "never twice");
}

#[tokio::test]
async fn renewal_moves_ends_on_and_takes_nothing_again() {
    let stage = Stage::new().await;
    let target = of(Kind::Permits, "s");
    operate(&stage, &target, set(10)).await;
    let (held, ended, unknown) = (ids(2), ids(2), ids(1));
    stage.granted(&leased(&target, &held, 5_000)).await;
    stage.granted(&leased(&target, &ended, 1)).await;
    wait_until("two have ended", LIMIT, async || {
        operate(&stage, &target, Action::CountPermits).await
            == Outcome::Permits {
                available: 8,
                acquired: 2,
            }
    })
    .await;
    let renew = |owner: &Owner, lease, longest| Renew {
        lease,
        longest,
        ..renewing(&target, owner)
    };
    let entries = vec![
        renew(&ended, 30_000, 30_000),
        renew(&held, 30_000, 30_000),
        renew(&unknown, 30_000, 30_000),
    ];
    let renewed = stage.renew(entries).await.unwrap();
    assert_eq!(renewed, [Ok(Renewed::Gone), Ok(Renewed::Held), Ok(Renewed::Gone)]);
    let left = async || {
        let holders = stage.inspect(&target).await.holders;
        assert_eq!(holders.len(), 2);
        holders.iter().map(|holder| holder.time_left.unwrap()).min().unwrap()
    };
    assert!(left().await > 25_000);
    // A shorter wish shortens nothing, unless more is left than was ever asked for.
    stage
        .renew(vec![renew(&held, 1_000, 30_000)])
        .await
        .unwrap()
        .pop()
        .unwrap()
        .unwrap();
    assert!(left().await > 25_000);
    stage
        .renew(vec![renew(&held, 1_000, 2_000)])
        .await
        .unwrap()
        .pop()
        .unwrap()
        .unwrap();
    assert!(left().await <= 2_000);
}

#[tokio::test]
async fn without_memory_nothing_new_is_taken_and_holders_go_on() {
    let stage = Stage::new().await;
    let (target, counter) = (of(Kind::Permits, "s"), of(Kind::Counter, "c"));
    operate(&stage, &target, set(5)).await;
    operate(&stage, &counter, set(5)).await;
    let (held, taker) = (ids(2), owner());
    stage.granted(&leased(&target, &held, 20_000)).await;
    let taking = Acquire {
        permits: 2,
        ..asking(&counter, &taker)
    };
    stage.granted(&taking).await;
    let _: () = stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for refused in [
        stage.acquire(&leased(&target, &ids(1), 20_000)).await,
        stage.acquire(&asking(&counter, &owner())).await,
    ] {
        assert!(
            matches!(&refused, Err(error) if matches!(error.cause, Cause::Refused(Refusal::OutOfMemory, _))),
            "{refused:?}"
        );
    }
    assert_eq!(
        stage.renew(vec![renewing(&target, &held)]).await.unwrap(),
        [Ok(Renewed::Held)]
    );
    assert!(matches!(
        stage.release(&target, &held).await,
        Ok(Released::Freed { .. })
    ));
    assert!(matches!(
        stage.release(&counter, &taker).await,
        Ok(Released::Freed { .. })
    ));
    for name in ["s", "c"] {
        assert_eq!(stage.ask::<String>(&["GET", name]).await, "5", "{name}");
    }
}

#[tokio::test]
async fn a_number_is_called_what_it_is_known_to_be() {
    let stage = Stage::new().await;
    let kind = async |name: &str| stage.inspect(&of(Kind::Counter, name)).await.kind;
    let _: () = stage.ask(&["SET", "java", "3"]).await;
    assert_eq!(kind("java").await, "counter");
    operate(&stage, &of(Kind::Counter, "plain"), set(3)).await;
    operate(&stage, &of(Kind::Permits, "leased"), set(3)).await;
    operate(&stage, &of(Kind::Latch, "latch"), Action::SetCount(3)).await;
    assert_eq!(
        (kind("plain").await, kind("leased").await, kind("latch").await),
        ("semaphore".to_owned(), "permits".to_owned(), "latch".to_owned())
    );
    let _: () = stage
        .ask(&["ZADD", "{java}:timeout", &NEVER.to_string(), "0123456789abcdef"])
        .await;
    assert_eq!(kind("java").await, "permits", "whoever set it, permits are held");
}

#[tokio::test]
async fn names_with_tags_keep_their_keys_together() {
    let stage = Stage::new().await;
    let target = of(Kind::Permits, "{slots}:7");
    operate(&stage, &target, set(1)).await;
    stage.granted(&asking(&target, &ids(1))).await;
    let keys: BTreeSet<_> = stage.server.keys().await.into_iter().collect();
    assert!(
        keys.contains("{slots}:7") && keys.contains("{slots}:7:timeout"),
        "{keys:?}"
    );
    assert!(keys.contains("lockkeeper_semaphore:{slots}:7"), "{keys:?}");
    assert_eq!(&*target.channel, "redisson_sc:{slots}:7");
}
