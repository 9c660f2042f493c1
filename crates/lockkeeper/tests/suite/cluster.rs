//! A real cluster: each name on its shard, slots that move, masters that go.

use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Keeper, LatchEnd, Lease, Refusal, Unlocked};
use lockkeeper_testkit::{RedisCluster, RedisServer, real_time, wait_until};
use redis::cmd;

/// A failover takes seconds; a hung test fails all the same.
const SOON: Duration = Duration::from_secs(30);

async fn keeper(cluster: &RedisCluster) -> Keeper {
    Keeper::connect(&cluster.url()).await.expect("a running cluster")
}

async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match real_time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}

/// A name in the shard of the master with this index.
async fn name_on(cluster: &RedisCluster, index: usize) -> String {
    for number in 0..1_000 {
        let name = format!("name-{number}");
        if cluster.first_master_of(cluster.slot(&name).await) == index {
            return name;
        }
    }
    panic!("a thousand names, and none on master {index}");
}

async fn exists(node: &RedisServer, key: &str) -> bool {
    node.query::<i64>(cmd("EXISTS").arg(key)).await == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_is_locked_on_its_own_shard() {
    let cluster = RedisCluster::start(3, false).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    for number in 0..30 {
        let name = match number % 3 {
            0 => format!("order:{number}"),
            1 => format!("{{orders}}:{number}"),
            _ => format!("with space {number}"),
        };
        for (one, other) in [
            (first.mutex(&name), second.mutex(&name)),
            (first.fair_mutex(&name), second.fair_mutex(&name)),
            (first.fenced_mutex(&name), second.fenced_mutex(&name)),
        ] {
            let guard = soon("the lock", one.lock()).await.unwrap();
            assert!(matches!(other.try_lock().await, Err(Error::Busy { .. })));
            assert_eq!(first.inspect(&name).await.unwrap().holders[0].owner, guard.owner());
            let shard = cluster.first_master_of(cluster.slot(&name).await);
            assert!(exists(cluster.master(shard), &name).await);
            guard.extend(Duration::from_secs(40)).await.unwrap();
            assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        }
    }
}

/// B33: helper keys share the slot of the name, and a set of names is told where it cannot be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_on_every_shard_are_woken_by_messages_of_their_shard() {
    let cluster = RedisCluster::start(3, false).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    for index in 0..3 {
        let name = name_on(&cluster, index).await;
        let guard = first.mutex(&name).lease(Lease::fixed(SOON * 4)).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = second.mutex(&name);
            async move { mutex.lock().await }
        });
        let channel = format!("redisson_lock__channel:{{{name}}}");
        wait_until("a subscription in the shard", SOON, async || {
            let told: Vec<String> = cluster.master(index).query(cmd("PUBSUB").arg("SHARDCHANNELS")).await;
            if told.contains(&channel) { Ok(()) } else { Err(told) }
        })
        .await;
        guard.unlock().await.unwrap();
        // Without the message it would be the lease, which is far longer than this test waits.
        soon("the waiter", waiting)
            .await
            .unwrap()
            .unwrap()
            .unlock()
            .await
            .unwrap();
    }
}

/// What Redisson's testInCluster does, and what a read-write lock does beside it, on names of all shards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_write_locks_live_on_the_shard_of_their_name() {
    let cluster = RedisCluster::start(3, false).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    let mut renewed = Vec::new();
    for index in 0..3 {
        let plain = name_on(&cluster, index).await;
        for name in [plain.clone(), format!("{{{plain}}}:tagged")] {
            let lease = Lease::renewed(Duration::from_secs(2));
            let (lock, other) = (first.rwlock(&name).lease(lease), second.rwlock(&name));
            let (reader, beside) = (lock.read().await.unwrap(), other.read().await.unwrap());
            assert!(exists(cluster.master(index), &name).await);
            let (reader, error) = reader.try_upgrade().await.unwrap_err();
            assert!(matches!(error, Error::OtherReaders { .. }), "{error:?}");
            let writing = tokio::spawn({
                let other = other.clone();
                async move { other.write().await }
            });
            wait_until("a notice", SOON, async || {
                !first.inspect(&name).await.unwrap().waiting.is_empty()
            })
            .await;
            beside.unlock().await.unwrap();
            let writer = soon("the upgrade", reader.try_upgrade()).await.unwrap();
            let reader = writer.downgrade().await.unwrap();
            assert!(
                matches!(other.try_read().await, Err(Error::Busy { .. })),
                "a writer waits"
            );
            assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
            let writer = soon("the writer who waited", writing).await.unwrap().unwrap();
            assert_eq!(writer.unlock().await, Ok(Unlocked::Freed));
            renewed.push(lock.read().await.unwrap());
        }
    }
    // Batches of several shards.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for reader in renewed {
        assert_eq!(reader.state(), HoldState::Held);
        assert_eq!(reader.unlock().await, Ok(Unlocked::Freed));
    }
}

/// B33: semaphores and latches keep what belongs to a name in its slot, and their messages find the waiters of every shard. The
/// one exception is Redisson's: a latch whose name has a tag of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphores_and_latches_live_on_the_shards_of_their_names() {
    let cluster = RedisCluster::start(3, false).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    for index in 0..3 {
        let plain = name_on(&cluster, index).await;
        for name in [format!("{plain} leased"), format!("{{{plain}}}:leased")] {
            let semaphore = first.semaphore(&name);
            semaphore.try_set_permits(2).await.unwrap();
            let both = semaphore.acquire_many(2).await.unwrap();
            both.extend(SOON * 4).await.unwrap();
            let waiting = tokio::spawn({
                let semaphore = second.semaphore(&name);
                async move { semaphore.acquire().await }
            });
            listened(&cluster, "redisson_sc", &name).await;
            assert_eq!(both.unlock().await, Ok(Unlocked::Freed));
            soon("a permit", waiting)
                .await
                .unwrap()
                .unwrap()
                .unlock()
                .await
                .unwrap();
            assert_eq!(semaphore.permits().await, Ok(2));
        }
        let counting = first.counting_semaphore(format!("{{{plain}}}:plain"));
        counting.try_set_permits(1).await.unwrap();
        counting.acquire(1).await.unwrap();
        let waiting = tokio::spawn({
            let counting = second.counting_semaphore(format!("{{{plain}}}:plain"));
            async move { counting.acquire(1).await }
        });
        listened(&cluster, "redisson_sc", &format!("{{{plain}}}:plain")).await;
        counting.release(1).await.unwrap();
        soon("the number", waiting).await.unwrap().unwrap();

        let latch = first.latch(format!("{plain} latch"));
        latch.try_set_count(1).await.unwrap();
        let waiting = tokio::spawn({
            let latch = second.latch(format!("{plain} latch"));
            async move { latch.wait().await }
        });
        listened(
            &cluster,
            "redisson_countdownlatch__channel__",
            &format!("{plain} latch"),
        )
        .await;
        assert_eq!(latch.count_down().await, Ok(0));
        assert_eq!(soon("the latch", waiting).await.unwrap(), Ok(LatchEnd::Open));
    }
    let split = first.latch("{orders}:42");
    let refused = split.try_set_count(1).await;
    let slot = Refusal::Slot;
    assert!(
        matches!(&refused, Err(Error::Refused { refusal, .. }) if *refusal == slot),
        "{refused:?}"
    );
    assert_eq!(split.count().await, Ok(0), "nothing was set");
}

/// Waits until somebody listens on the channel of a name, on whichever shard.
async fn listened(cluster: &RedisCluster, prefix: &str, name: &str) {
    wait_until("a subscription in a shard", SOON, async || {
        let mut all = Vec::new();
        for index in 0..3 {
            let told: Vec<String> = cluster.master(index).query(cmd("PUBSUB").arg("SHARDCHANNELS")).await;
            all.extend(told);
        }
        let found = all
            .iter()
            .any(|channel| channel.starts_with(prefix) && channel.contains(name));
        if found { Ok(()) } else { Err(all) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_takes_its_locks_along() {
    let cluster = RedisCluster::start(3, false).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    let slot = cluster.slot("{moving}").await;
    let index = cluster.first_master_of(slot);
    let (from, to) = (cluster.master(index), cluster.master((index + 1) % 3));
    let held = first.mutex("{moving}:held").lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = second.mutex("{moving}:held");
        async move { mutex.lock().await }
    });
    cluster.begin_move(slot, from, to).await;
    // The servers take no step about several keys of a slot on its way that are not all there: a new lock waits for the end.
    let new = tokio::spawn({
        let mutex = first.mutex("{moving}:new");
        async move { mutex.lock().await }
    });
    let error = second.mutex("{moving}:tried").try_lock().await.unwrap_err();
    assert!(!error.is_contention() && error.is_retryable(), "{error:?}");
    assert_eq!(held.state(), HoldState::Held);
    cluster.end_move(slot, from, to).await;
    let new = soon("a new lock", new).await.unwrap().unwrap();
    assert!(exists(to, "{moving}:held").await && exists(to, "{moving}:new").await);
    soon("a renewal on the new master", held.extend(Duration::from_secs(60)))
        .await
        .unwrap();
    assert_eq!(soon("the unlock", new.unlock()).await, Ok(Unlocked::Freed));
    assert_eq!(soon("the unlock", held.unlock()).await, Ok(Unlocked::Freed));
    let guard = soon("the waiter", waiting).await.unwrap().unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_failover_keeps_what_is_held() {
    let cluster = RedisCluster::start(3, true).await;
    let (first, second) = (keeper(&cluster).await, keeper(&cluster).await);
    let name = name_on(&cluster, 0).await;
    let lease = Lease::renewed(Duration::from_secs(4));
    let held = first.mutex(&name).lease(lease).lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = second.mutex(&name);
        async move { mutex.lock().await }
    });
    cluster.fail_over(0).await;
    // Longer than the lease: it is renewed on the new master.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(held.state(), HoldState::Held);
    assert!(exists(cluster.replica(0), &name).await);
    assert_eq!(soon("the unlock", held.unlock()).await, Ok(Unlocked::Freed));
    let guard = soon("the waiter", waiting).await.unwrap().unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_is_replaced_and_the_others_go_on() {
    let cluster = RedisCluster::start(3, true).await;
    let keeper = keeper(&cluster).await;
    let (name, other) = (name_on(&cluster, 0).await, name_on(&cluster, 1).await);
    keeper.mutex(&name).lock().await.unwrap().unlock().await.unwrap();
    cluster.master(0).kill();
    let guard = keeper.mutex(&other).lock().await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let started = Instant::now();
    let wait = Duration::from_millis(300);
    let error = keeper.mutex(&name).wait(wait).lock().await.unwrap_err();
    assert!(!error.is_contention(), "{error:?}");
    assert!(started.elapsed() < wait + Duration::from_secs(2));
    cluster.takes_over(0).await;
    let guard = soon("the lock on the new master", async {
        loop {
            match keeper.mutex(&name).wait(SOON).lock().await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    })
    .await;
    assert!(exists(cluster.replica(0), &name).await);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

/// A shard without any node: its locks fail with the reason, all others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_down_fails_alone() {
    let cluster = RedisCluster::start(3, false).await;
    let keeper = keeper(&cluster).await;
    let names = [
        name_on(&cluster, 0).await,
        name_on(&cluster, 1).await,
        name_on(&cluster, 2).await,
    ];
    let held = keeper
        .mutex(&names[0])
        .lease(Lease::renewed(Duration::from_secs(2)))
        .lock()
        .await
        .unwrap();
    let safe = keeper
        .mutex(&names[1])
        .lease(Lease::renewed(Duration::from_secs(2)))
        .lock()
        .await
        .unwrap();
    cluster.master(0).kill();
    let error = keeper
        .mutex(format!("{{{}}}:2", names[0]))
        .wait(Duration::from_millis(500))
        .lock()
        .await
        .unwrap_err();
    assert!(!error.is_contention() && error.is_retryable(), "{error:?}");
    soon("the loss", held.lost()).await;
    assert_eq!(safe.state(), HoldState::Held, "renewed beside the shard that is down");
    let guard = keeper.mutex(&names[2]).lock().await.unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    assert_eq!(safe.unlock().await, Ok(Unlocked::Freed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_tells_of_the_others_and_no_node_is_told() {
    let cluster = RedisCluster::start(3, false).await;
    let url = format!("redis+cluster://127.0.0.1:1,{}", cluster.master(2).address());
    let keeper = Keeper::connect(&url).await.unwrap();
    for index in 0..3 {
        let name = name_on(&cluster, index).await;
        let guard = keeper.mutex(&name).lock().await.unwrap();
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    }
    let error = Keeper::connect("redis+cluster://127.0.0.1:1,127.0.0.1:2")
        .await
        .unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    for bad in [
        "redis+cluster://",
        "redis+cluster://a,,b",
        "redis+cluster://127.0.0.1:1/3",
    ] {
        assert!(matches!(Keeper::connect(bad).await, Err(Error::Url(_))), "{bad}");
    }
    // One server that is no cluster says so.
    let alone = RedisServer::start();
    let url = format!("redis+cluster://{}", alone.address());
    assert!(matches!(Keeper::connect(&url).await, Err(Error::Refused { .. })));
}
