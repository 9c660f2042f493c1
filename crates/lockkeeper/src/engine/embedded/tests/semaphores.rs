//! Each rule of the latch's and the semaphores' steps, with a clock that is set by hand.

use std::sync::Arc;
use std::time::Duration;

use super::{Foreign, HandClock};
use crate::base::name::Name;
use crate::base::owner::{Owner, OwnerSource};
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::{
    Acquire, Acquired, Action, Busy, Cause, Copies, Engine, Inspection, Kind, LATCH_GONE, LATCH_OPENED, LATCH_REMOVED,
    NEVER, Operation, Outcome, Released, Renew, Renewed, Reply, Step, StepError, Target,
};

const EPOCH: u64 = 1_800_000_000_000_000;

/// An engine, its clock, one name, and the steps in short.
struct Stage {
    engine: EmbeddedEngine,
    clock: Arc<HandClock>,
    owners: OwnerSource,
    target: Arc<Target>,
}

impl Stage {
    fn new(kind: Kind) -> Self {
        let (engine, clock) = EmbeddedEngine::by_hand(EPOCH);
        Self {
            engine,
            clock,
            owners: OwnerSource::new(),
            target: Arc::new(Target::new(kind, Name::new("s").unwrap())),
        }
    }

    fn pass(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    /// The server's time, in microseconds.
    fn now(&self) -> u64 {
        let step = Step::Inspect {
            name: self.target.name.clone(),
        };
        self.engine.perform_now(step).unwrap().server_time
    }

    fn reply(&self, step: Step) -> Result<Reply, StepError> {
        self.engine.perform_now(step).map(|answer| answer.reply)
    }

    fn acquire(&self, owner: &Owner, lease: u64, permits: u32) -> Acquired {
        let step = Step::Acquire(Acquire {
            target: Arc::clone(&self.target),
            owner: owner.clone(),
            lease,
            block: 1,
            permits,
            waiting: None,
            candidate: None,
            copies: Arc::new(Copies::new()),
        });
        match self.reply(step) {
            Ok(Reply::Acquired(acquired)) => acquired,
            other => panic!("{other:?}"),
        }
    }

    fn take(&self, count: u32, lease: u64) -> Owner {
        let owner = self.owners.next_permits(count);
        assert_eq!(self.acquire(&owner, lease, count), GRANTED);
        owner
    }

    fn busy(&self, count: u32) -> Option<u64> {
        match self.acquire(&self.owners.next_permits(count), 1000, count) {
            Acquired::Busy(busy) => busy.time_left,
            granted @ Acquired::Granted { .. } => panic!("{granted:?}"),
        }
    }

    fn release(&self, owner: &Owner) -> Released {
        let step = Step::Release {
            target: Arc::clone(&self.target),
            owner: owner.clone(),
        };
        match self.reply(step) {
            Ok(Reply::Released(released)) => released,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&self, owner: &Owner, lease: u64, longest: u64) -> Renewed {
        let step = Step::Renew(vec![Renew {
            target: Arc::clone(&self.target),
            owner: owner.clone(),
            lease,
            longest,
            refresh_token: true,
            copies: Arc::new(Copies::new()),
        }]);
        match self.reply(step) {
            Ok(Reply::Renewed(mut renewed)) => renewed.pop().unwrap().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn operate_as(&self, action: Action, mark: &Owner) -> Result<i64, StepError> {
        let step = Step::Operate(Operation {
            target: Arc::clone(&self.target),
            action,
            mark: mark.clone(),
            copies: Arc::new(Copies::new()),
        });
        self.reply(step).map(|reply| match reply {
            Reply::Operated(outcome) => outcome.number(),
            other => panic!("{other:?}"),
        })
    }

    fn operate(&self, action: Action) -> i64 {
        self.operate_as(action, &self.owners.next()).unwrap()
    }

    fn counts(&self) -> (i64, i64) {
        let step = Step::Operate(Operation {
            target: Arc::clone(&self.target),
            action: Action::CountPermits,
            mark: self.owners.next(),
            copies: Arc::new(Copies::new()),
        });
        match self.reply(step) {
            Ok(Reply::Operated(Outcome::Permits { available, acquired })) => (available, acquired),
            other => panic!("{other:?}"),
        }
    }

    fn inspect(&self) -> Inspection {
        let step = Step::Inspect {
            name: self.target.name.clone(),
        };
        match self.reply(step) {
            Ok(Reply::Inspected(inspection)) => inspection,
            other => panic!("{other:?}"),
        }
    }
}

const GRANTED: Acquired = Acquired::Granted {
    first_token: 0,
    block: 1,
};
const FREED: Released = Released::Freed { receivers: 0 };

fn set(permits: u64) -> Action {
    Action::TrySetPermits { permits, life: None }
}

fn add(permits: i64) -> Action {
    Action::AddPermits {
        permits,
        if_there: false,
    }
}

/// The layout's test vector.
#[test]
fn leased_permits_go_as_redissons_do() {
    let stage = Stage::new(Kind::Permits);
    let channel = stage.engine.subscribe(&stage.target.channel);
    let said = || channel.channel().last_message();
    assert_eq!(stage.operate(set(3)), 1);
    assert_eq!(said(), Some(3));
    let short = stage.take(1, 200);
    assert_eq!(stage.counts(), (2, 1));
    let never = stage.owners.next_permits(2);
    let ids = never.permits().chain(short.permits()).map(str::to_owned);
    let end = i64::try_from(EPOCH / 1000).unwrap() + 200;
    let ends = [NEVER, NEVER, end];
    let key = stage.target.permits_key();
    stage
        .engine
        .put_foreign(&key, Foreign::Permits(ids.zip(ends).collect()), None);
    stage.operate(add(-2));
    assert_eq!(stage.busy(1), Some(200));
    stage.pass(199);
    assert_eq!(stage.busy(1), Some(1), "it ends at its moment, not before");
    stage.pass(1);
    let next = stage.take(1, 30_000);
    assert_eq!((said(), stage.counts()), (Some(1), (0, 3)));
    assert_eq!(stage.busy(1), Some(30_000), "what never ends is not the next to end");
    assert_eq!(stage.release(&short), Released::NotThere);
    assert_eq!(stage.release(&next), Released::Freed { receivers: 1 });
    assert_eq!((said(), stage.counts()), (Some(1), (1, 2)));
    assert_eq!(stage.release(&never), Released::Freed { receivers: 1 });
    assert_eq!(
        (said(), stage.counts()),
        (Some(3), (3, 0)),
        "what is available, where Redisson tells how many came back"
    );
}

#[test]
fn the_same_ids_are_granted_once_and_never_shortened() {
    let stage = Stage::new(Kind::Permits);
    stage.operate(set(3));
    let held = stage.take(2, 10_000);
    assert_eq!(stage.acquire(&held, 1_000, 2), GRANTED);
    assert_eq!(stage.inspect().holders[0].time_left, Some(10_000));
    assert_eq!(stage.acquire(&held, 20_000, 2), GRANTED);
    assert_eq!(
        (stage.inspect().holders[0].time_left, stage.counts()),
        (Some(20_000), (1, 2))
    );
}

#[test]
fn renewal_is_for_those_who_hold_all_of_their_permits() {
    let stage = Stage::new(Kind::Permits);
    stage.operate(set(3));
    let held = stage.take(2, 10_000);
    stage.pass(5_000);
    assert_eq!(stage.renew(&held, 10_000, 10_000), Renewed::Held);
    assert_eq!(stage.inspect().holders[0].time_left, Some(10_000));
    assert_eq!(stage.renew(&held, 1_000, 10_000), Renewed::Held);
    assert_eq!(stage.inspect().holders[0].time_left, Some(10_000), "never shortened");
    assert_eq!(stage.renew(&held, 1_000, 4_000), Renewed::Held);
    assert_eq!(
        stage.inspect().holders[0].time_left,
        Some(4_000),
        "unless it is more than was ever asked for"
    );
    stage.pass(4_000);
    assert_eq!(stage.renew(&held, 10_000, 10_000), Renewed::Gone);
    assert_eq!(stage.counts(), (3, 0));
    assert_eq!(stage.release(&held), Released::NotThere);
    assert_eq!(stage.release(&held), Released::NotThere);
    assert_eq!(stage.counts(), (3, 0), "given back once");
}

#[test]
fn both_keys_of_a_semaphore_with_a_life_end_together() {
    let stage = Stage::new(Kind::Permits);
    let life = Some(5_000);
    assert_eq!(stage.operate(Action::TrySetPermits { permits: 2, life }), 1);
    let held = stage.take(1, 60_000);
    stage.operate(add(1));
    stage.pass(4_999);
    assert_eq!(stage.counts(), (2, 1));
    stage.pass(1);
    assert_eq!(stage.counts(), (0, 0));
    assert_eq!(stage.release(&held), Released::NotThere);
    assert_eq!(stage.counts(), (0, 0), "nothing is made by giving back");
}

#[test]
fn a_repeated_change_is_answered_and_not_made_again() {
    let stage = Stage::new(Kind::Permits);
    let mark = stage.owners.next();
    for _ in 0..3 {
        assert_eq!(stage.operate_as(add(5), &mark), Ok(1));
    }
    let mark = stage.owners.next();
    for _ in 0..3 {
        assert_eq!(stage.operate_as(Action::DrainPermits, &mark), Ok(5));
    }
    assert_eq!(stage.counts(), (0, 0));
}

#[test]
fn numbers_stay_exact_or_are_refused() {
    let stage = Stage::new(Kind::Counter);
    let most = (1 << 53) - 1;
    assert_eq!(stage.operate(add(most)), 1);
    let refused = stage.operate_as(add(1), &stage.owners.next()).unwrap_err();
    assert!(matches!(refused.cause, Cause::Refused(..)), "{refused:?}");
    assert_eq!(stage.counts(), (most, 0));
    for text in ["007", "+1", "-0", "1.5", "9007199254740992", "x", ""] {
        stage.engine.put_foreign("s", Foreign::Text(text.to_owned()), None);
        let refused = stage.operate_as(add(1), &stage.owners.next()).unwrap_err();
        assert_eq!(refused.cause, Cause::WrongKind("string".to_owned()), "{text}");
    }
}

#[test]
fn what_was_given_to_nobody_comes_back_once() {
    let stage = Stage::new(Kind::Counter);
    stage.operate(set(3));
    let (taker, early) = (stage.owners.next(), stage.owners.next());
    assert_eq!(stage.acquire(&taker, 1000, 2), GRANTED);
    assert_eq!(stage.acquire(&taker, 1000, 2), GRANTED);
    assert_eq!(stage.counts(), (1, 0));
    assert_eq!(
        (stage.release(&taker), stage.release(&taker)),
        (FREED, Released::NotThere)
    );
    assert_eq!(stage.counts(), (3, 0));
    assert_eq!(stage.release(&early), Released::NotThere);
    for owner in [&taker, &early] {
        assert_eq!(
            stage.acquire(owner, 1000, 2),
            Acquired::Busy(Busy::until(None)),
            "a late copy"
        );
    }
    assert_eq!(stage.counts(), (3, 0));
}

#[test]
fn leased_permits_are_no_plain_number() {
    let stage = Stage::new(Kind::Permits);
    stage.operate(set(2));
    let held = stage.take(1, 1000);
    let plain = Stage {
        target: Arc::new(Target::new(Kind::Counter, Name::new("s").unwrap())),
        ..stage
    };
    let refused = plain.operate_as(add(1), &plain.owners.next()).unwrap_err();
    assert_eq!(refused.cause, Cause::WrongKind("permits".to_owned()));
    let stage = Stage {
        target: Arc::new(Target::new(Kind::Permits, Name::new("s").unwrap())),
        ..plain
    };
    assert_eq!(stage.release(&held), FREED);
}

#[test]
fn a_waiter_learns_how_a_latch_ended_after_it_looked() {
    let stage = Stage::new(Kind::Latch);
    assert_eq!(stage.operate(Action::AwaitLatch { since: 0 }), LATCH_OPENED);
    stage.operate(Action::SetCount(1));
    assert_eq!(stage.operate(Action::AwaitLatch { since: 0 }), 1);
    let looked = stage.now();
    stage.pass(1);
    stage.operate(Action::CountDown);
    stage.operate(Action::SetCount(7));
    assert_eq!(
        stage.operate(Action::AwaitLatch { since: looked }),
        LATCH_OPENED,
        "though it is closed again"
    );
    assert_eq!(
        stage.operate(Action::AwaitLatch { since: stage.now() }),
        7,
        "for who came later"
    );
    stage.pass(1);
    stage.operate(Action::RemoveLatch);
    assert_eq!(stage.operate(Action::AwaitLatch { since: looked }), LATCH_REMOVED);
    let looked = stage.now();
    stage.engine.put_foreign("s", Foreign::Text("1".to_owned()), None);
    assert_eq!(stage.operate(Action::AwaitLatch { since: looked }), 1);
    stage.engine.remove_key("s");
    assert_eq!(stage.operate(Action::AwaitLatch { since: looked }), LATCH_GONE);
}

#[test]
fn a_latch_says_zero_only_when_it_opens() {
    let stage = Stage::new(Kind::Latch);
    let channel = stage.engine.subscribe(&stage.target.channel);
    let heard = || (channel.channel().messages(), channel.channel().last_message());
    stage.operate(Action::CountDown);
    stage.operate(Action::RemoveLatch);
    stage.operate(Action::SetCount(0));
    assert_eq!(heard(), (0, None));
    stage.operate(Action::SetCount(2));
    assert_eq!(heard(), (1, Some(1)));
    stage.operate(Action::CountDown);
    assert_eq!(heard(), (1, Some(1)));
    stage.operate(Action::CountDown);
    assert_eq!(heard(), (2, Some(0)));
    stage.operate(Action::SetCount(2));
    stage.operate(Action::RemoveLatch);
    assert_eq!(heard(), (4, Some(1)));
}
