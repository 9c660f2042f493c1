//! The read-write lock as Redisson lays it out: the vectors of its layout, with re-entry of Java's written by hand, and what
//! clusters, full servers and late copies ask for.

use std::collections::BTreeMap;

use futures_util::StreamExt;

use super::*;
use crate::engine::{Cause, Kind, Waiting};

fn sides(name: &str) -> (Arc<Target>, Arc<Target>) {
    let side = |kind| Arc::new(Target::new(kind, Name::new(name).unwrap()));
    (side(Kind::Read), side(Kind::Write))
}

fn for_seconds(target: &Arc<Target>, owner: &Owner, seconds: u64) -> Acquire {
    Acquire {
        lease: seconds * 1_000,
        ..asking(target, owner)
    }
}

const FREED: Result<Released, StepError> = Ok(Released::Freed { receivers: 0 });

impl Stage {
    async fn left_about(&self, key: &str, seconds: i64) {
        let left: i64 = self.ask(&["PTTL", key]).await;
        assert!(
            (seconds * 1_000 - 900..=seconds * 1_000).contains(&left),
            "{key} has {left}, not {seconds} s"
        );
    }

    async fn fields(&self, key: &str) -> BTreeMap<String, String> {
        self.ask(&["HGETALL", key]).await
    }

    /// Redisson's second read hold of one owner: its own count, and a key of its own.
    async fn read_again(&self, name: &str, owner: &Owner, number: u32, seconds: u64) {
        let holds: u32 = self.ask(&["HINCRBY", name, owner.as_str(), "1"]).await;
        assert_eq!(holds, number);
        let key = format!("{{{name}}}:{}:rwlock_timeout:{number}", owner.as_str());
        let life = (seconds * 1_000).to_string();
        self.ask::<()>(&["SET", &key, "1", "PX", &life]).await;
    }

    async fn busy_about(&self, acquire: &Acquire, seconds: u64) {
        let answer = self.acquire(acquire).await;
        let Ok(Acquired::Busy(busy)) = answer else {
            panic!("{answer:?}")
        };
        let left = busy.time_left.expect("a life");
        assert!((seconds * 1_000 - 900..=seconds * 1_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn the_vectors_of_reading() {
    let stage = Stage::new().await;
    let (read, write) = sides("rw");
    let (a, b) = (owner(), owner());
    let key = |owner: &Owner, number: u32| format!("{{rw}}:{}:rwlock_timeout:{number}", owner.as_str());

    assert_eq!(stage.granted(&for_seconds(&read, &a, 10)).await, (0, 1));
    let wanted = [("mode", "read"), (a.as_str(), "1")].map(|(field, value)| (field.to_owned(), value.to_owned()));
    assert_eq!(stage.fields("rw").await, BTreeMap::from(wanted));
    assert_eq!(stage.ask::<String>(&["GET", &key(&a, 1)]).await, "1");
    stage.left_about(&key(&a, 1), 10).await;
    stage.left_about("rw", 10).await;

    stage.read_again("rw", &a, 2, 5).await;
    stage.granted(&for_seconds(&read, &b, 20)).await;
    stage.left_about("rw", 20).await;
    stage.busy_about(&asking(&write, &owner().writing()), 20).await;

    assert_eq!(stage.release(&read, &b).await, FREED);
    stage.left_about("rw", 10).await;
    // As Redisson ends the second hold of the two; the first is ours.
    stage.ask::<u64>(&["HINCRBY", "rw", a.as_str(), "-1"]).await;
    stage.ask::<u64>(&["DEL", &key(&a, 2)]).await;
    assert_eq!(stage.release(&read, &a).await, FREED);
    assert!(stage.server.keys().await.is_empty());
    assert_eq!(stage.release(&read, &a).await, Ok(Released::NotThere));
}

#[tokio::test]
async fn the_vectors_of_writing() {
    let stage = Stage::new().await;
    let (read, write) = sides("rw");
    let (a, b) = (owner(), owner());
    let (first, block) = stage.granted(&for_seconds(&write, &a.writing(), 30)).await;
    assert!(first > 0 && block == 1);
    let ow = format!("{}:write", a.as_str());
    let wanted = [("mode", "write"), (ow.as_str(), "1")].map(|(field, value)| (field.to_owned(), value.to_owned()));
    assert_eq!(stage.fields("rw").await, BTreeMap::from(wanted));
    stage.left_about("rw", 30).await;
    stage.busy_about(&asking(&read, &b), 30).await;

    // Redisson's writer reads too.
    stage.ask::<bool>(&["PEXPIRE", "rw", "60000"]).await;
    stage.read_again("rw", &a, 1, 5).await;
    stage.busy_about(&asking(&read, &b), 60).await;
    // Its read unlock in between must not cut the write hold.
    assert_eq!(stage.release(&read, &a).await, FREED);
    stage.left_about("rw", 60).await;
    stage.read_again("rw", &a, 1, 5).await;
    // Readers are let in, which Redisson forgets; the hash lives as long as the read hold, which Redisson forgets too.
    let mut heard = listening(&stage).await;
    assert_eq!(
        stage.release(&write, &a.writing()).await,
        Ok(Released::Freed { receivers: 1 })
    );
    assert_eq!(
        next_of(&mut heard).await,
        ("redisson_rwlock:{rw}".to_owned(), "1".to_owned())
    );
    assert_eq!(stage.ask::<String>(&["HGET", "rw", "mode"]).await, "read");
    stage.left_about("rw", 5).await;

    stage.granted(&for_seconds(&read, &b, 1)).await;
    stage.left_about("rw", 5).await;
    assert_eq!(stage.release(&read, &a).await, FREED);
    stage.left_about("rw", 1).await;
}

#[tokio::test]
async fn the_vectors_of_dead_readers() {
    let stage = Stage::new().await;
    let (read, write) = sides("rw");
    let (zombie, b, c) = (owner(), owner(), owner());
    stage.granted(&for_seconds(&read, &zombie, 40)).await;
    stage.granted(&for_seconds(&read, &b, 20)).await;
    stage.granted(&for_seconds(&read, &c, 10)).await;
    stage.ask::<u64>(&["DEL", &read.hold_key(&zombie)]).await;
    assert_eq!(stage.release(&read, &b).await, FREED);
    stage.left_about("rw", 10).await;
    assert!(stage.fields("rw").await.contains_key(zombie.as_str()));
    stage.busy_about(&asking(&write, &owner().writing()), 10).await;
    assert_eq!(stage.release(&read, &c).await, FREED);
    assert!(stage.server.keys().await.is_empty(), "gone with the dead one's field");

    // Redisson's writers wait for the end of the hash; ours for the end of the last hold.
    stage.granted(&for_seconds(&read, &zombie, 40)).await;
    stage.ask::<u64>(&["DEL", &read.hold_key(&zombie)]).await;
    stage.granted(&asking(&write, &b.writing())).await;
    assert!(!stage.fields("rw").await.contains_key(zombie.as_str()));
}

async fn listening(stage: &Stage) -> impl futures_util::Stream<Item = redis::Msg> + Unpin + use<> {
    let client = redis::Client::open(stage.server.url()).unwrap();
    let mut subscriber = client.get_async_pubsub().await.unwrap();
    subscriber.psubscribe("*").await.unwrap();
    Box::pin(subscriber.into_on_message())
}

async fn next_of(messages: &mut (impl futures_util::Stream<Item = redis::Msg> + Unpin)) -> (String, String) {
    let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap();
    (
        message.get_channel_name().to_owned(),
        message.get_payload::<String>().unwrap(),
    )
}

/// 0 wakes one of Java's waiters in a process, and is for the last reader; 1 wakes all.
#[tokio::test]
async fn messages_are_redissons_and_no_others() {
    let stage = Stage::new().await;
    let mut heard = listening(&stage).await;
    for (name, channel) in [("x", "redisson_rwlock:{x}"), ("{x}:y", "redisson_rwlock:{x}:y")] {
        let (read, write) = sides(name);
        let (one, two) = (owner(), owner());
        let said = async |heard: &mut _, message: &str| {
            let told: (String, String) = next_of(heard).await;
            assert_eq!(told, (channel.to_owned(), message.to_owned()));
        };
        stage.granted(&asking(&read, &one)).await;
        stage.granted(&asking(&read, &two)).await;
        stage.renew(vec![renewing(&read, &one)]).await.unwrap();
        assert_eq!(stage.release(&read, &one).await, FREED, "others read");
        assert_eq!(stage.release(&read, &two).await, Ok(Released::Freed { receivers: 1 }));
        said(&mut heard, "0").await;
        stage.granted(&asking(&write, &one.writing())).await;
        assert_eq!(stage.release(&read, &one).await, Ok(Released::NotThere));
        assert_eq!(
            stage.release(&write, &one.writing()).await,
            Ok(Released::Freed { receivers: 1 })
        );
        said(&mut heard, "1").await;
        stage.granted(&asking(&read, &one)).await;
        assert_eq!(stage.force_release(&write).await, Ok(false));
        assert_eq!(stage.force_release(&read).await, Ok(true));
        said(&mut heard, "0").await;
        stage.granted(&asking(&write, &one.writing())).await;
        assert_eq!(stage.convert(&read, &one.writing()).await, Ok(READING));
        said(&mut heard, "1").await;
        stage.ask::<()>(&["FLUSHALL"]).await;
    }
    stage.ask::<u64>(&["PUBLISH", "end", "end"]).await;
    assert_eq!(next_of(&mut heard).await.0, "end");
}

const READING: Acquired = Acquired::Granted {
    first_token: 0,
    block: 1,
};

impl Stage {
    async fn convert(&self, target: &Arc<Target>, from: &Owner) -> Result<Acquired, StepError> {
        let owner = match target.kind {
            Kind::Write => from.writing(),
            _ => from.reading(),
        };
        let step = Step::Convert {
            acquire: asking(target, &owner),
            from: from.clone(),
        };
        match self.perform(step).await?.reply {
            Reply::Acquired(acquired) => Ok(acquired),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn every_key_has_a_life_and_one_slot() {
    let stage = Stage::new().await;
    for name in ["plain", "{tag}:plain"] {
        let (read, write) = sides(name);
        let (one, waiting) = (
            owner(),
            Some(Waiting {
                waited: 5_000,
                grace: 1,
            }),
        );
        stage.granted(&asking(&write, &one.writing())).await;
        for target in [&read, &write] {
            let asking = Acquire {
                waiting,
                ..asking(target, &owner())
            };
            assert!(matches!(stage.acquire(&asking).await, Ok(Acquired::Busy(_))));
        }
        stage.convert(&read, &one.writing()).await.unwrap();
        let keys = stage.server.keys().await;
        assert_eq!(keys.len(), 5, "{keys:?}");
        for key in keys {
            assert!(stage.ask::<i64>(&["PTTL", &key]).await > 0, "{key}");
            assert_eq!(hashed_part(&key), hashed_part(name), "{key}");
        }
        stage.ask::<()>(&["FLUSHALL"]).await;
    }
}

/// What of a key decides its slot in a cluster: the part in braces, if there is one.
fn hashed_part(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.map_or(key, |(tag, _)| tag)
}

/// What a server that is full refuses, and what it does not.
#[tokio::test]
async fn a_full_server_renews_and_frees() {
    let stage = Stage::new().await;
    let (read, write) = sides("full");
    let (one, two) = (owner(), owner());
    stage.granted(&asking(&read, &one)).await;
    stage.granted(&asking(&read, &two)).await;
    let used: String = stage.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(used, "OK");
    let refused = stage.acquire(&asking(&read, &owner())).await;
    assert!(matches!(
        refused,
        Err(StepError {
            cause: Cause::Refused(crate::error::Refusal::OutOfMemory, _),
            ..
        })
    ));
    let patient = Acquire {
        waiting: Some(Waiting { waited: 0, grace: 1 }),
        ..asking(&write, &owner().writing())
    };
    // Busy is busy, also where no notice can be left.
    assert!(matches!(stage.acquire(&patient).await, Ok(Acquired::Busy(_))));
    assert_eq!(
        stage
            .renew(vec![renewing(&read, &one), renewing(&read, &two)])
            .await
            .unwrap(),
        [Ok(Renewed::Held), Ok(Renewed::Held)]
    );
    for owner in [&one, &two] {
        assert_eq!(stage.release(&read, owner).await, FREED);
    }
    stage.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    stage.granted(&asking(&write, &one.writing())).await;
    stage.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(stage.convert(&read, &one.writing()).await, Ok(READING));
    assert_eq!(stage.release(&read, &one).await, FREED);
    stage.ask::<u64>(&["DEL", &write.token_key]).await;
    assert!(stage.server.keys().await.is_empty());
}

/// Sides and leases in one batch: each gets its own answer, and the keys of others stay as they are.
#[tokio::test]
async fn a_batch_renews_readers_by_their_own_keys() {
    let stage = Stage::new().await;
    let mut entries = Vec::new();
    for number in 0..120 {
        let (read, write) = sides(&format!("lock{}", number % 40));
        let (target, owner) = match number % 40 {
            0..30 => (read, owner()),
            _ if number < 40 => (write, owner().writing()),
            _ => continue,
        };
        stage.granted(&for_seconds(&target, &owner, 10)).await;
        if number % 7 == 3 {
            let key = if target.kind == Kind::Read {
                target.hold_key(&owner)
            } else {
                target.name.as_str().to_owned()
            };
            stage.ask::<u64>(&["DEL", &key]).await;
        }
        entries.push((number, renewing(&target, &owner)));
    }
    let asked = entries.iter().map(|(_, entry)| entry.clone()).collect();
    let answers = stage.renew(asked).await.unwrap();
    for ((number, entry), answer) in entries.iter().zip(answers) {
        let wanted = if number % 7 == 3 { Renewed::Gone } else { Renewed::Held };
        assert_eq!(answer, Ok(wanted), "{number} {}", entry.target.name);
    }
    let (stranger, other) = (owner(), owner());
    let (read, _) = sides("beside");
    stage.granted(&for_seconds(&read, &stranger, 10)).await;
    stage.granted(&for_seconds(&read, &other, 10)).await;
    stage.renew(vec![renewing(&read, &other)]).await.unwrap();
    stage.left_about(&read.hold_key(&stranger), 10).await;
    stage.left_about(&read.hold_key(&other), 30).await;
    stage.left_about("beside", 30).await;
}

#[tokio::test]
async fn two_hundred_readers_of_many_names_take_two_scripts() {
    let stage = Stage::new().await;
    let mut entries = Vec::new();
    for number in 0..200 {
        let (read, _) = sides(&format!("lock{}", number % 20));
        let entry = renewing(&read, &owner());
        stage.granted(&asking(&read, &entry.owner)).await;
        entries.push(entry);
    }
    stage.renew(entries.clone()).await.unwrap();
    let before = stage.server.calls("evalsha").await;
    let answers = stage.renew(entries).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Ok(Renewed::Held)));
    assert_eq!(stage.server.calls("evalsha").await - before, 2);
}
