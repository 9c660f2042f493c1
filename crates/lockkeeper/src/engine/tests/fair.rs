//! The line of the fair mutex step by step, on both engines.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_testkit::RedisServer;
use tokio::runtime::Handle;

use crate::base::clock::SystemClock;
use crate::base::name::Name;
use crate::base::owner::Owner;
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::redis::{RedisConfig, RedisEngine};
use crate::engine::{
    Acquire, Acquired, Copies, Engine, Inspection, Kind, Lane, Released, Reply, Step, Subscription, Target, Waiting,
};

const LEASE: u64 = 30_000;
const GRACE: u64 = 5_000;

/// Rounded milliseconds, and what a step takes.
const NEAR: u64 = 150;

struct Line {
    engine: Arc<dyn Engine>,
    target: Arc<Target>,
}

impl Line {
    fn on(engine: Arc<dyn Engine>) -> Self {
        let name = Name::new("f").unwrap();
        let target = Arc::new(Target::new(Kind::Fair, name));
        Self { engine, target }
    }

    async fn perform(&self, step: Step) -> Reply {
        let limit = Duration::from_secs(2);
        self.engine.perform(Lane::Foreground, step, limit).await.unwrap().reply
    }

    async fn acquire(&self, caller: u64, waiting: bool) -> Acquired {
        let step = Step::Acquire(Acquire {
            target: Arc::clone(&self.target),
            owner: owner(caller),
            lease: LEASE,
            block: 1,
            permits: 1,
            waiting: waiting.then_some(Waiting {
                waited: 0,
                grace: GRACE,
            }),
            candidate: None,
            copies: Arc::new(Copies::new()),
        });
        match self.perform(step).await {
            Reply::Acquired(acquired) => acquired,
            other => panic!("{other:?}"),
        }
    }

    async fn is_granted(&self, caller: u64) -> bool {
        matches!(self.acquire(caller, true).await, Acquired::Granted { .. })
    }

    async fn release(&self, caller: u64) -> Released {
        let step = Step::Release {
            target: Arc::clone(&self.target),
            owner: owner(caller),
        };
        match self.perform(step).await {
            Reply::Released(released) => released,
            other => panic!("{other:?}"),
        }
    }

    async fn inspect(&self) -> Inspection {
        let step = Step::Inspect {
            name: self.target.name.clone(),
        };
        match self.perform(step).await {
            Reply::Inspected(found) => found,
            other => panic!("{other:?}"),
        }
    }

    /// Who is in line with about how many milliseconds left.
    async fn assert_line(&self, expected: &[(u64, u64)]) {
        let found = self.inspect().await.waiting;
        let owners: Vec<_> = found.iter().map(|waiter| waiter.owner.clone()).collect();
        let wanted: Vec<_> = expected
            .iter()
            .map(|(caller, _)| owner(*caller).as_str().to_owned())
            .collect();
        assert_eq!(owners, wanted);
        for (waiter, (caller, left)) in found.iter().zip(expected) {
            let told = waiter.time_left.unwrap();
            assert!(told.abs_diff(*left) <= NEAR, "{caller}: {told} instead of {left}");
        }
    }

    async fn listen(&self, caller: u64) -> Subscription {
        let subscription = self.engine.subscribe(&self.target.channel_of(&owner(caller)));
        let live = subscription.channel().becomes_live();
        tokio::time::timeout(Duration::from_secs(10), live).await.unwrap();
        subscription
    }
}

fn owner(caller: u64) -> Owner {
    Owner::from_text(&format!(
        "3f1b2c4d-0000-4000-8000-00000000beef:{}",
        5_000_000_000_000_000_000 + caller
    ))
}

async fn heard(subscription: &Subscription, seen: u64) {
    let changed = subscription.channel().changed(seen);
    tokio::time::timeout(Duration::from_secs(10), changed).await.unwrap();
    assert_eq!(subscription.channel().last_message(), Some(0));
}

async fn redis(server: &RedisServer) -> Arc<dyn Engine> {
    let config = RedisConfig::from_url(&server.url()).unwrap();
    RedisEngine::connect(config, Arc::new(SystemClock), Handle::current())
        .await
        .unwrap()
}

/// The vectors of Redisson's fair lock, as far as a waiter of ours does the same.
async fn the_line_is_redissons(engine: Arc<dyn Engine>) {
    let line = Line::on(engine);
    assert!(line.is_granted(1).await);
    line.assert_line(&[]).await;
    for caller in [2, 3, 4] {
        match line.acquire(caller, true).await {
            Acquired::Busy(busy) => assert!(busy.time_left.unwrap().abs_diff(LEASE) <= NEAR),
            granted @ Acquired::Granted { .. } => panic!("{granted:?}"),
        }
    }
    line.assert_line(&[(2, 35_000), (3, 40_000), (4, 45_000)]).await;
    assert!(!line.is_granted(3).await, "asking again keeps the place");
    line.assert_line(&[(2, 35_000), (3, 40_000), (4, 45_000)]).await;
    assert_eq!(line.release(3).await, Released::NotThere, "it gives up");
    line.assert_line(&[(2, 35_000), (4, 40_000)]).await;

    let next = line.listen(2).await;
    let seen = next.channel().count();
    assert_eq!(line.release(1).await, Released::Freed { receivers: 1 });
    heard(&next, seen).await;
    line.assert_line(&[(2, 35_000), (4, 40_000)]).await;
    assert!(
        matches!(line.acquire(5, false).await, Acquired::Busy(_)),
        "whoever only tries overtakes nobody"
    );
    line.assert_line(&[(2, 35_000), (4, 40_000)]).await;
    assert!(line.is_granted(2).await);
    line.assert_line(&[(4, 35_000)]).await;
    let last = line.listen(4).await;
    let seen = last.channel().count();
    assert_eq!(line.release(2).await, Released::Freed { receivers: 1 });
    heard(&last, seen).await;
    // Java's unlock of what is free signals the head again; so does ours.
    let seen = last.channel().count();
    assert_eq!(line.release(2).await, Released::NotThere);
    heard(&last, seen).await;
}

/// Rule 9 of the layout: whoever leaves the head of the line while the lock is free tells the next in the same step.
async fn a_head_that_gives_up_a_free_lock_tells_the_next(engine: Arc<dyn Engine>) {
    let line = Line::on(engine);
    assert!(line.is_granted(1).await);
    assert!(!line.is_granted(2).await);
    assert!(!line.is_granted(3).await);
    let (head, next) = (line.listen(2).await, line.listen(3).await);
    assert_eq!(line.release(1).await, Released::Freed { receivers: 1 });
    let seen = next.channel().count();
    assert_eq!(line.release(2).await, Released::NotThere);
    heard(&next, seen).await;
    assert!(line.is_granted(3).await);
    drop(head);
}

/// Whoever finds the lock free behind another hurries that one: once, and for at most a grace.
async fn a_head_that_does_not_come_is_hurried_once(engine: Arc<dyn Engine>) {
    let line = Line::on(engine);
    assert!(line.is_granted(1).await);
    assert!(!line.is_granted(2).await);
    let head = line.listen(2).await;
    assert_eq!(line.release(1).await, Released::Freed { receivers: 1 });
    let seen = head.channel().count();
    let Acquired::Busy(busy) = line.acquire(3, true).await else {
        panic!("it is the head's turn");
    };
    assert!(busy.time_left.unwrap() <= GRACE, "{busy:?}");
    heard(&head, seen).await;
    line.assert_line(&[(2, GRACE - 1_000), (3, 40_000)]).await;
    let told = head.channel().count();
    assert!(!line.is_granted(3).await);
    line.assert_line(&[(2, GRACE - 1_000), (3, 40_000)]).await;
    assert_eq!(head.channel().count(), told);
    assert!(line.is_granted(2).await);
}

/// A message that nobody hears goes to the next in line.
async fn a_head_without_ears_is_passed_over(engine: Arc<dyn Engine>) {
    let line = Line::on(engine);
    assert!(line.is_granted(1).await);
    assert!(!line.is_granted(2).await);
    assert!(!line.is_granted(3).await);
    let next = line.listen(3).await;
    let seen = next.channel().count();
    assert_eq!(line.release(1).await, Released::Freed { receivers: 1 });
    heard(&next, seen).await;
}

macro_rules! on_both_engines {
    ($($case:ident),* $(,)?) => {
        mod embedded { $(
            #[tokio::test]
            async fn $case() { super::$case(std::sync::Arc::new(super::EmbeddedEngine::new())).await; }
        )* }
        mod redis { $(
            #[tokio::test]
            async fn $case() {
                let server = super::RedisServer::start();
                super::$case(super::redis(&server).await).await;
            }
        )* }
    };
}

on_both_engines!(
    the_line_is_redissons,
    a_head_that_gives_up_a_free_lock_tells_the_next,
    a_head_that_does_not_come_is_hurried_once,
    a_head_without_ears_is_passed_over,
);
