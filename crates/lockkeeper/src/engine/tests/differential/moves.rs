use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::base::name::Name;
use crate::base::owner::Owner;
use crate::engine::embedded::tests::Foreign;
use crate::engine::{Acquire, Action, Copies, Kind, Layout, NEVER, Operation, Renew, Rest, Step, Target, Waiting};

/// What happens next on both sides.
pub(super) enum Move {
    Step(Step),
    /// So much time passes.
    Lapse(Duration),
    /// Somebody else writes a key, for so many milliseconds or for ever.
    Write {
        key: String,
        value: Foreign,
        life: Option<u64>,
    },
    /// Somebody else removes a key.
    Remove(String),
    /// Nothing happens, and everything stored is compared.
    LookAtAll,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => describe(step, f),
            Self::Lapse(span) => write!(f, "lapse of {span:?}"),
            Self::Write { key, value, life } => write!(f, "write {key:?} {value:?} life {life:?}"),
            Self::Remove(key) => write!(f, "remove {key:?}"),
            Self::LookAtAll => f.write_str("look at all"),
        }
    }
}

fn describe(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let of = |target: &Target, owner: &Owner| {
        let owner = owner.as_str().rsplit(':').next().unwrap_or_default();
        format!("{:?} {} by {owner}", target.kind, target.name)
    };
    match step {
        Step::Acquire(step) => {
            let (lease, block) = (step.lease, step.block);
            write!(
                f,
                "acquire {}, lease {lease}, block {block}",
                of(&step.target, &step.owner)
            )
        }
        Step::Convert { acquire, from } => write!(
            f,
            "convert {} to {}, lease {}, block {}",
            of(&acquire.target, from),
            acquire.owner.as_str(),
            acquire.lease,
            acquire.block
        ),
        Step::Renew(entries) => {
            f.write_str("renew")?;
            entries.iter().try_for_each(|entry| {
                let (lease, longest) = (entry.lease, entry.longest);
                let record = if entry.refresh_token { " and record" } else { "" };
                write!(
                    f,
                    " [{}, lease {lease} of {longest}{record}]",
                    of(&entry.target, &entry.owner)
                )
            })
        }
        Step::Release { target, owner } => write!(f, "release {}", of(target, owner)),
        Step::Rest { target, owner, rest } => write!(f, "rest {} {rest:?}", of(target, owner)),
        Step::ForceRelease { target } => write!(f, "force {:?} {}", target.kind, target.name),
        Step::Operate(step) => write!(f, "{:?} of {}", step.action, of(&step.target, &step.mark)),
        Step::Inspect { name } => write!(f, "inspect {name}"),
    }
}

/// What may meet under one name.
const KINDS: [Kind; 8] = [
    Kind::Mutex(Layout::Redisson),
    Kind::Mutex(Layout::Plain),
    Kind::Spin,
    Kind::Fenced,
    Kind::Fair,
    Kind::Election,
    Kind::Periodic(Layout::Redisson),
    Kind::Periodic(Layout::Plain),
];

/// What may meet under the names of read-write locks.
const RWLOCK_KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Mutex(Layout::Redisson)];
/// What is a number under its name, on names of their own, so that locks are not always there first.
const NUMBERS: [Kind; 2] = [Kind::Permits, Kind::Counter];
const NUMBER_NAMES: [&str; 3] = ["slots", "{slots}:2", "pörmits\r\n"];

/// Few names and few owners, so that they meet.
const RWLOCK_NAMES: [&str; 4] = ["rw", "{rw}:1", "{rw}:2", "{rw}:3"];
const NAMES: [&str; 5] = ["a", "order:1", "{orders}:42", "{orders}:43", "zwölf\r\n"];
const OWNERS: u64 = 5;
const LONGEST_LEASE: u64 = 60_000;
const LARGEST_BLOCK: u32 = 4_000;

/// Makes up moves, those that hit something more often than chance would.
pub(super) struct Moves {
    random: Rng,
    targets: Vec<Arc<Target>>,
    owners: Vec<Owner>,
    /// Owner texts that are ids of permits.
    permits: Vec<Owner>,
    /// Who was last granted which target.
    granted: HashMap<usize, Owner>,
}

impl Moves {
    /// The names are those of the walk with this number alone.
    pub(super) fn new(walk: u32, seed: u64) -> Self {
        let target = |name: &str, kind| {
            let name = Name::new(&format!("{name}/{walk}")).expect("these are good names");
            Arc::new(Target::new(kind, name))
        };
        let targets = NAMES.iter().flat_map(|name| KINDS.map(|kind| target(name, kind)));
        let rwlocks = RWLOCK_NAMES
            .iter()
            .flat_map(|name| RWLOCK_KINDS.map(|kind| target(name, kind)));
        let numbers = NUMBER_NAMES
            .iter()
            .flat_map(|name| NUMBERS.map(|kind| target(name, kind)));
        let uuid = "3f1b2c4d-0000-4000-8000-00000000beef";
        Self {
            random: Rng::with_seed(seed),
            targets: targets.chain(rwlocks).chain(numbers).collect(),
            owners: (1..=OWNERS)
                .map(|number| Owner::from_text(&format!("{uuid}:{number}")))
                .collect(),
            permits: (0..OWNERS).map(permits).collect(),
            granted: HashMap::new(),
        }
    }

    pub(super) fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Remembers who was granted what, to come back to it.
    pub(super) fn note_granted(&mut self, target: &Arc<Target>, owner: &Owner) {
        let index = self.targets.iter().position(|known| known == target);
        self.granted
            .insert(index.expect("only known targets are asked for"), owner.clone());
    }

    pub(super) fn next(&mut self) -> Move {
        match self.random.u32(0..1000) {
            0..350 => Move::Step(self.acquire()),
            350..400 => Move::Step(self.convert()),
            400..570 => Move::Step(self.release()),
            570..630 => Move::Step(self.rest()),
            630..760 => Move::Step(Step::Renew(self.renewals())),
            760..775 => Move::Step(Step::ForceRelease { target: self.lock().1 }),
            775..830 => Move::Step(self.operate()),
            830..860 => Move::Step(Step::Inspect {
                name: self.target().1.name.clone(),
            }),
            860..910 => Move::Lapse(self.lapse()),
            910..935 => self.write_name(),
            935..940 => self.write_line(),
            940..945 => self.write_rwlock(),
            945..949 => self.write_permits(),
            949..955 => self.write_tokens(),
            955..975 => Move::Remove(self.target().1.name.as_str().to_owned()),
            975..980 => {
                let target = self.target().1;
                Move::Remove(if self.random.bool() {
                    target.queue_key()
                } else {
                    target.timeout_key()
                })
            }
            980..995 => {
                let target = self.target().1;
                Move::Remove(if self.random.bool() {
                    target.token_key.clone()
                } else {
                    target.peer_token_key.clone()
                })
            }
            _ => Move::LookAtAll,
        }
    }

    fn target(&mut self) -> (usize, Arc<Target>) {
        // Readers and writers must meet each other more often than they meet a mutex.
        if self.random.u32(0..3) == 0 {
            return self.side();
        }
        let index = self.random.usize(0..self.targets.len());
        (index, Arc::clone(&self.targets[index]))
    }

    /// One that can be freed by force.
    fn lock(&mut self) -> (usize, Arc<Target>) {
        loop {
            let (index, target) = self.target();
            if !matches!(target.kind, Kind::Permits | Kind::Counter) {
                return (index, target);
            }
        }
    }

    fn owner(&mut self) -> Owner {
        self.owners[self.random.usize(0..self.owners.len())].clone()
    }

    /// An owner text serves one object: where a mutex would find its own among the fields of an election, there is no election.
    fn owner_for(&mut self, kind: Kind) -> Owner {
        let owner = self.owner();
        match kind {
            Kind::Election => Owner::from_text(&format!("{}:leads", owner.as_str())),
            Kind::Write => owner.writing(),
            Kind::Permits => self.permits[self.random.usize(0..self.permits.len())].clone(),
            _ => owner,
        }
    }

    /// A target and, two times in three, the owner who probably holds it.
    fn target_and_owner(&mut self) -> (Arc<Target>, Owner) {
        let (index, target) = self.target();
        let likely = self.granted.get(&index).filter(|_| self.random.u32(0..3) > 0).cloned();
        let owner = likely.unwrap_or_else(|| match target.kind {
            // No two kinds of holders have one text in one hash.
            Kind::Mutex(_) if self.is_rwlock(index) => Owner::from_text(&format!("{}0", self.owner().as_str())),
            kind => self.owner_for(kind),
        });
        (target, owner)
    }

    /// Whether the name of this target is one of the read-write locks.
    fn is_rwlock(&self, index: usize) -> bool {
        index >= NAMES.len() * KINDS.len()
    }

    /// One side of a read-write lock, the readers' more often, and its place.
    fn side(&mut self) -> (usize, Arc<Target>) {
        let name = self.random.usize(0..RWLOCK_NAMES.len());
        let index = NAMES.len() * KINDS.len() + name * RWLOCK_KINDS.len() + self.random.usize(0..3) % 2;
        (index, Arc::clone(&self.targets[index]))
    }

    /// Probably whoever holds the other side, the first of the two being the readers'.
    fn convert(&mut self) -> Step {
        let (index, target) = self.side();
        let other = if target.kind == Kind::Read {
            index + 1
        } else {
            index - 1
        };
        let likely = self.granted.get(&other).filter(|_| self.random.u32(0..4) > 0).cloned();
        let (from, owner) = match (likely, target.kind) {
            (Some(from), Kind::Read) => (from.clone(), from.reading()),
            (Some(from), _) => (from.clone(), from.writing()),
            (None, Kind::Read) => {
                let owner = self.owner();
                (owner.writing(), owner)
            }
            (None, _) => {
                let owner = self.owner();
                (owner.clone(), owner.writing())
            }
        };
        Step::Convert {
            acquire: Acquire {
                target,
                owner,
                lease: self.lease(),
                block: 1,
                permits: 1,
                waiting: None,
                candidate: None,
                copies: Arc::new(Copies::new()),
            },
            from,
        }
    }

    fn lease(&mut self) -> u64 {
        self.random.u64(1_000..=LONGEST_LEASE)
    }

    fn acquire(&mut self) -> Step {
        let (target, owner) = self.target_and_owner();
        Step::Acquire(Acquire {
            target,
            owner,
            lease: self.lease(),
            permits: self.random.u32(1..4),
            block: if self.random.bool() {
                1
            } else {
                self.random.u32(1..=LARGEST_BLOCK)
            },
            waiting: self.random.bool().then(|| Waiting {
                waited: [0, 600, 1_000, 1_500][self.random.usize(0..4)],
                grace: self.random.u64(1..=8_000),
            }),
            candidate: self
                .random
                .bool()
                .then(|| format!("node {}", self.random.u32(0..3)).into()),
            copies: Arc::new(Copies::new()),
        })
    }

    fn release(&mut self) -> Step {
        let (target, owner) = self.target_and_owner();
        Step::Release { target, owner }
    }

    /// A rest that is over already, or that goes on for its longest time.
    fn rest(&mut self) -> Step {
        let (target, owner) = self.target_and_owner();
        let kind = Kind::Periodic(target.kind.layout());
        let target = Arc::new(Target::new(kind, target.name.clone()));
        let until = match self.random.u32(0..3) {
            0 => self.random.u64(0..1_000_000),
            // Far ahead of every server's time, so that a seed replays whatever the time is.
            _ => u64::from(u32::MAX) * 1_000_000,
        };
        let rest = Rest {
            until,
            longest: self.random.u64(0..=LONGEST_LEASE),
        };
        Step::Rest { target, owner, rest }
    }

    /// Something beside holding. Marks are few, so that some are repeats.
    fn operate(&mut self) -> Step {
        if self.random.u32(0..3) > 0 {
            return self.change_permits();
        }
        let name = self.target().1.name.clone();
        let action = match self.random.u32(0..8) {
            0 | 1 => Action::SetCount(self.random.u64(0..4)),
            2 | 3 => Action::CountDown,
            4 => Action::Count,
            5 | 6 => Action::AwaitLatch {
                since: [0, 1, u64::MAX >> 11][self.random.usize(0..3)],
            },
            _ => Action::RemoveLatch,
        };
        let mark = match self.random.u32(0..4) {
            0 => self.owner(),
            _ => Owner::from_text(&format!("mark:{}", self.random.u64(..))),
        };
        Step::Operate(Operation {
            target: Arc::new(Target::new(Kind::Latch, name)),
            action,
            mark,
            copies: Arc::new(Copies::new()),
        })
    }

    /// Something beside holding permits.
    fn change_permits(&mut self) -> Step {
        let target = loop {
            let target = self.target().1;
            if matches!(target.kind, Kind::Permits | Kind::Counter) {
                break target;
            }
        };
        let action = match self.random.u32(0..12) {
            0..3 => Action::TrySetPermits {
                permits: self.random.u64(0..9),
                life: self.life(),
            },
            3 | 4 if target.kind == Kind::Permits => Action::SetPermits(self.random.u64(0..9)),
            3..7 => Action::AddPermits {
                permits: self.random.i64(-3..6),
                if_there: self.random.bool(),
            },
            7 => Action::DrainPermits,
            8 => Action::RemovePermits,
            _ => Action::CountPermits,
        };
        let mark = match self.random.u32(0..4) {
            0 => self.owner(),
            _ => Owner::from_text(&format!("mark:{}", self.random.u64(..))),
        };
        Step::Operate(Operation {
            target,
            action,
            mark,
            copies: Arc::new(Copies::new()),
        })
    }

    /// Somebody else's permits, held, ended, or for ever; or something else there; or a number.
    fn write_permits(&mut self) -> Move {
        let target =
            self.targets[self.targets.len() - 1 - self.random.usize(0..NUMBER_NAMES.len() * NUMBERS.len())].clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(0);
        let mut ids: Vec<String> = self.permits[self.random.usize(0..self.permits.len())]
            .permits()
            .map(str::to_owned)
            .collect();
        ids.push("6a".repeat(16));
        let (key, value) = match self.random.u32(0..8) {
            0 => (target.permits_key(), Foreign::Text("no ids".to_owned())),
            1 | 2 => (
                target.name.as_str().to_owned(),
                Foreign::Text(["7", "-2", "0", "007", "+1", "9007199254740992"][self.random.usize(0..6)].to_owned()),
            ),
            3 => (
                target.semaphore_record_key(),
                Foreign::Text(["permits", "semaphore", "neither"][self.random.usize(0..3)].to_owned()),
            ),
            _ => (
                target.permits_key(),
                Foreign::Permits(
                    ids.into_iter()
                        .map(|id| {
                            (
                                id,
                                [now - 5_000, now + 5_000, now + 90_000, NEVER, -1][self.random.usize(0..5)],
                            )
                        })
                        .collect(),
                ),
            ),
        };
        Move::Write {
            key,
            value,
            life: self.life(),
        }
    }

    /// A batch that names no hold twice: what belongs together may be done in any order.
    fn renewals(&mut self) -> Vec<Renew> {
        let mut entries: Vec<Renew> = Vec::new();
        for _ in 0..self.random.usize(1..=6) {
            let (target, owner) = loop {
                let (target, owner) = self.target_and_owner();
                if target.kind != Kind::Counter {
                    break (target, owner);
                }
            };
            if entries
                .iter()
                .any(|entry| entry.target.name == target.name && entry.owner == owner)
            {
                continue;
            }
            let lease = self.lease();
            entries.push(Renew {
                target,
                owner,
                lease,
                longest: lease + if self.random.bool() { 0 } else { self.lease() },
                refresh_token: self.random.bool(),
                copies: Arc::new(Copies::new()),
            });
        }
        entries
    }

    /// Mostly within a lease, at times beyond the life of the token records.
    fn lapse(&mut self) -> Duration {
        let longest = [2_000, 20_000, 100_000, 800_000][self.random.usize(0..4)];
        Duration::from_millis(self.random.u64(1..=longest))
    }

    fn life(&mut self) -> Option<u64> {
        if self.random.u32(0..4) > 0 {
            Some(self.lease())
        } else {
            None
        }
    }

    /// Somebody else's lock, or something else altogether, or a plain lock of ours without its record.
    fn write_name(&mut self) -> Move {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let election = |term: &str| {
            let leader = pair("somebody:17", "node\r\n9");
            Foreign::Hash(vec![pair("mode", "election"), pair("term", term), leader])
        };
        let value = match self.random.u32(0..11) {
            9 => election("17"),
            10 => election("no number"),
            0 | 1 => Foreign::Text("a peer".to_owned()),
            2 => Foreign::Text(self.owner().as_str().to_owned()),
            3 => Foreign::Hash(vec![pair("a-java-service:17", "2")]),
            4 => Foreign::Hash(vec![pair(self.owner().as_str(), "1")]),
            5 => Foreign::Hash(vec![pair("mode", "read"), pair("a-java-service:17", "1")]),
            6 => Foreign::Hash(vec![pair("colour", "blue")]),
            7 => Foreign::Text(self.random.i64(-3..3).to_string()),
            _ => Foreign::List,
        };
        Move::Write {
            key: self.target().1.name.as_str().to_owned(),
            value,
            life: self.life(),
        }
    }

    /// Somebody else's waiters in the line of a fair mutex, with or without moments, dead or alive; or something else there.
    fn write_line(&mut self) -> Move {
        let target = self.target().1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(0);
        let mut waiters = vec!["a-java-service:17".to_owned(), self.owner().as_str().to_owned()];
        if self.random.bool() {
            waiters.reverse();
        }
        let value = match self.random.u32(0..6) {
            0 => Foreign::Text("no line".to_owned()),
            1 | 2 => Foreign::Queue(waiters),
            _ => Foreign::Scores(
                waiters
                    .into_iter()
                    .map(|waiter| (waiter, now + [-5_000, 30_000, 300_000][self.random.usize(0..3)]))
                    .collect(),
            ),
        };
        let key = match (&value, self.random.bool()) {
            (Foreign::Queue(_), _) | (Foreign::Text(_), true) => target.queue_key(),
            _ => target.timeout_key(),
        };
        Move::Write { key, value, life: None }
    }

    /// Holders of Java's, with more than one hold each and some of them dead, or what turns are kept by.
    fn write_rwlock(&mut self) -> Move {
        let target = self.side().1;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let (java, ours) = ("a-java-service:17", self.owner());
        let hold = |number: u32| format!("{}{java}:rwlock_timeout:{number}", target.hold_key_base());
        let (key, value) = match self.random.u32(0..10) {
            0 => (
                target.name.as_str().to_owned(),
                Foreign::Hash(vec![pair("mode", "read"), pair(java, "3"), pair(ours.as_str(), "1")]),
            ),
            1 => {
                let writer = ours.writing();
                let fields = vec![pair("mode", "write"), pair(writer.as_str(), "1"), pair(java, "2")];
                (target.name.as_str().to_owned(), Foreign::Hash(fields))
            }
            2 => (
                target.name.as_str().to_owned(),
                Foreign::Hash(vec![pair("mode", "sleep")]),
            ),
            3 => (hold(1), Foreign::Text("1".to_owned())),
            4 | 5 => (hold(self.random.u32(1..=3)), Foreign::Text("1".to_owned())),
            6 => (target.hold_key(&ours), Foreign::Text("1".to_owned())),
            7 => (target.readers_key(), Foreign::Text("1".to_owned())),
            8 => (target.writers_key(), Foreign::Text("no notices".to_owned())),
            _ => (target.writers_key(), Foreign::List),
        };
        Move::Write {
            key,
            value,
            life: Some(self.lease()),
        }
    }

    /// Redisson's token: below ours, far ahead, at the end, or none at all; or a record that is none.
    fn write_tokens(&mut self) -> Move {
        let target = self.target().1;
        if self.random.u32(0..8) == 0 {
            let value = if self.random.bool() {
                Foreign::List
            } else {
                Foreign::Text("no record".to_owned())
            };
            return Move::Write {
                key: target.token_key.clone(),
                value,
                life: Some(self.lease()),
            };
        }
        let before_the_end = [3, 2 * u64::from(LARGEST_BLOCK)][self.random.usize(0..2)];
        let near_the_end = (1_u64 << 53) - self.random.u64(0..before_the_end);
        let value = match self.random.u32(0..8) {
            0 | 1 => Foreign::Text(self.random.u64(0..1_000).to_string()),
            2 | 3 => Foreign::Text(
                self.random
                    .u64(4_000_000_000_000_000..5_000_000_000_000_000)
                    .to_string(),
            ),
            4 | 5 => Foreign::Text(near_the_end.to_string()),
            6 => Foreign::Text(["", "+5", "-5", "1e3", "18446744073709551616"][self.random.usize(0..5)].to_owned()),
            _ => Foreign::List,
        };
        Move::Write {
            key: target.peer_token_key.clone(),
            value,
            life: self.life(),
        }
    }
}

/// One to three ids, as bytes that are texts too.
fn permits(number: u64) -> Owner {
    let letter = |place: u64| char::from(b'a' + u8::try_from(number * 3 + place).unwrap_or(0));
    let id = |place| format!("{:02x}", u32::from(letter(place))).repeat(16);
    Owner::from_text(&(0..=number % 3).map(id).collect::<String>())
}
