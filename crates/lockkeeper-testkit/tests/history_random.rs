//! The sweeps of the checker agree with a check of all pairs, on small random histories.

use std::collections::BTreeSet;

use lockkeeper_testkit::history::checker::Fault;
use lockkeeper_testkit::history::{Ending, Entry, Grant, History, Sharing};
use proptest::prelude::*;

/// Times are small, so that ends and beginnings often meet.
fn entry() -> impl Strategy<Value = Entry> {
    let ends = (
        prop::option::of(0..20_u64),
        prop::option::of(0..20_u64),
        prop::option::of(0..20_u64),
    );
    let grant = (0..12_u64, 0..6_u64, prop::option::weighted(0.9, 0..12_u64), ends);
    (0..2_u8, any::<bool>(), prop::option::weighted(0.9, grant)).prop_map(|(object, exclusive, grant)| Entry {
        process: String::new(),
        number: 0,
        object: object.to_string(),
        sharing: if exclusive { Sharing::Exclusive } else { Sharing::Shared },
        called: grant.as_ref().map_or(0, |(called, ..)| *called),
        ending: grant.map(|(called, wait, token, (deadline, release, lost))| {
            let returned = called + wait;
            let after = |length: Option<u64>| length.map(|length| returned + length);
            Ending::Granted(Grant {
                owner: String::new(),
                token,
                returned,
                deadline: after(deadline),
                release_called: after(release),
                lost: after(lost),
                process_ended: None,
            })
        }),
    })
}

fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(entry(), 0..9).prop_map(|mut entries| {
        for (number, entry) in (0..).zip(&mut entries) {
            entry.number = number;
        }
        History::from_entries(entries)
    })
}

/// All ordered pairs of believed holds of one object.
fn pairs(history: &History) -> Vec<(&Entry, &Entry)> {
    let believed = || history.entries().iter().filter(|entry| entry.believed().is_some());
    believed()
        .flat_map(|first| believed().map(move |second| (first, second)))
        .filter(|(first, second)| first.number != second.number && first.object == second.object)
        .collect()
}

fn times(entry: &Entry) -> (u64, u64) {
    entry.believed().unwrap()
}

/// Position in time: by beginning, then by place in the history.
fn position(history: &History, entry: &Entry) -> (u64, usize) {
    let place = history
        .entries()
        .iter()
        .position(|other| other.number == entry.number)
        .unwrap();
    (times(entry).0, place)
}

fn overlapping(history: &History) -> BTreeSet<u64> {
    pairs(history)
        .into_iter()
        .filter(|(first, second)| position(history, first) < position(history, second))
        .filter(|(first, second)| first.sharing == Sharing::Exclusive || second.sharing == Sharing::Exclusive)
        .filter(|(first, second)| {
            let (first, second) = (times(first), times(second));
            first.0.max(second.0) < first.1.min(second.1)
        })
        .map(|(_, second)| second.number)
        .collect()
}

fn falling(history: &History) -> BTreeSet<u64> {
    let token = |entry: &Entry| entry.grant().unwrap().token;
    pairs(history)
        .into_iter()
        .filter(|(first, second)| {
            let both_share = first.sharing == Sharing::Shared && second.sharing == Sharing::Shared;
            let begun = if both_share { second.called } else { times(second).0 };
            times(first).1 <= begun
        })
        .filter(|(first, second)| matches!((token(first), token(second)), (Some(a), Some(b)) if a >= b))
        .map(|(_, second)| second.number)
        .collect()
}

fn later(faults: &[Fault]) -> BTreeSet<u64> {
    faults
        .iter()
        .map(|fault| match fault {
            Fault::Overlap(pair) | Fault::TokenNotRisen(pair) => pair.1.number,
            Fault::TooMany { entry, .. } | Fault::StillWaiting(entry) => entry.number,
            Fault::TokenRepeated(_) => panic!("repeated tokens are counted"),
        })
        .collect()
}

/// Each named pair must itself be a proof.
fn proves(history: &History, fault: &Fault, all: fn(&History) -> BTreeSet<u64>) -> bool {
    let (Fault::Overlap(pair) | Fault::TokenNotRisen(pair)) = fault else {
        return false;
    };
    let both = [pair.0.clone(), pair.1.clone()];
    let place = |entry: &Entry| history.entries().iter().position(|other| other.number == entry.number);
    let mut both = both.to_vec();
    both.sort_by_key(place);
    all(&History::from_entries(both)).contains(&pair.1.number)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn overlaps_are_those_of_all_pairs(history in histories()) {
        let found = history.overlaps();
        prop_assert_eq!(later(&found), overlapping(&history));
        prop_assert!(found.iter().all(|fault| proves(&history, fault, overlapping)));
    }

    #[test]
    fn falling_tokens_are_those_of_all_pairs(history in histories()) {
        let found = history.falling_tokens();
        prop_assert_eq!(later(&found), falling(&history));
        prop_assert!(found.iter().all(|fault| proves(&history, fault, falling)));
    }

    #[test]
    fn repeated_tokens_are_as_many_as_there_are_too_many(history in histories()) {
        let tokens: Vec<(&str, u64)> = history
            .entries()
            .iter()
            .filter_map(|entry| Some((entry.object.as_str(), entry.grant()?.token?)))
            .collect();
        let distinct: BTreeSet<_> = tokens.iter().collect();
        prop_assert_eq!(history.repeated_tokens().len(), tokens.len() - distinct.len());
    }

    #[test]
    fn too_many_holds_are_those_counted_one_by_one(history in histories(), permits in 0..4_usize) {
        let expected: BTreeSet<u64> = history
            .entries()
            .iter()
            .filter(|entry| entry.object == "1" && entry.believed().is_some())
            .filter(|entry| {
                let earlier = pairs(&history).into_iter().filter(|(first, second)| {
                    second.number == entry.number
                        && position(&history, first) < position(&history, second)
                        && times(first).1 > times(second).0
                });
                earlier.count() + 1 > permits
            })
            .map(|entry| entry.number)
            .collect();
        prop_assert_eq!(later(&history.more_than(permits, "1")), expected);
    }

    #[test]
    fn endless_waits_are_those_without_an_ending(history in histories()) {
        let expected = history.entries().iter().filter(|entry| entry.ending.is_none()).count();
        prop_assert_eq!(history.endless_waits().len(), expected);
    }
}

#[test]
fn a_million_holds_are_judged_in_seconds() {
    let count = 1_000_000;
    let holds = (0..count).map(|number| Entry {
        process: String::new(),
        number,
        object: (number % 10).to_string(),
        sharing: Sharing::Exclusive,
        called: number * 10,
        ending: Some(Ending::Granted(Grant {
            owner: String::new(),
            token: Some(number),
            returned: number * 10 + 1,
            // The last one of all lasts too long for nobody; number 500,000 runs into its successor.
            deadline: Some(number * 10 + if number == 500_000 { 150 } else { 90 }),
            release_called: None,
            lost: None,
            process_ended: None,
        })),
    });
    let history = History::from_entries(holds);
    let start = std::time::Instant::now();
    let faults = history.faults();
    assert!(start.elapsed() < std::time::Duration::from_secs(30));
    assert!(
        matches!(faults.as_slice(), [Fault::Overlap(pair)] if pair.1.number == 500_010),
        "{}",
        faults.len()
    );
}
