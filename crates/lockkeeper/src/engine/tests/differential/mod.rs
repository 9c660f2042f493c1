//! The embedded engine is the specification: the same random steps run on it and on a real Redis, and every reply and at
//! times the whole state is compared.
//!
//! `LOCKKEEPER_SEED` repeats a run, `LOCKKEEPER_STEPS` sets its length.

mod moves;
mod sides;
mod tally;
mod walk;

use std::fmt::Debug;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use std::sync::Arc;

use lockkeeper_testkit::RedisServer;

use self::moves::Moves;
use self::tally::Tally;
use self::walk::{Disagreement, Walk};
use crate::engine::{Action, Kind, Layout, Step, Target, Waiting};

const STEPS: u64 = 100_000;

const WALKS: u32 = 4;

/// What is done to a step before the embedded engine is given it.
type Alteration = fn(&mut Step);

/// Within so many steps each planted difference must show.
const STEPS_TO_FIND: u64 = 20_000;

fn setting<T: FromStr<Err: Debug>>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|error| panic!("{variable} is no number: {error:?}")),
    )
}

fn seed() -> u64 {
    let seed = setting("LOCKKEEPER_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    });
    println!("LOCKKEEPER_SEED={seed}");
    seed
}

/// Walks so many steps; the embedded engine is given each step as `altered` leaves it. Walks with different numbers share
/// a server without meeting.
async fn walk(
    server: &RedisServer,
    number: u32,
    seed: u64,
    steps: u64,
    altered: Alteration,
) -> Result<Tally, Disagreement> {
    let mut moves = Moves::new(number, seed.wrapping_add(number.into()));
    let mut walk = Walk::begin(server, number, moves.targets(), altered).await;
    for _ in 0..steps {
        let next = moves.next();
        walk.make(&next, &mut moves).await?;
    }
    walk.end().await
}

#[tokio::test]
async fn both_engines_answer_alike() {
    let (seed, steps) = (seed(), setting("LOCKKEEPER_STEPS").unwrap_or(STEPS));
    let server = RedisServer::start();
    // Several at once, so that the server need not wait for us nor we for it.
    let walks = (0..WALKS).map(|number| walk(&server, number, seed, steps.div_ceil(WALKS.into()), |_| ()));
    let outcomes = futures_util::future::try_join_all(walks).await;
    let tallies = outcomes.unwrap_or_else(|disagreement| panic!("LOCKKEEPER_SEED={seed}\n{disagreement}"));
    let tally = Tally::sum(tallies);
    println!("{tally}");
    tally.assert_it_saw_everything(steps);
}

/// What a script might do wrong, done to the embedded engine instead.
const PLANTED: &[(&str, Alteration)] = &[
    ("a lease of a second more", |step| {
        if let Step::Acquire(acquire) = step {
            acquire.lease += 1000;
        }
    }),
    ("a place in line kept for longer", |step| {
        if let Step::Acquire(acquire) = step
            && let Some(waiting) = &mut acquire.waiting
        {
            waiting.grace += 1_000;
        }
    }),
    ("a place in line for those who do not wait", |step| {
        if let Step::Acquire(acquire) = step {
            acquire.waiting.get_or_insert(Waiting {
                waited: 0,
                grace: 1_000,
            });
        }
    }),
    ("no place in line", |step| {
        if let Step::Acquire(acquire) = step {
            acquire.waiting = None;
        }
    }),
    ("a reader who is patient at once", |step| {
        if let Step::Acquire(acquire) = step
            && acquire.target.kind == Kind::Read
            && let Some(waiting) = &mut acquire.waiting
        {
            waiting.waited = 5_000;
        }
    }),
    ("a reader who is never patient", |step| {
        if let Step::Acquire(acquire) = step
            && acquire.target.kind == Kind::Read
            && let Some(waiting) = &mut acquire.waiting
        {
            waiting.waited = 0;
        }
    }),
    ("a reader that stays", |step| {
        if let Step::Release { target, .. } = step
            && target.kind == Kind::Read
        {
            let name = target.name.clone();
            *step = Step::Inspect { name };
        }
    }),
    ("a permit that ends later", |step| {
        if let Step::Acquire(acquire) = step
            && acquire.target.kind == Kind::Permits
        {
            acquire.lease += 1_000;
        }
    }),
    ("permits set as if none were held", |step| {
        if let Step::Operate(operation) = step
            && let Action::SetPermits(permits) = &mut operation.action
        {
            *permits += 1;
        }
    }),
    ("permits given back by nobody", |step| {
        if let Step::Release { target, .. } = step
            && target.kind == Kind::Permits
        {
            let name = target.name.clone();
            *step = Step::Inspect { name };
        }
    }),
    ("a forced release of both sides", |step| {
        if let Step::ForceRelease { target } = step
            && target.kind == Kind::Write
        {
            let target = Arc::new(Target::new(Kind::Read, target.name.clone()));
            *step = Step::ForceRelease { target };
        }
    }),
    ("a conversion that asks for less", |step| {
        if let Step::Convert { acquire, .. } = step {
            acquire.lease /= 2;
        }
    }),
    ("a conversion of nobody's hold", |step| {
        if let Step::Convert { acquire, .. } = step {
            *step = Step::Acquire(acquire.clone());
        }
    }),
    ("a counter that gives one more", |step| {
        if let Step::Acquire(acquire) = step
            && acquire.target.kind == Kind::Counter
        {
            acquire.permits += 1;
        }
    }),
    ("a counter that is always there", |step| {
        if let Step::Operate(operation) = step
            && let Action::AddPermits { if_there, .. } = &mut operation.action
        {
            *if_there = false;
        }
    }),
    ("a latch of one more", |step| {
        if let Step::Operate(operation) = step
            && let Action::SetCount(count) = &mut operation.action
        {
            *count += 1;
        }
    }),
    ("a waiter that forgets when it looked", |step| {
        if let Step::Operate(operation) = step
            && let Action::AwaitLatch { since } = &mut operation.action
        {
            *since = 0;
        }
    }),
    ("a block of one more", |step| {
        if let Step::Acquire(acquire) = step {
            acquire.block += 1;
        }
    }),
    ("a renewal that never cuts", |step| {
        if let Step::Renew(entries) = step {
            entries.iter_mut().for_each(|entry| entry.longest = 1_000_000);
        }
    }),
    ("a renewal that lengthens too little", |step| {
        if let Step::Renew(entries) = step {
            entries.iter_mut().for_each(|entry| entry.lease /= 2);
        }
    }),
    ("a renewal that forgets the record", |step| {
        if let Step::Renew(entries) = step {
            entries.iter_mut().for_each(|entry| entry.refresh_token = false);
        }
    }),
    ("a renewal that forgets its last entry", |step| {
        if let Step::Renew(entries) = step {
            entries.pop();
        }
    }),
    ("a candidate without its text", |step| {
        if let Step::Acquire(acquire) = step {
            acquire.candidate = None;
        }
    }),
    ("an election that is a mutex", |step| {
        if let Step::Acquire(acquire) = step
            && acquire.target.kind == Kind::Election
        {
            let name = acquire.target.name.clone();
            acquire.target = Arc::new(Target::new(Kind::Mutex(Layout::Redisson), name));
        }
    }),
    ("a renewal for anybody", |step| {
        if let Step::Renew(entries) = step {
            let owner = entries[0].owner.clone();
            entries.iter_mut().for_each(|entry| entry.owner = owner.clone());
        }
    }),
    ("a release by anybody", |step| {
        if let Step::Release { target, .. } = step {
            let target = target.clone();
            *step = Step::ForceRelease { target };
        }
    }),
    ("a rest of half the time", |step| {
        if let Step::Rest { rest, .. } = step {
            rest.longest /= 2;
        }
    }),
    ("a rest that frees", |step| {
        if let Step::Rest { target, owner, .. } = step {
            let (target, owner) = (target.clone(), owner.clone());
            *step = Step::Release { target, owner };
        }
    }),
    ("a forced release that frees nothing", |step| {
        if let Step::ForceRelease { target } = step {
            let name = target.name.clone();
            *step = Step::Inspect { name };
        }
    }),
];

#[tokio::test]
async fn every_planted_difference_is_found() {
    let seed = seed();
    let server = RedisServer::start();
    for &(difference, altered) in PLANTED {
        let found = walk(&server, 0, seed, STEPS_TO_FIND, altered).await;
        assert!(found.is_err(), "not found in {STEPS_TO_FIND} steps: {difference}");
    }
}
