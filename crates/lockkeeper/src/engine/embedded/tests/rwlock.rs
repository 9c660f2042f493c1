//! Each rule of the read-write lock's steps.

use std::sync::Arc;

use super::Foreign;
use super::steps::{Stage, renewal, wrong_kind};
use crate::base::name::Name;
use crate::base::owner::Owner;
use crate::engine::{
    Acquire, Acquired, Busy, Cause, Copies, Engine, Kind, Released, Renewed, Reply, Step, StepError, Target, Waiting,
};

const READING: Acquired = Acquired::Granted {
    first_token: 0,
    block: 1,
};

fn sides(name: &str) -> (Arc<Target>, Arc<Target>) {
    let side = |kind| Arc::new(Target::new(kind, Name::new(name).unwrap()));
    (side(Kind::Read), side(Kind::Write))
}

fn asking(target: &Arc<Target>, owner: &Owner, lease: u64, waited: Option<u64>) -> Acquire {
    Acquire {
        target: Arc::clone(target),
        owner: owner.clone(),
        lease,
        block: 1,
        permits: 1,
        waiting: waited.map(|waited| Waiting { waited, grace: 5_000 }),
        candidate: None,
        copies: Arc::new(Copies::new()),
    }
}

impl Stage {
    fn writer(&self) -> Owner {
        self.owner().writing()
    }

    fn ask(&self, acquire: Acquire) -> Acquired {
        match self.reply(Step::Acquire(acquire)) {
            Ok(Reply::Acquired(acquired)) => acquired,
            other => panic!("{other:?}"),
        }
    }

    /// The answer to a caller that goes on waiting, and has waited for so long.
    fn ask_after(&self, target: &Arc<Target>, owner: &Owner, waited: u64) -> Acquired {
        self.ask(asking(target, owner, 10_000, Some(waited)))
    }

    fn convert(&self, target: &Arc<Target>, from: &Owner, lease: u64) -> Result<Acquired, StepError> {
        let owner = match target.kind {
            Kind::Write => from.writing(),
            _ => from.reading(),
        };
        let acquire = asking(target, &owner, lease, None);
        match self.reply(Step::Convert {
            acquire,
            from: from.clone(),
        })? {
            Reply::Acquired(acquired) => Ok(acquired),
            other => panic!("{other:?}"),
        }
    }

    fn left(&self, key: &str) -> Option<u64> {
        self.engine.lives().get(key).copied().flatten()
    }
}

fn busy(time_left: u64, look_again: Option<u64>) -> Acquired {
    Acquired::Busy(Busy {
        time_left: Some(time_left),
        look_again,
    })
}

const NOT_HELD: Result<Acquired, StepError> = Err(StepError {
    cause: Cause::NotHeld,
    effect: crate::error::Effect::None,
});

#[test]
fn each_reader_has_an_end_of_its_own_and_the_hash_the_longest() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (one, two) = (stage.owner(), stage.owner());
    assert_eq!(stage.ask(asking(&read, &one, 10_000, None)), READING);
    assert_eq!(stage.ask(asking(&read, &two, 3_000, None)), READING);
    assert_eq!(stage.left("a"), Some(10_000));
    assert_eq!(stage.left(&read.hold_key(&one)), Some(10_000));
    assert_eq!(stage.left(&read.hold_key(&two)), Some(3_000));
    stage.pass(1_000);
    // The longer one goes: the hash is left to the shorter.
    assert_eq!(stage.release(&read, &one), Ok(Released::Freed { receivers: 0 }));
    assert_eq!(stage.left("a"), Some(2_000));
    assert_eq!(
        stage.ask(asking(&write, &stage.writer(), 1_000, None)),
        busy(2_000, None)
    );
    assert_eq!(stage.release(&read, &two), Ok(Released::Freed { receivers: 0 }));
    assert!(stage.engine.lives().is_empty(), "nothing is left");
    assert_eq!(stage.release(&read, &two), Ok(Released::NotThere));
}

#[test]
fn asking_again_changes_nothing_and_shortens_nothing() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let one = stage.owner();
    stage.ask(asking(&read, &one, 10_000, None));
    stage.pass(2_000);
    assert_eq!(stage.ask(asking(&read, &one, 5_000, None)), READING);
    assert_eq!(stage.left(&read.hold_key(&one)), Some(8_000));
    assert_eq!(stage.ask(asking(&read, &one, 12_000, None)), READING);
    assert_eq!(
        (stage.left(&read.hold_key(&one)), stage.left("a")),
        (Some(12_000), Some(12_000))
    );
    assert_eq!(stage.release(&read, &one), Ok(Released::Freed { receivers: 0 }));

    let writer = stage.writer();
    let first = stage.ask(asking(&write, &writer, 10_000, None));
    stage.pass(1_000);
    assert_eq!(stage.ask(asking(&write, &writer, 2_000, None)), first, "the same token");
    assert_eq!(stage.left("a"), Some(9_000));
}

#[test]
fn a_dead_reader_keeps_no_writer_out_whatever_the_hash_has_left() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let dead = stage.owner();
    stage.ask(asking(&read, &dead, 1_000, None));
    // What a peer's longer write hold, given up while it read, leaves.
    let fields = vec![
        ("mode".to_owned(), "read".to_owned()),
        (dead.as_str().to_owned(), "1".to_owned()),
    ];
    stage.engine.put_foreign("a", Foreign::Hash(fields), Some(60_000));
    assert_eq!(
        stage.ask(asking(&write, &stage.writer(), 1_000, None)),
        busy(60_000, None)
    );
    stage.pass(1_000);
    let writer = stage.writer();
    assert!(matches!(
        stage.ask(asking(&write, &writer, 1_000, None)),
        Acquired::Granted { .. }
    ));
    assert_eq!(stage.release(&read, &dead), Ok(Released::NotThere));
    assert_eq!(stage.release(&write, &writer), Ok(Released::Freed { receivers: 0 }));
}

#[test]
fn what_dead_readers_left_goes_with_the_last_live_one() {
    let stage = Stage::new();
    let (read, _) = sides("a");
    let (dead, one, two) = (stage.owner(), stage.owner(), stage.owner());
    stage.ask(asking(&read, &dead, 500, None));
    stage.ask(asking(&read, &one, 10_000, None));
    stage.ask(asking(&read, &two, 8_000, None));
    stage.pass(1_000);
    assert_eq!(stage.release(&read, &one), Ok(Released::Freed { receivers: 0 }));
    assert_eq!(stage.left("a"), Some(7_000));
    let holders = stage.inspect(&read).holders;
    let dead = holders
        .iter()
        .find(|holder| holder.owner == dead.as_str())
        .expect("still listed");
    assert_eq!(dead.time_left, Some(0));
    stage.release(&read, &two).unwrap();
    assert!(stage.engine.lives().is_empty());
}

#[test]
fn a_reader_whose_own_key_is_gone_is_gone() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (one, two) = (stage.owner(), stage.owner());
    for owner in [&one, &two] {
        stage.ask(asking(&read, owner, 10_000, None));
    }
    stage.engine.remove_key(&read.hold_key(&one));
    let entries = vec![
        renewal(&read, &one, 20_000, 20_000),
        renewal(&read, &two, 20_000, 20_000),
    ];
    assert_eq!(stage.renew(entries), [Renewed::Gone, Renewed::Held]);
    assert_eq!(stage.left(&read.hold_key(&two)), Some(20_000));
    assert_eq!(stage.left("a"), Some(20_000));
    // Its field goes with its release, which says that it was no hold any more.
    assert_eq!(stage.release(&read, &one), Ok(Released::NotThere));
    assert_eq!(stage.inspect(&read).holders.len(), 1);
    // No side renews the other's.
    assert_eq!(stage.renew(vec![renewal(&write, &two, 1_000, 1_000)]), [Renewed::Gone]);
}

#[test]
fn a_renewal_touches_its_own_key_alone() {
    let stage = Stage::new();
    let (read, _) = sides("a");
    let (one, two) = (stage.owner(), stage.owner());
    for owner in [&one, &two] {
        stage.ask(asking(&read, owner, 10_000, None));
    }
    stage.pass(1_000);
    assert_eq!(stage.renew(vec![renewal(&read, &one, 30_000, 30_000)]), [Renewed::Held]);
    assert_eq!(stage.left(&read.hold_key(&one)), Some(30_000));
    assert_eq!(stage.left(&read.hold_key(&two)), Some(9_000));
    assert_eq!(stage.left("a"), Some(30_000));
    // A shorter one, and one that cuts a clock's step.
    stage.renew(vec![renewal(&read, &one, 2_000, 40_000)]);
    assert_eq!(stage.left(&read.hold_key(&one)), Some(30_000));
    stage.renew(vec![renewal(&read, &one, 2_000, 5_000)]);
    assert_eq!(stage.left(&read.hold_key(&one)), Some(5_000));
    assert_eq!(stage.left("a"), Some(30_000), "others may need it");
}

#[test]
fn readers_come_after_a_writer_that_waits() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (reader, writer, late) = (stage.owner(), stage.writer(), stage.owner());
    stage.ask(asking(&read, &reader, 10_000, None));
    assert_eq!(stage.ask_after(&write, &writer, 0), busy(10_000, Some(1_000)));
    assert_eq!(stage.inspect(&read).waiting.len(), 1);
    // Whoever tries is refused, and so is whoever waits, however long, while others read.
    assert_eq!(stage.ask(asking(&read, &late, 10_000, None)), busy(10_000, None));
    assert_eq!(stage.ask_after(&read, &late, 0), busy(10_000, Some(2_001)));
    assert_eq!(stage.ask_after(&read, &late, 5_000), busy(10_000, Some(2_001)));
    // Whoever is in is in.
    assert_eq!(stage.ask_after(&read, &reader, 0), READING);
    stage.release(&read, &reader).unwrap();
    // Free, but the writer comes first; a reader that will have waited for long soon looks again then.
    assert_eq!(stage.ask_after(&read, &late, 400), busy(2_000, Some(601)));
    assert!(matches!(stage.ask_after(&write, &writer, 0), Acquired::Granted { .. }));
    assert!(stage.inspect(&read).waiting.is_empty(), "its notice is taken back");
    stage.release(&write, &writer).unwrap();
    assert_eq!(stage.ask_after(&read, &late, 500), READING);
}

#[test]
fn the_notice_of_a_dead_writer_falls() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let reader = stage.owner();
    stage.ask(asking(&read, &reader, 60_000, None));
    stage.ask_after(&write, &stage.writer(), 0);
    stage.pass(1_500);
    let alive = stage.writer();
    stage.ask_after(&write, &alive, 0);
    stage.pass(500);
    assert_eq!(stage.inspect(&read).waiting.len(), 1, "the first has fallen");
    assert_eq!(
        stage.ask(asking(&read, &stage.owner(), 1_000, None)),
        busy(58_000, None)
    );
    stage.pass(1_500);
    assert_eq!(stage.ask(asking(&read, &stage.owner(), 1_000, None)), READING);
    assert_eq!(stage.left(&write.writers_key()), None);
}

#[test]
fn a_writer_that_goes_away_takes_its_notice_back_and_wakes_readers() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let heard = stage.engine.subscribe(&read.channel);
    let count = || heard.channel().count();
    let (reader, one, two) = (stage.owner(), stage.writer(), stage.writer());
    stage.ask(asking(&read, &reader, 60_000, None));
    stage.ask_after(&write, &one, 0);
    stage.ask_after(&write, &two, 0);
    let before = count();
    assert_eq!(stage.release(&write, &one), Ok(Released::NotThere));
    assert_eq!(count(), before, "another still waits");
    assert_eq!(stage.release(&write, &two), Ok(Released::NotThere));
    assert_eq!((count(), heard.channel().last_message()), (before + 1, Some(1)));
    assert_eq!(stage.release(&write, &two), Ok(Released::NotThere));
    assert_eq!(count(), before + 1);
    assert_eq!(stage.ask(asking(&read, &stage.owner(), 1_000, None)), READING);
}

#[test]
fn readers_who_waited_for_long_come_in_together_before_the_next_writer() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (first, next) = (stage.writer(), stage.writer());
    let (one, two, late) = (stage.owner(), stage.owner(), stage.owner());
    stage.ask(asking(&write, &first, 10_000, None));
    stage.ask_after(&write, &next, 0);
    assert_eq!(stage.ask_after(&read, &one, 1_000), busy(10_000, None));
    assert_eq!(stage.left(&read.readers_key()), None, "not yet");
    assert_eq!(stage.ask_after(&read, &one, 1_001), busy(10_000, None));
    assert_eq!(stage.left(&read.readers_key()), Some(11_000));
    stage.release(&write, &first).unwrap();

    // The next writer steps back, though only for so long.
    assert_eq!(stage.ask_after(&write, &next, 500), busy(50, Some(1_000)));
    stage.pass(10);
    assert_eq!(stage.ask_after(&read, &one, 1_200), READING);
    assert_eq!(
        stage.ask_after(&read, &late, 900),
        busy(10_000, Some(1_991)),
        "it has not waited for long"
    );
    assert_eq!(stage.ask_after(&read, &two, 1_300), READING);
    assert_eq!(stage.left(&read.readers_key()), Some(40));
    stage.pass(40);
    assert_eq!(
        stage.ask_after(&read, &late, 5_000),
        busy(9_960, Some(1_951)),
        "their turn is over"
    );
    stage.release(&read, &one).unwrap();
    stage.release(&read, &two).unwrap();
    assert!(matches!(stage.ask_after(&write, &next, 600), Acquired::Granted { .. }));
}

#[test]
fn readers_who_died_waiting_cost_writers_one_round() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (first, next) = (stage.writer(), stage.writer());
    stage.ask(asking(&write, &first, 60_000, None));
    stage.ask_after(&read, &stage.owner(), 5_000);
    stage.release(&write, &first).unwrap();
    assert_eq!(stage.ask(asking(&write, &next, 1_000, None)), busy(50, None));
    stage.pass(50);
    assert!(matches!(
        stage.ask(asking(&write, &next, 1_000, None)),
        Acquired::Granted { .. }
    ));
}

#[test]
fn a_patient_reader_passes_a_notice_once_the_lock_is_free() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let reader = stage.owner();
    stage.ask(asking(&read, &reader, 60_000, None));
    stage.ask_after(&write, &stage.writer(), 0);
    let patient = stage.owner();
    assert_eq!(stage.ask_after(&read, &patient, 1_001), busy(60_000, Some(2_001)));
    assert_eq!(
        stage.left(&read.readers_key()),
        None,
        "readers do not come after readers"
    );
    stage.release(&read, &reader).unwrap();
    assert_eq!(stage.ask_after(&read, &patient, 1_100), READING);
}

#[test]
fn a_writer_becomes_a_reader_in_one_step() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let heard = stage.engine.subscribe(&read.channel);
    let writer = stage.writer();
    stage.ask(asking(&write, &writer, 30_000, None));
    stage.pass(1_000);
    assert_eq!(stage.convert(&read, &writer, 10_000), Ok(READING));
    assert_eq!(heard.channel().last_message(), Some(1));
    let reader = writer.reading();
    assert_eq!(
        stage.left(&read.hold_key(&reader)),
        Some(29_000),
        "no less than the write hold had"
    );
    assert_eq!(stage.left("a"), Some(29_000));
    let before = heard.channel().count();
    assert_eq!(stage.convert(&read, &writer, 40_000), Ok(READING), "the same again");
    assert_eq!(stage.left(&read.hold_key(&reader)), Some(40_000));
    assert_eq!(heard.channel().count(), before);
    assert_eq!(stage.release(&write, &writer), Ok(Released::NotThere));
    assert_eq!(stage.ask(asking(&read, &stage.owner(), 1_000, None)), READING);
    assert_eq!(stage.release(&read, &reader), Ok(Released::Freed { receivers: 0 }));
    assert_eq!(stage.convert(&read, &writer, 1_000), NOT_HELD);
}

#[test]
fn the_only_live_reader_becomes_the_writer_in_one_step() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let (one, two, dead) = (stage.owner(), stage.owner(), stage.owner());
    stage.ask(asking(&read, &dead, 500, None));
    for owner in [&one, &two] {
        stage.ask(asking(&read, owner, 10_000, None));
    }
    stage.pass(1_000);
    assert_eq!(stage.convert(&write, &one, 10_000), Ok(busy(9_000, None)));
    assert_eq!(stage.convert(&write, &stage.owner(), 10_000), NOT_HELD);
    assert_eq!(stage.convert(&write, &dead, 10_000), NOT_HELD, "its hold is over");
    stage.release(&read, &two).unwrap();
    let granted = stage.convert(&write, &one, 5_000).unwrap();
    assert!(matches!(
        granted,
        Acquired::Granted {
            first_token: 1..,
            block: 1
        }
    ));
    assert_eq!(stage.convert(&write, &one, 4_000), Ok(granted), "the same token");
    assert_eq!(stage.left("a"), Some(5_000));
    assert_eq!(stage.left(&read.hold_key(&one)), None);
    assert_eq!(stage.release(&read, &one), Ok(Released::NotThere));
    assert_eq!(
        stage.release(&write, &one.writing()),
        Ok(Released::Freed { receivers: 0 })
    );
}

#[test]
fn each_side_is_freed_by_force_alone() {
    let stage = Stage::new();
    let (read, write) = sides("a");
    let heard = stage.engine.subscribe(&read.channel);
    assert_eq!(stage.force_release(&read), Ok(false));
    stage.ask(asking(&read, &stage.owner(), 1_000, None));
    assert_eq!(stage.force_release(&write), Ok(false));
    assert_eq!(stage.force_release(&read), Ok(true));
    assert_eq!(heard.channel().last_message(), Some(0));
    stage.ask(asking(&write, &stage.writer(), 1_000, None));
    assert_eq!(stage.force_release(&read), Ok(false));
    assert_eq!(stage.force_release(&write), Ok(true));
    assert_eq!(heard.channel().last_message(), Some(1));
}

#[test]
fn keys_of_other_kinds_are_refused_by_every_step() {
    let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
    for (found, value) in [
        ("string", Foreign::Text("5".to_owned())),
        ("list", Foreign::List),
        ("hash", Foreign::Hash(vec![pair("uuid:1", "1")])),
        ("hash", Foreign::Hash(vec![pair("mode", "dark"), pair("uuid:1", "1")])),
    ] {
        let stage = Stage::new();
        let (read, write) = sides("a");
        stage.engine.put_foreign("a", value, Some(60_000));
        for target in [&read, &write] {
            let owner = stage.owner();
            let steps = [
                Step::Acquire(asking(target, &owner, 1_000, Some(0))),
                Step::Convert {
                    acquire: asking(target, &owner, 1_000, None),
                    from: stage.owner(),
                },
                Step::Release {
                    target: Arc::clone(target),
                    owner: owner.clone(),
                },
                Step::ForceRelease {
                    target: Arc::clone(target),
                },
            ];
            for step in steps {
                assert_eq!(stage.reply(step), Err(wrong_kind(found)));
            }
            assert_eq!(
                stage.renew(vec![renewal(target, &owner, 1_000, 1_000)]),
                [Renewed::Gone]
            );
        }
        assert_eq!(stage.engine.lives().len(), 1, "nothing beside it");
    }
}
