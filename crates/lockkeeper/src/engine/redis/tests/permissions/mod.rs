//! What the guide says that a user needs, tried on a real server: with exactly that everything works, and without any part of it
//! something is refused.

mod trial;

use std::collections::BTreeSet;

use self::trial::{PREFIX, Trial, rules_without};
use super::*;
use crate::engine::redis::permissions::{BASE, OBJECTS};
use crate::engine::redis::script::all;
use crate::engine::{Action, Kind, Operation};

/// The row of a kind.
fn object_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex(Layout::Plain) | Kind::Periodic(Layout::Plain) => "plain mutex",
        Kind::Mutex(Layout::Redisson) | Kind::Periodic(Layout::Redisson) => "mutex",
        Kind::Read | Kind::Write => "read-write lock",
        Kind::Latch => "count-down latch",
        Kind::Election => "election",
        kind => kind.word(),
    }
}

/// The text of a script without the functions that nothing in it calls: what is shared is not always used.
fn used_text(source: &str) -> String {
    let mut text = source.to_owned();
    loop {
        let unused = text.split("local function ").skip(1).find_map(|rest| {
            let name = rest.split('(').next()?;
            let end = rest.find("\nend\n")?;
            (text.matches(&format!("{name}(")).count() == 1).then(|| format!("local function {}\nend\n", &rest[..end]))
        });
        match unused {
            Some(unused) => text = text.replace(&unused, ""),
            None => return text,
        }
    }
}

#[tokio::test]
async fn each_object_works_with_these_commands_and_with_none_less() {
    let mut idle = Vec::new();
    for needs in &OBJECTS {
        let trial = Trial::of(needs).await;
        let refused = trial.everything().await;
        assert!(refused.is_empty(), "{}: {refused:?}", needs.object);
        for command in needs.commands {
            trial.set_user(&[&format!("-{command}")]).await;
            let refused = trial.everything().await;
            if !refused.contains(&("command".to_owned(), (*command).to_owned())) {
                idle.push((needs.object, *command));
            }
            trial.set_user(&[&format!("+{command}")]).await;
        }
        let refused = trial.everything().await;
        assert!(refused.is_empty(), "{}: {refused:?}", needs.object);
    }
    assert!(idle.is_empty(), "nothing was refused without: {idle:?}");
}

#[tokio::test]
async fn each_object_works_with_these_patterns_and_with_none_less() {
    for needs in &OBJECTS {
        let trial = Trial::of(needs).await;
        let without = async |helper, channel| {
            let rules = rules_without(needs, helper, channel);
            trial.set_user(&rules.split(' ').collect::<Vec<_>>()).await;
            trial.everything().await
        };
        for helper in [&[""], needs.helpers].concat() {
            let refused = without(Some(helper), None).await;
            let object = format!("{helper}{PREFIX}");
            assert!(
                refused
                    .iter()
                    .any(|(reason, key)| reason == "key" && key.starts_with(&object)),
                "{} {helper:?}: {refused:?}",
                needs.object
            );
        }
        for channel in needs.channels {
            let refused = without(None, Some(*channel)).await;
            assert!(
                refused
                    .iter()
                    .any(|(reason, object)| reason == "channel" && object.starts_with(channel)),
                "{} {channel}: {refused:?}",
                needs.object
            );
        }
        assert!(without(None, None).await.is_empty());
    }
}

/// What scripts may call in any situation is what is granted: a rare branch must not be the first to be refused.
#[test]
fn no_script_calls_what_is_not_granted() {
    for script in all() {
        let object = script.name().split('/').next().unwrap();
        let needs = OBJECTS.iter().find(|needs| match object {
            "plain" => needs.object == "plain mutex",
            "spin" | "fenced" | "fair" => needs.object.split(' ').next() == Some(object),
            "rwlock" => needs.object == "read-write lock",
            "latch" => needs.object == "count-down latch",
            "permits" => needs.object == "semaphore",
            // Some steps are those of both semaphores, and call what only the leased one has.
            "semaphore" if ["semaphore/acquire", "semaphore/give_back"].contains(&script.name()) => {
                needs.object == "counting semaphore"
            }
            "semaphore" => needs.object == "semaphore",
            "inspect" => needs.object == "looking at a name",
            object => needs.object == object,
        });
        let needs = needs.unwrap_or_else(|| panic!("{object} has no row in the table of permissions"));
        let granted: BTreeSet<_> = BASE
            .iter()
            .flat_map(|base| base.commands)
            .chain(needs.commands)
            .collect();
        for call in used_text(script.source()).split("call('").skip(1) {
            let command = call.split('\'').next().unwrap().to_lowercase();
            assert!(granted.contains(&&*command), "{}: {command}", script.name());
        }
    }
}

#[test]
fn the_guide_has_the_same_tables() {
    let guide = include_str!("../../../../guide/security.md");
    let joined = |sign: char, texts: &[&str], end: &str| {
        let texts: Vec<_> = texts.iter().map(|text| format!("{sign}{text}{end}")).collect();
        texts.join(" ")
    };
    let end = format!("{PREFIX}*");
    for base in &BASE {
        let row = format!("| {} | `{}` |\n", base.purpose, joined('+', base.commands, ""));
        assert!(guide.contains(&row), "{row}");
    }
    for needs in &OBJECTS {
        let channels = match needs.channels {
            [] => "none".to_owned(),
            channels => format!("`{}`", joined('&', channels, &end)),
        };
        let row = format!(
            "| {} | `{}` | `{}` | {channels} |\n",
            needs.object,
            joined('+', needs.commands, ""),
            joined('~', &[&[""], needs.helpers].concat(), &end),
        );
        assert!(guide.contains(&row), "{row}");
    }
}

/// A user of the whole text in the guide runs a mutex.
#[tokio::test]
async fn the_guides_whole_user_works() {
    let guide = include_str!("../../../../guide/security.md");
    let rules = guide
        .split("ACL SETUSER shop on >PASSWORD ")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let rules: Vec<_> = rules.split_whitespace().collect();
    let trial = Trial::of(&OBJECTS[0]).await;
    trial.set_user(&[&["reset", "on", ">hunter2"], &*rules].concat()).await;
    assert!(trial.everything().await.is_empty());
}

#[test]
fn every_row_is_that_of_its_kinds() {
    for needs in &OBJECTS {
        for kind in needs.kinds {
            assert_eq!(object_of(*kind), needs.object, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn whoever_has_one_prefix_reaches_no_other() {
    for needs in OBJECTS.iter().filter(|needs| !needs.kinds.is_empty()) {
        let trial = Trial::of(needs).await;
        for name in ["store:x", "shop", "x{shop:}", "SHOP:x"] {
            let target = Arc::new(Target::new(needs.kinds[0], Name::new(name).unwrap()));
            assert!(
                trial
                    .step(Step::ForceRelease {
                        target: Arc::clone(&target)
                    })
                    .await
                    || needs.kinds[0] == Kind::Latch
            );
            let action = Operation {
                target: Arc::clone(&target),
                action: match needs.kinds[0] {
                    Kind::Latch => Action::SetCount(1),
                    _ => Action::DrainPermits,
                },
                mark: owner(),
                copies: Arc::new(Copies::new()),
            };
            let taking = match needs.kinds[0] {
                Kind::Latch | Kind::Permits | Kind::Counter => Step::Operate(action),
                _ => Step::Acquire(asking(&target, &owner())),
            };
            assert!(trial.step(taking).await, "{} {name}", needs.object);
        }
        assert!(trial.stage.server.keys().await.is_empty());
    }
}

#[tokio::test]
async fn what_every_client_needs_is_needed() {
    let needs = &OBJECTS[0];
    let trial = Trial::of(needs).await;
    let url = format!("redis://u:hunter2@{}", trial.stage.server.address());
    for command in BASE.iter().flat_map(|base| base.commands) {
        trial.set_user(&[&format!("-{command}")]).await;
        trial.admin(&["SCRIPT", "FLUSH"]).await;
        trial.admin(&["ACL", "LOG", "RESET"]).await;
        let keeper = Keeper::start();
        let config = RedisConfig::from_url(&url)
            .unwrap()
            .heartbeat(Duration::from_millis(10))
            .unwrap();
        let connected = RedisEngine::connect(config, Arc::new(SystemClock), keeper.handle().clone()).await;
        if let Ok(engine) = &connected {
            let target = trial.target(Kind::Mutex(Layout::Redisson), "base");
            let step = Step::Acquire(asking(&target, &owner()));
            drop(engine.perform(Lane::Foreground, step, LIMIT).await);
            let subscription = engine.subscribe(&target.channel);
            if !["subscribe", "evalsha", "script|load"].contains(command) {
                tokio::time::timeout(PATIENCE, subscription.channel().becomes_live())
                    .await
                    .unwrap();
            }
            if *command == "unsubscribe" {
                drop(subscription);
            } else {
                until_refused(&trial, command).await;
            }
        }
        until_refused(&trial, command).await;
        assert_eq!(connected.is_err(), *command == "time", "{command}");
        trial.set_user(&[&format!("+{command}")]).await;
    }
}

async fn until_refused(trial: &Trial, command: &str) {
    let wanted = ("command".to_owned(), command.to_owned());
    lockkeeper_testkit::wait_until("a refusal", PATIENCE, async || {
        let refused = trial.refused().await;
        if refused.contains(&wanted) {
            Ok(())
        } else {
            Err(refused)
        }
    })
    .await;
}
