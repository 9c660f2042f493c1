//! A server with a user who may do certain things, and every step of every kind of object on it.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::super::*;
use crate::base::owner::OwnerSource;
use crate::engine::redis::permissions::{BASE, Needs};
use crate::engine::{Action, Cause, Kind, Operation, Rest, Waiting};
use crate::error::Refusal;

/// What names begin with that the user may use.
pub(super) const PREFIX: &str = "shop:";

/// What was refused: the kind of refusal, and the command, key or channel.
pub(super) type Refused = BTreeSet<(String, String)>;

pub(super) struct Trial {
    pub(super) stage: Stage,
    needs: &'static Needs,
}

impl Trial {
    /// A server with a user who has what the object needs, and no more.
    pub(super) async fn of(needs: &'static Needs) -> Self {
        let server = RedisServer::builder().user("u", &rules(needs)).start();
        let url = format!("redis://u:hunter2@{}", server.address());
        Self {
            stage: Stage::through(server, &url, |config| config).await,
            needs,
        }
    }

    pub(super) async fn admin(&self, words: &[&str]) -> Value {
        self.stage.ask(words).await
    }

    /// Changes what the user may do.
    pub(super) async fn set_user(&self, rules: &[&str]) {
        let rules = rules.iter().filter(|rule| !rule.is_empty());
        let words: Vec<_> = ["ACL", "SETUSER", "u"].iter().chain(rules).copied().collect();
        let _: () = self.stage.ask(&words).await;
    }

    pub(super) fn target(&self, kind: Kind, name: &str) -> Arc<Target> {
        Arc::new(Target::new(kind, Name::new(&format!("{PREFIX}{name}")).unwrap()))
    }

    /// Performs a step whatever comes of it.
    pub(super) async fn step(&self, step: Step) -> bool {
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
    pub(super) async fn everything(&self) -> Refused {
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

    pub(super) async fn refused(&self) -> Refused {
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
            Kind::Permits => OwnerSource::new().next_permits(1),
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
pub(super) fn rules_without(needs: &Needs, helper: Option<&str>, channel: Option<&str>) -> String {
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

pub(super) fn rules(needs: &Needs) -> String {
    rules_without(needs, None, None)
}
