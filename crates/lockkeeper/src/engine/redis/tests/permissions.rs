//! What the guide says that a user needs, tried on a real server: with exactly that everything works, and without any part of it
//! something is refused.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::*;
use crate::engine::redis::permissions::{BASE, Needs, OBJECTS};
use crate::engine::redis::script::all;
use crate::engine::{Action, Cause, Kind, Operation, Rest, Waiting};
use crate::error::Refusal;

/// What names begin with that the user may use.
const PREFIX: &str = "shop:";

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

/// What was refused: the kind of refusal, and the command, key or channel.
type Refused = BTreeSet<(String, String)>;

struct Trial {
    stage: Stage,
    needs: &'static Needs,
}

impl Trial {
    /// A server with a user who has what the object needs, and no more.
    async fn of(needs: &'static Needs) -> Self {
        let server = RedisServer::builder().user("u", &rules(needs)).start();
        let url = format!("redis://u:hunter2@{}", server.address());
        Self {
            stage: Stage::through(server, &url, |config| config).await,
            needs,
        }
    }

    async fn admin(&self, words: &[&str]) -> Value {
        self.stage.ask(words).await
    }

    /// Changes what the user may do.
    async fn set_user(&self, rules: &[&str]) {
        let rules = rules.iter().filter(|rule| !rule.is_empty());
        let words: Vec<_> = ["ACL", "SETUSER", "u"].iter().chain(rules).copied().collect();
        let _: () = self.stage.ask(&words).await;
    }

    fn target(&self, kind: Kind, name: &str) -> Arc<Target> {
        Arc::new(Target::new(kind, Name::new(&format!("{PREFIX}{name}")).unwrap()))
    }

    /// Performs a step whatever comes of it.
    async fn step(&self, step: Step) -> bool {
        match self.stage.perform(step).await {
            Err(StepError {
                cause: Cause::Refused(refusal, text),
                ..
            }) => {
                assert!(!text.contains("hunter2"), "{text}");
                matches!(refusal, Refusal::Permission | Refusal::ScriptMissing)
            }
            _ => false,
        }
    }

    /// Every step of every kind of this object, in every situation in which it calls other commands. Tells what was refused.
    async fn everything(&self) -> Refused {
        self.admin(&["FLUSHALL"]).await;
        self.admin(&["ACL", "LOG", "RESET"]).await;
        for kind in self.needs.kinds {
            match kind {
                Kind::Latch => self.latch().await,
                Kind::Permits | Kind::Counter => self.semaphore(*kind).await,
                kind => {
                    self.held(*kind, "shared").await;
                    // A name with a hash tag of its own has other helper keys.
                    self.special(*kind).await;
                }
            }
        }
        if self.needs.kinds.is_empty() {
            self.looks().await;
        }
        self.refused().await
    }

    async fn refused(&self) -> Refused {
        let log: Vec<BTreeMap<String, Value>> = self.stage.ask(&["ACL", "LOG", "128"]).await;
        let field = |entry: &BTreeMap<String, Value>, name: &str| {
            redis::from_redis_value_ref::<String>(&entry[name])
                .unwrap()
                .to_lowercase()
        };
        log.iter()
            .filter(|entry| field(entry, "username") == "u")
            .map(|entry| (field(entry, "reason"), field(entry, "object")))
            // Servers from 7.2 know it, and users of older ones cannot be allowed it.
            .filter(|(_, object)| object != "client|setinfo")
            .collect()
    }

    async fn acquire(&self, target: &Arc<Target>, owner: &Owner, lease: u64, waited: Option<u64>) {
        let acquire = Acquire {
            lease,
            waiting: waited.map(|waited| Waiting { waited, grace: 2000 }),
            ..asking(target, owner)
        };
        self.step(Step::Acquire(acquire)).await;
    }

    async fn renew(&self, target: &Arc<Target>, owner: &Owner, lease: u64, longest: u64) {
        let entry = Renew {
            lease,
            longest,
            refresh_token: !matches!(target.kind, Kind::Read),
            ..renewing(target, owner)
        };
        self.step(Step::Renew(vec![entry])).await;
    }

    async fn release(&self, target: &Arc<Target>, owner: &Owner) {
        let (target, owner) = (Arc::clone(target), owner.clone());
        self.step(Step::Release { target, owner }).await;
    }

    async fn convert(&self, target: &Arc<Target>, owner: &Owner, from: &Owner) {
        let acquire = asking(target, owner);
        let from = from.clone();
        self.step(Step::Convert { acquire, from }).await;
    }

    async fn force(&self, target: &Arc<Target>) {
        let target = Arc::clone(target);
        self.step(Step::ForceRelease { target }).await;
    }

    /// The life of what is held: taken, asked for again, waited for, renewed, freed; and peers' keys beside it.
    async fn held(&self, kind: Kind, name: &str) {
        let target = self.target(kind, name);
        let (first, second, third) = (owner(), owner(), owner());
        self.admin(&["SET", &target.peer_token_key, "7"]).await;
        self.acquire(&target, &first, 5_000, Some(0)).await;
        self.acquire(&target, &first, 60_000, Some(0)).await;
        for waited in [Some(0), Some(5_000), None] {
            self.acquire(&target, &second, 5_000, waited).await;
            self.acquire(&target, &third, 5_000, waited).await;
        }
        // Lengthened, cut to what was ever asked for, and lengthened where the longest is another.
        self.renew(&target, &first, 30_000, 30_000).await;
        self.renew(&target, &first, 1_000, 2_000).await;
        self.renew(&target, &first, 30_000, 60_000).await;
        self.renew(&target, &second, 30_000, 30_000).await;
        self.release(&target, &owner()).await;
        self.release(&target, &third).await;
        self.release(&target, &first).await;
        self.acquire(&target, &third, 5_000, Some(0)).await;
        self.acquire(&target, &second, 5_000, Some(0)).await;
        self.release(&target, &second).await;
        self.force(&target).await;
        self.force(&target).await;
        self.admin(&["DEL", target.name.as_str()]).await;

        // What is no lock of this kind.
        for words in [["RPUSH", "x"].as_slice(), &["HSET", "mode", "other"], &["SET", "x"]] {
            let mut stray = vec![words[0], target.name.as_str()];
            stray.extend(&words[1..]);
            self.admin(&["DEL", target.name.as_str()]).await;
            self.admin(&stray).await;
            self.acquire(&target, &first, 5_000, None).await;
            self.renew(&target, &first, 5_000, 5_000).await;
            self.release(&target, &first).await;
            self.force(&target).await;
        }
        self.admin(&["DEL", target.name.as_str()]).await;
    }

    /// What only one kind does.
    async fn special(&self, kind: Kind) {
        let target = self.target(kind, "special");
        let (first, second) = (owner(), owner());
        match kind {
            Kind::Periodic(_) => {
                for until in [u64::MAX >> 12, 1] {
                    self.acquire(&target, &first, 5_000, None).await;
                    let rest = Rest { until, longest: 60_000 };
                    for _ in 0..2 {
                        let (target, owner) = (Arc::clone(&target), first.clone());
                        self.step(Step::Rest { target, owner, rest }).await;
                    }
                    self.admin(&["DEL", target.name.as_str()]).await;
                }
            }
            Kind::Fair => {
                // A dead waiter ahead, and one that is not the head while the lock is free.
                self.admin(&["RPUSH", &target.queue_key(), "dead:1", "alive:2"]).await;
                self.admin(&["ZADD", &target.timeout_key(), "1", "dead:1"]).await;
                self.admin(&["ZADD", &target.timeout_key(), "9000000000000", "alive:2"])
                    .await;
                self.acquire(&target, &first, 5_000, Some(0)).await;
                self.acquire(&target, &first, 5_000, Some(0)).await;
            }
            Kind::Read => {
                let writing = self.target(Kind::Write, "special");
                self.acquire(&target, &first, 5_000, Some(0)).await;
                self.acquire(&target, &second, 9_000, Some(0)).await;
                self.acquire(&writing, &owner(), 5_000, Some(5_000)).await;
                self.acquire(&target, &owner(), 5_000, Some(5_000)).await;
                self.release(&target, &second).await;
                self.convert(&writing, &second, &first).await;
                self.acquire(&target, &owner(), 5_000, Some(5_000)).await;
                self.convert(&target, &first, &second).await;
                self.release(&target, &first).await;
            }
            _ => {}
        }
    }

    async fn latch(&self) {
        let target = self.target(Kind::Latch, "latch");
        let act = async |action| {
            let operation = Operation {
                target: Arc::clone(&target),
                action,
                mark: owner(),
                copies: Arc::new(Copies::new()),
            };
            self.step(Step::Operate(operation)).await
        };
        for last in [Action::CountDown, Action::RemoveLatch] {
            for action in [
                Action::SetCount(2),
                Action::CountDown,
                Action::Count,
                Action::AwaitLatch { since: 0 },
                last,
                Action::AwaitLatch { since: 5 },
            ] {
                act(action).await;
            }
        }
        self.admin(&["DEL", target.name.as_str()]).await;
        self.admin(&["HSET", target.name.as_str(), "mode", "read"]).await;
        act(Action::SetCount(2)).await;
        self.admin(&["DEL", target.name.as_str()]).await;
    }

    async fn semaphore(&self, kind: Kind) {
        let target = self.target(kind, "semaphore");
        let act = async |action| {
            let operation = Operation {
                target: Arc::clone(&target),
                action,
                mark: owner(),
                copies: Arc::new(Copies::new()),
            };
            self.step(Step::Operate(operation)).await
        };
        let ids = || match kind {
            Kind::Permits => crate::base::owner::OwnerSource::new().next_permits(1),
            _ => owner(),
        };
        let (first, second) = (ids(), ids());
        for life in [None, Some(60_000)] {
            act(Action::TrySetPermits { permits: 2, life }).await;
            act(Action::SetPermits(3)).await;
            act(Action::CountPermits).await;
            for owner in [&first, &second, &first] {
                self.acquire(&target, owner, 50_000, Some(0)).await;
            }
            if kind == Kind::Permits {
                self.renew(&target, &first, 60_000, 60_000).await;
                self.renew(&target, &first, 1_000, 2_000).await;
            }
            act(Action::SetPermits(1)).await;
            self.release(&target, &first).await;
            self.release(&target, &first).await;
            for permits in [5, -1] {
                act(Action::AddPermits {
                    permits,
                    if_there: false,
                })
                .await;
            }
            // One permit whose life is over, and one that never ends.
            let ends = target.permits_key();
            self.admin(&["ZADD", &ends, "1", "dead", "922337203685477", "java"])
                .await;
            act(Action::CountPermits).await;
            self.acquire(&target, &ids(), 50_000, Some(0)).await;
            self.admin(&["ZADD", &ends, "1", "dead"]).await;
            self.release(&target, &second).await;
            act(Action::DrainPermits).await;
            self.acquire(&target, &ids(), 50_000, Some(0)).await;
            act(Action::RemovePermits).await;
            act(Action::RemovePermits).await;
            self.admin(&["DEL", target.name.as_str(), &ends]).await;
        }
        self.admin(&["HSET", target.name.as_str(), "mode", "read"]).await;
        act(Action::CountPermits).await;
        act(Action::TrySetPermits { permits: 2, life: None }).await;
        self.admin(&["DEL", target.name.as_str()]).await;
    }

    async fn looks(&self) {
        let name = Name::new(&format!("{PREFIX}seen")).unwrap();
        let target = self.target(Kind::Fair, "seen");
        for words in [
            ["HSET", "u:1", "1"].as_slice(),
            &["HSET", "mode", "read", "u:1", "1"],
            &["SET", "u:1"],
            &["SET", "3"],
        ] {
            let mut command = vec![words[0], name.as_str()];
            command.extend(&words[1..]);
            self.admin(&["DEL", name.as_str()]).await;
            self.admin(&command).await;
            self.admin(&["RPUSH", &target.queue_key(), "u:2"]).await;
            self.admin(&["ZADD", &target.permits_key(), "1", "id"]).await;
            self.step(Step::Inspect { name: name.clone() }).await;
        }
    }
}

/// The user's rules as the guide tells them, without one helper pattern and without one channel pattern.
fn rules_without(needs: &Needs, helper: Option<&str>, channel: Option<&str>) -> String {
    let commands: Vec<_> = BASE
        .iter()
        .flat_map(|base| base.commands)
        .chain(needs.commands)
        .map(|command| format!("+{command}"))
        .collect();
    let patterns = |sign: char, starts: &[&'static str], without: Option<&str>| {
        let kept = starts.iter().filter(|start| Some(**start) != without);
        kept.map(|start| format!("{sign}{start}{PREFIX}*"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "on >hunter2 resetkeys {} resetchannels {} -@all {}",
        patterns('~', &[&[""], needs.helpers].concat(), helper),
        patterns('&', needs.channels, channel),
        commands.join(" ")
    )
}

fn rules(needs: &Needs) -> String {
    rules_without(needs, None, None)
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
    let guide = include_str!("../../../guide/security.md");
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
    let guide = include_str!("../../../guide/security.md");
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
