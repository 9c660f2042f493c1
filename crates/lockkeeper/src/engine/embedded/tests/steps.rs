//! Each rule of the steps, on both layouts where it is the same for both.

use std::sync::Arc;
use std::time::Duration;

use super::{Foreign, HandClock};
use crate::base::name::Name;
use crate::base::owner::{Owner, OwnerSource};
use crate::engine::embedded::EmbeddedEngine;
use crate::engine::{
    Acquire, Acquired, Cause, Copies, Engine, Inspection, Layout, Released, Renew, Renewed, Reply, Step, StepError,
    Target,
};
use crate::error::{Effect, Refusal};

const EPOCH: u64 = 1_800_000_000_000_000;
const BOTH: [Layout; 2] = [Layout::Redisson, Layout::Plain];

/// An engine, its clock, and the steps in short.
pub(super) struct Stage {
    pub(super) engine: EmbeddedEngine,
    clock: Arc<HandClock>,
    owners: OwnerSource,
}

impl Stage {
    pub(super) fn new() -> Self {
        let (engine, clock) = EmbeddedEngine::by_hand(EPOCH);
        Self {
            engine,
            clock,
            owners: OwnerSource::new(),
        }
    }

    pub(super) fn pass(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    pub(super) fn owner(&self) -> Owner {
        self.owners.next()
    }

    pub(super) fn reply(&self, step: Step) -> Result<Reply, StepError> {
        self.engine.perform_now(step).map(|answer| answer.reply)
    }

    pub(super) fn acquire(
        &self,
        target: &Arc<Target>,
        owner: &Owner,
        lease: u64,
        block: u32,
    ) -> Result<Acquired, StepError> {
        let step = Step::Acquire(Acquire {
            target: Arc::clone(target),
            owner: owner.clone(),
            lease,
            block,
            permits: 1,
            waiting: None,
            candidate: None,
            copies: Arc::new(Copies::new()),
        });
        self.reply(step).map(|reply| match reply {
            Reply::Acquired(acquired) => acquired,
            other => panic!("{other:?}"),
        })
    }

    /// Acquires, and gives back the first token and the size of the block.
    pub(super) fn granted(&self, target: &Arc<Target>, owner: &Owner, lease: u64, block: u32) -> (u64, u32) {
        match self.acquire(target, owner, lease, block).unwrap() {
            Acquired::Granted { first_token, block } => (first_token, block),
            busy @ Acquired::Busy(_) => panic!("{busy:?}"),
        }
    }

    pub(super) fn busy(&self, target: &Arc<Target>) -> Option<u64> {
        match self.acquire(target, &self.owner(), 1000, 1).unwrap() {
            Acquired::Busy(busy) => busy.time_left,
            granted @ Acquired::Granted { .. } => panic!("{granted:?}"),
        }
    }

    pub(super) fn renew(&self, entries: Vec<Renew>) -> Vec<Renewed> {
        match self.reply(Step::Renew(entries)).unwrap() {
            Reply::Renewed(renewed) => renewed.into_iter().map(Result::unwrap).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn release(&self, target: &Arc<Target>, owner: &Owner) -> Result<Released, StepError> {
        let step = Step::Release {
            target: Arc::clone(target),
            owner: owner.clone(),
        };
        self.reply(step).map(|reply| match reply {
            Reply::Released(released) => released,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn force_release(&self, target: &Arc<Target>) -> Result<bool, StepError> {
        let step = Step::ForceRelease {
            target: Arc::clone(target),
        };
        self.reply(step).map(|reply| match reply {
            Reply::ForceReleased(freed) => freed,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn inspect(&self, target: &Target) -> Inspection {
        let step = Step::Inspect {
            name: target.name.clone(),
        };
        match self.reply(step).unwrap() {
            Reply::Inspected(inspection) => inspection,
            other => panic!("{other:?}"),
        }
    }
}

fn target(layout: Layout, name: &str) -> Arc<Target> {
    Arc::new(Target::new(layout, Name::new(name).unwrap()))
}

pub(super) fn renewal(target: &Arc<Target>, owner: &Owner, lease: u64, longest: u64) -> Renew {
    Renew {
        target: Arc::clone(target),
        owner: owner.clone(),
        lease,
        longest,
        refresh_token: false,
        copies: Arc::new(Copies::new()),
    }
}

pub(super) fn wrong_kind(found: &str) -> StepError {
    StepError::none(Cause::WrongKind(found.to_owned()))
}

fn is_exhausted(error: &StepError) -> bool {
    error.effect == Effect::None && matches!(error.cause, Cause::Refused(Refusal::TokenExhausted, _))
}

#[test]
fn one_holds_and_the_others_are_told_how_long() {
    for layout in BOTH {
        let stage = Stage::new();
        let target = target(layout, "a");
        stage.granted(&target, &stage.owner(), 1000, 1);
        stage.pass(300);
        assert_eq!(stage.busy(&target), Some(700));
        stage.pass(699);
        assert_eq!(stage.busy(&target), Some(1));
        stage.pass(1);
        stage.granted(&target, &stage.owner(), 1000, 1);
    }
}

#[test]
fn names_do_not_disturb_each_other() {
    let stage = Stage::new();
    for name in ["a", "b", "{a}:b"] {
        stage.granted(&target(Layout::Redisson, name), &stage.owner(), 1000, 1);
    }
}

#[test]
fn the_same_owner_gets_the_same_tokens_and_never_a_shorter_life() {
    for layout in BOTH {
        let stage = Stage::new();
        let (target, owner) = (target(layout, "a"), stage.owner());
        let first = stage.granted(&target, &owner, 1000, 7);
        stage.pass(100);
        assert_eq!(stage.granted(&target, &owner, 500, 3), first);
        assert_eq!(stage.busy(&target), Some(900));
        assert_eq!(stage.granted(&target, &owner, 2000, 1), first);
        assert_eq!(stage.busy(&target), Some(2000));
        assert_eq!(stage.inspect(&target).holders[0].holds, 1, "our holds are counted once");
    }
}

#[test]
fn a_key_without_expiry_is_busy_for_no_known_time() {
    let stage = Stage::new();
    let target = target(Layout::Plain, "a");
    stage.engine.put_foreign("a", Foreign::Text("a peer".to_owned()), None);
    assert_eq!(stage.busy(&target), None);
}

#[test]
fn a_redisson_peer_holds_as_we_do() {
    let stage = Stage::new();
    let target = target(Layout::Redisson, "a");
    let peer = [("uuid:5".to_owned(), "2".to_owned())];
    stage.engine.put_foreign("a", Foreign::Hash(peer.to_vec()), None);
    assert_eq!(stage.busy(&target), None);
    let inspection = stage.inspect(&target);
    assert_eq!(
        (&*inspection.kind, inspection.layout),
        ("mutex", Some(Layout::Redisson))
    );
    assert_eq!(
        (&*inspection.holders[0].owner, inspection.holders[0].holds),
        ("uuid:5", 2)
    );
}

#[test]
fn tokens_follow_the_time_and_rise_through_blocks() {
    let stage = Stage::new();
    let (target, first, second) = (target(Layout::Redisson, "a"), stage.owner(), stage.owner());
    stage.pass(5);
    assert_eq!(stage.granted(&target, &first, 1000, 100), (EPOCH + 5000, 100));
    stage.release(&target, &first).unwrap();
    // No time has passed: above the whole block.
    assert_eq!(stage.granted(&target, &second, 1000, 1), (EPOCH + 5100, 1));
    stage.release(&target, &second).unwrap();
    stage.pass(1000);
    assert_eq!(stage.granted(&target, &first, 1000, 1), (EPOCH + 1_005_000, 1));
}

#[test]
fn a_block_ends_with_its_hold() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Plain, "a"), stage.owner());
    let (first, _) = stage.granted(&target, &owner, 1000, 10);
    stage.release(&target, &owner).unwrap();
    assert_eq!(stage.granted(&target, &owner, 1000, 10).0, first + 10);
    stage.pass(1000);
    let again = stage.granted(&target, &owner, 1000, 10).0;
    assert_eq!(again, EPOCH + 1_000_000, "after an expiry too");
}

#[test]
fn both_layouts_of_a_name_share_its_tokens() {
    let stage = Stage::new();
    let (hash, plain) = (target(Layout::Redisson, "a"), target(Layout::Plain, "a"));
    let owner = stage.owner();
    let (first, _) = stage.granted(&hash, &owner, 1000, 50);
    stage.release(&hash, &owner).unwrap();
    assert_eq!(stage.granted(&plain, &owner, 1000, 1).0, first + 50);
}

#[test]
fn the_record_outlives_the_lease_by_ten_minutes() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    stage.granted(&target, &owner, 5000, 1);
    let life = |stage: &Stage| stage.engine.lives()[&target.token_key];
    assert_eq!(life(&stage), Some(605_000));
    stage.pass(1000);
    let quiet = renewal(&target, &owner, 5000, 5000);
    stage.renew(vec![quiet.clone()]);
    assert_eq!(life(&stage), Some(604_000));
    stage.renew(vec![Renew {
        refresh_token: true,
        ..quiet
    }]);
    assert_eq!(life(&stage), Some(605_000));
    stage.granted(&target, &owner, 7000, 1);
    assert_eq!(life(&stage), Some(607_000), "a repeat refreshes it too");
}

#[test]
fn a_lost_record_costs_a_repeat_its_tokens_and_never_their_order() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    let (first, _) = stage.granted(&target, &owner, 5000, 1);
    stage.engine.remove_key(&target.token_key);
    stage.pass(1);
    let (again, _) = stage.granted(&target, &owner, 5000, 1);
    assert_eq!(again, first + 1000);
    assert_eq!(stage.granted(&target, &owner, 5000, 1).0, again);
}

#[test]
fn a_record_of_another_owner_gives_no_tokens_away() {
    let stage = Stage::new();
    let (target, owner, former) = (target(Layout::Plain, "a"), stage.owner(), stage.owner());
    let (first, _) = stage.granted(&target, &former, 5000, 10);
    stage
        .engine
        .put_foreign("a", Foreign::Text(owner.as_str().to_owned()), None);
    assert_eq!(stage.granted(&target, &owner, 5000, 1), (first + 10, 1));
}

#[test]
fn redissons_token_is_a_floor_raised_where_it_exists_and_never_made() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    stage.granted(&target, &owner, 1000, 1);
    assert_eq!(stage.engine.text(&target.peer_token_key), None);
    stage.release(&target, &owner).unwrap();

    let ahead = EPOCH + 1_000_000_000;
    stage
        .engine
        .put_foreign(&target.peer_token_key, Foreign::Text(ahead.to_string()), None);
    assert_eq!(stage.granted(&target, &owner, 1000, 10), (ahead + 1, 10));
    let raised = (ahead + 10).to_string();
    assert_eq!(stage.engine.text(&target.peer_token_key), Some(raised));
    assert_eq!(stage.engine.lives()[&target.peer_token_key], None);
}

#[test]
fn tokens_end_below_two_to_the_53rd_with_nothing_changed() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    let last = (1_u64 << 53) - 1;
    let put = |text: String| {
        stage
            .engine
            .put_foreign(&target.peer_token_key, Foreign::Text(text), None);
    };
    put((last - 5).to_string());
    assert!(is_exhausted(&stage.acquire(&target, &owner, 1000, 6).unwrap_err()));
    assert_eq!(stage.engine.lives().len(), 1, "nothing was written");
    assert_eq!(stage.granted(&target, &owner, 1000, 5), (last - 4, 5));
    stage.release(&target, &owner).unwrap();
    assert!(is_exhausted(&stage.acquire(&target, &owner, 1000, 1).unwrap_err()));
    for no_token in [
        "twelve",
        "+5",
        "-5",
        "1.5",
        "18446744073709551615",
        "18446744073709551616",
        "",
    ] {
        stage.engine.remove_key(&target.token_key);
        put(no_token.to_owned());
        assert!(
            is_exhausted(&stage.acquire(&target, &owner, 1000, 1).unwrap_err()),
            "{no_token}"
        );
    }
}

#[test]
fn another_kind_is_told_and_left_alone() {
    let mode = Foreign::Hash(vec![("mode".to_owned(), "read".to_owned())]);
    let peer = Foreign::Hash(vec![("uuid:5".to_owned(), "1".to_owned())]);
    let text = Foreign::Text("a peer".to_owned());
    let cases = [
        (Layout::Redisson, &text, "string"),
        (Layout::Redisson, &Foreign::List, "list"),
        (Layout::Redisson, &mode, "read-write lock"),
        (Layout::Plain, &peer, "hash"),
        (Layout::Plain, &Foreign::List, "list"),
        (Layout::Plain, &mode, "read-write lock"),
    ];
    for (layout, value, found) in cases {
        let stage = Stage::new();
        let (target, owner) = (target(layout, "a"), stage.owner());
        stage.engine.put_foreign("a", value.clone(), None);
        let before = stage.inspect(&target);
        assert_eq!(stage.acquire(&target, &owner, 1000, 1), Err(wrong_kind(found)));
        assert_eq!(stage.release(&target, &owner), Err(wrong_kind(found)));
        assert_eq!(stage.force_release(&target), Err(wrong_kind(found)));
        assert_eq!(stage.renew(vec![renewal(&target, &owner, 1000, 1000)]), [Renewed::Gone]);
        assert_eq!(stage.inspect(&target), before);
        assert_eq!(stage.engine.lives().len(), 1);
    }
}

#[test]
fn a_renewal_lengthens_only_its_owners_hold_and_never_shortens() {
    for layout in BOTH {
        let stage = Stage::new();
        let (target, owner, stranger) = (target(layout, "a"), stage.owner(), stage.owner());
        stage.granted(&target, &owner, 1000, 1);
        stage.pass(400);
        let batch = vec![
            renewal(&target, &stranger, 9000, 9000),
            renewal(&target, &owner, 1000, 1000),
            renewal(&self::target(layout, "nothing"), &owner, 1000, 1000),
        ];
        assert_eq!(stage.renew(batch), [Renewed::Gone, Renewed::Held, Renewed::Gone]);
        assert_eq!(stage.busy(&target), Some(1000));
        stage.renew(vec![renewal(&target, &owner, 300, 1000)]);
        assert_eq!(stage.busy(&target), Some(1000));
    }
}

#[test]
fn a_life_beyond_the_longest_lease_is_cut_to_it() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    stage.granted(&target, &owner, 60_000, 1);
    stage.renew(vec![renewal(&target, &owner, 1000, 5000)]);
    assert_eq!(stage.busy(&target), Some(5000));
}

#[test]
fn a_late_renewal_takes_nothing_again() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    stage.granted(&target, &owner, 1000, 1);
    stage.pass(1000);
    assert_eq!(stage.renew(vec![renewal(&target, &owner, 1000, 1000)]), [Renewed::Gone]);
    assert!(stage.inspect(&target).holders.is_empty());
}

#[test]
fn only_its_owner_releases_and_only_once() {
    for layout in BOTH {
        let stage = Stage::new();
        let (target, owner) = (target(layout, "a"), stage.owner());
        stage.granted(&target, &owner, 1000, 1);
        assert_eq!(stage.release(&target, &stage.owner()), Ok(Released::NotThere));
        assert_eq!(stage.busy(&target), Some(1000));
        assert_eq!(stage.release(&target, &owner), Ok(Released::Freed { receivers: 0 }));
        assert_eq!(stage.release(&target, &owner), Ok(Released::NotThere));
    }
}

#[test]
fn a_release_takes_nothing_from_a_second_owner() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    let fields = [owner.as_str(), "uuid:5"].map(|field| (field.to_owned(), "1".to_owned()));
    stage.engine.put_foreign("a", Foreign::Hash(fields.to_vec()), None);
    assert_eq!(stage.release(&target, &owner), Ok(Released::Freed { receivers: 0 }));
    assert_eq!(stage.inspect(&target).holders[0].owner, "uuid:5");
    assert_eq!(stage.release(&target, &owner), Ok(Released::NotThere));
}

#[test]
fn a_release_signals_whoever_listens_and_nobody_else() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    let subscriptions = [0, 1].map(|_| stage.engine.subscribe(&target.channel));
    let other = stage.engine.subscribe(&self::target(Layout::Plain, "a").channel);
    let count = || subscriptions[0].channel().count();
    assert!(subscriptions[0].channel().is_live());
    let before = (count(), other.channel().count());

    stage.granted(&target, &owner, 1000, 1);
    assert_eq!(stage.release(&target, &stage.owner()), Ok(Released::NotThere));
    assert_eq!(count(), before.0, "nothing was freed yet");
    assert_eq!(stage.release(&target, &owner), Ok(Released::Freed { receivers: 2 }));
    assert_eq!(count(), before.0 + 1);
    stage.granted(&target, &owner, 1000, 1);
    assert_eq!(stage.force_release(&target), Ok(true));
    assert_eq!(count(), before.0 + 2);
    assert_eq!(stage.force_release(&target), Ok(false));
    assert_eq!(count(), before.0 + 2);
    assert_eq!(other.channel().count(), before.1);

    drop(subscriptions);
    stage.granted(&target, &owner, 1000, 1);
    assert_eq!(stage.release(&target, &owner), Ok(Released::Freed { receivers: 0 }));
}

#[test]
fn a_forced_release_frees_anybody_and_tokens_go_on_rising() {
    for layout in BOTH {
        let stage = Stage::new();
        let (target, owner) = (target(layout, "a"), stage.owner());
        let (first, _) = stage.granted(&target, &owner, 1000, 20);
        assert_eq!(stage.force_release(&target), Ok(true));
        assert_eq!(stage.release(&target, &owner), Ok(Released::NotThere));
        assert_eq!(stage.granted(&target, &stage.owner(), 1000, 1).0, first + 20);
    }
}

#[test]
fn inspection_tells_what_is_there() {
    for layout in BOTH {
        let stage = Stage::new();
        let (target, owner) = (target(layout, "a"), stage.owner());
        assert_eq!(stage.inspect(&target), Inspection::default());
        let (first, _) = stage.granted(&target, &owner, 1000, 20);
        stage.pass(1);
        let held = stage.inspect(&target);
        assert_eq!(
            (&*held.kind, held.layout, held.token),
            ("mutex", Some(layout), Some(first + 19))
        );
        assert_eq!(held.holders.len(), 1);
        let holder = &held.holders[0];
        assert_eq!(
            (&*holder.owner, holder.holds, holder.time_left),
            (owner.as_str(), 1, Some(999))
        );
        stage.release(&target, &owner).unwrap();
        let free = stage.inspect(&target);
        assert_eq!((&*free.kind, free.token), ("", Some(first + 19)));
    }
}

#[test]
fn inspection_tells_what_is_no_mutex() {
    let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
    let readers = Foreign::Hash(vec![pair("mode", "read"), pair("uuid:5", "2")]);
    let no_lock = Foreign::Hash(vec![pair("colour", "blue")]);
    let number = Foreign::Text("5".to_owned());
    let cases = [
        (&readers, None, "rwlock", Some(Layout::Redisson), 1),
        (&no_lock, None, "hash", None, 0),
        (&Foreign::List, None, "list", None, 0),
        (&number, None, "counter", None, 0),
        (&number, Some(1000), "mutex", Some(Layout::Plain), 1),
    ];
    for (value, life, kind, layout, holders) in cases {
        let stage = Stage::new();
        stage.engine.put_foreign("a", value.clone(), life);
        let found = stage.inspect(&target(Layout::Redisson, "a"));
        assert_eq!(
            (&*found.kind, found.layout, found.holders.len()),
            (kind, layout, holders)
        );
    }
}

#[test]
fn inspection_tells_the_higher_of_both_tokens() {
    let stage = Stage::new();
    let (target, owner) = (target(Layout::Redisson, "a"), stage.owner());
    let put = |text: &str| {
        stage
            .engine
            .put_foreign(&target.peer_token_key, Foreign::Text(text.to_owned()), None);
    };
    put("7");
    assert_eq!(stage.inspect(&target).token, Some(7));
    let (first, _) = stage.granted(&target, &owner, 1000, 1);
    put("7");
    assert_eq!(stage.inspect(&target).token, Some(first));
    put("twelve");
    assert_eq!(stage.inspect(&target).token, Some(first));
}

#[test]
fn an_answer_carries_its_times_and_its_copy_is_answered() {
    let stage = Stage::new();
    stage.pass(250);
    let copies = Arc::new(Copies::new());
    let answer = stage.engine.perform_now(Step::Acquire(Acquire {
        target: target(Layout::Redisson, "a"),
        owner: stage.owner(),
        lease: 1000,
        block: 1,
        permits: 1,
        waiting: None,
        candidate: None,
        copies: Arc::clone(&copies),
    }));
    let answer = answer.unwrap();
    assert_eq!(answer.server_time, EPOCH + 250_000);
    assert_eq!(copies.first_sent(), Some(answer.sent));
    assert_eq!(copies.open_until(), 0);
    assert_eq!(stage.engine.round_trips(), 1);
}

#[test]
fn debug_tells_no_owner() {
    let stage = Stage::new();
    let owner = stage.owner();
    stage.granted(&target(Layout::Redisson, "a"), &owner, 1000, 1);
    assert!(!format!("{:?}", stage.engine).contains(owner.as_str()));
}
