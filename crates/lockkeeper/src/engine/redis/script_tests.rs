//! The scripts' headers against what the scripts use and what is really sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::Arg;

use super::*;
use crate::base::name::Name;
use crate::base::owner::Owner;
use crate::engine::redis::hold::{Window, acquire_call, force_release_call, release_call};
use crate::engine::redis::inspect::inspect_call;
use crate::engine::redis::mutex::rest_call;
use crate::engine::redis::operation::operate_call;
use crate::engine::redis::renewal::renew_call;
use crate::engine::redis::rwlock::convert_call;
use crate::engine::{Acquire, Action, Copies, Kind, Layout, Operation, Renew, Rest, Target};

/// What the header of a script declares for `KEYS` or `ARGV`: numbers, and where a range begins.
#[derive(Debug, Default, PartialEq)]
struct Declared {
    numbers: BTreeSet<usize>,
    ranges: bool,
}

fn declared(script: &Script, table: &str) -> Declared {
    let mut declared = Declared::default();
    for line in script.source().lines().take_while(|line| line.starts_with("--")) {
        let text = line.trim_start_matches("--").trim_start();
        let Some(inside) = text.strip_prefix(table).and_then(|rest| rest.strip_prefix('[')) else {
            continue;
        };
        let (inside, _) = inside.split_once(']').unwrap();
        match inside.parse() {
            Ok(number) => drop(declared.numbers.insert(number)),
            Err(_) => declared.ranges = true,
        }
    }
    declared
}

fn code(script: &Script) -> impl Iterator<Item = &str> {
    script
        .source()
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default())
}

/// The fixed numbers with which the code reads `KEYS` or `ARGV`.
fn used(script: &Script, table: &str) -> BTreeSet<usize> {
    let opening = format!("{table}[");
    code(script)
        .flat_map(|line| line.split(&opening).skip(1).collect::<Vec<_>>())
        .filter_map(|rest| rest.split_once(']')?.0.parse().ok())
        .collect()
}

fn holds(entries: usize, kind: Kind, refresh: usize) -> Vec<Renew> {
    (0..entries)
        .map(|number| Renew {
            target: target(kind),
            owner: Owner::from_text("uuid:1"),
            lease: 1000,
            longest: 1000,
            refresh_token: number < refresh,
            copies: Arc::new(Copies::new()),
        })
        .collect()
}

/// The kinds that are held.
const HELD: &[Kind] = &[
    Kind::Mutex(Layout::Redisson),
    Kind::Mutex(Layout::Plain),
    Kind::Spin,
    Kind::Fenced,
    Kind::Election,
    Kind::Periodic(Layout::Redisson),
    Kind::Periodic(Layout::Plain),
    Kind::Fair,
    Kind::Read,
    Kind::Write,
];

fn target(kind: Kind) -> Arc<Target> {
    Arc::new(Target::new(kind, Name::new("a").unwrap()))
}

fn window() -> Window {
    Window {
        use_by: 1_700_000_000_000_000,
        limit: 2_000_000,
    }
}

/// One call that the engine makes: the script, what is sent, and how many holds and token records a batch has.
type Call = (&'static Script, Cmd, Option<(usize, usize)>);

fn calls() -> Vec<Call> {
    let owner = Owner::from_text("uuid:1");
    let mut calls = vec![(&*INSPECT, inspect_call(Name::new("a").unwrap()), None)];
    for &kind in HELD {
        let target = target(kind);
        let acquire = Acquire {
            target: Arc::clone(&target),
            owner: owner.clone(),
            lease: 1000,
            block: 1,
            permits: 1,
            waiting: None,
            candidate: None,
            copies: Arc::new(Copies::new()),
        };
        let single = [
            acquire_call(&acquire, window()),
            release_call(&target, &owner),
            force_release_call(&target),
        ];
        if matches!(kind, Kind::Periodic(_)) {
            let rest = Rest { until: 1, longest: 1 };
            let (script, command) = rest_call(&target, &owner, rest);
            calls.push((script, command, None));
        }
        calls.extend(single.map(|(script, command)| (script, command, None)));
        let (script, command) = renew_call(&holds(3, kind, 2), &[0, 1, 2], window());
        // Each read hold has a key of its own, and none has a token.
        let beside = if kind == Kind::Read { 3 } else { 2 };
        calls.push((script, command, Some((3, beside))));
        if matches!(kind, Kind::Read | Kind::Write) {
            let (script, command) = convert_call(&acquire, &owner, window());
            calls.push((script, command, None));
        }
    }
    for action in [
        Action::SetCount(3),
        Action::CountDown,
        Action::Count,
        Action::AwaitLatch { since: 5 },
        Action::RemoveLatch,
    ] {
        let operation = Operation {
            target: target(Kind::Latch),
            action,
            mark: owner.clone(),
            copies: Arc::new(Copies::new()),
        };
        let (script, command) = operate_call(&operation, window());
        calls.push((script, command, None));
    }
    for (kind, owner) in [(Kind::Permits, "0a".repeat(32)), (Kind::Counter, "uuid:1".to_owned())] {
        let (target, owner) = (target(kind), Owner::from_text(&owner));
        let acquire = Acquire {
            target: Arc::clone(&target),
            owner: owner.clone(),
            lease: 1000,
            block: 1,
            permits: 2,
            waiting: None,
            candidate: None,
            copies: Arc::new(Copies::new()),
        };
        let single = [acquire_call(&acquire, window()), release_call(&target, &owner)];
        calls.extend(single.map(|(script, command)| (script, command, None)));
        for action in [
            Action::TrySetPermits { permits: 3, life: None },
            Action::SetPermits(3),
            Action::AddPermits {
                permits: -3,
                if_there: true,
            },
            Action::DrainPermits,
            Action::CountPermits,
            Action::RemovePermits,
        ] {
            let operation = Operation {
                target: Arc::clone(&target),
                action,
                mark: owner.clone(),
                copies: Arc::new(Copies::new()),
            };
            let (script, command) = operate_call(&operation, window());
            calls.push((script, command, None));
        }
    }
    let (script, command) = renew_call(&holds(3, Kind::Permits, 2), &[0, 1, 2], window());
    calls.push((script, command, Some((3, 0))));
    calls
}

fn words(command: &Cmd) -> Vec<String> {
    command
        .args_iter()
        .map(|argument| match argument {
            Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("an argument of another kind"),
        })
        .collect()
}

#[test]
fn every_header_tells_name_reply_and_cost() {
    for script in all() {
        let header: Vec<_> = script
            .source()
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect();
        assert!(
            header[0].starts_with(&format!("-- {}: ", script.name())),
            "{}",
            script.name()
        );
        for part in ["-- KEYS[1", "-- Reply ", "-- Cost "] {
            assert!(
                header.iter().any(|line| line.starts_with(part)),
                "{}: {part}",
                script.name()
            );
        }
    }
}

#[test]
fn what_is_used_is_declared_and_what_is_declared_is_used() {
    for script in all() {
        for table in ["KEYS", "ARGV"] {
            let (declared, used) = (declared(script, table), used(script, table));
            assert_eq!(declared.numbers, used, "{} {table}", script.name());
            assert_eq!(
                declared.numbers,
                (1..=declared.numbers.len()).collect(),
                "{} {table}",
                script.name()
            );
        }
    }
}

#[test]
fn what_is_sent_is_what_is_declared() {
    let mut called = BTreeSet::new();
    for (script, command, batch) in calls() {
        called.insert(script.name());
        let words = words(&command);
        assert_eq!((&*words[0], &*words[1]), ("EVALSHA", script.hash()));
        let keys: usize = words[2].parse().unwrap();
        let arguments = words.len() - 3 - keys;
        let (declared_keys, declared_arguments) = (declared(script, "KEYS"), declared(script, "ARGV"));
        let (entries, records) = batch.unwrap_or_default();
        assert_eq!(declared_keys.ranges, batch.is_some(), "{}", script.name());
        assert_eq!(
            keys,
            declared_keys.numbers.len() + entries + records,
            "{}",
            script.name()
        );
        assert_eq!(
            arguments,
            declared_arguments.numbers.len() + entries,
            "{}",
            script.name()
        );
    }
    let all: BTreeSet<_> = all().iter().map(|script| script.name()).collect();
    assert_eq!(called, all, "every script is called by something");
}

#[test]
fn no_key_is_built_inside_a_script() {
    for script in all() {
        for line in code(script) {
            assert!(
                !line.contains(":{") && !line.contains("'redisson") && !line.contains("'lockkeeper"),
                "{line}"
            );
            // The second argument of each call is a key or a channel: from KEYS, or a local that is one.
            for call in ["call('", "pcall('"] {
                for rest in line.split(call).skip(1) {
                    let Some((_, arguments)) = rest.split_once("',") else {
                        continue;
                    };
                    let first = arguments.trim_start();
                    let is_key = ["KEYS[", "key", "unpack(KEYS"].iter().any(|key| first.starts_with(key));
                    assert!(is_key, "{}: {line}", script.name());
                }
            }
        }
    }
}

#[test]
fn hashes_are_those_of_the_text() {
    let hashes: BTreeSet<_> = all().iter().map(|script| script.hash().to_owned()).collect();
    assert_eq!(hashes.len(), all().len());
    // The hash that every server gives this text.
    assert_eq!(
        Script::new("", "", "return 1").hash(),
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    );
}
