//! The line of the fair mutex with the dead, the deaf and Java's waiters in it.
//!
//! A waiter that died is what it leaves in Redis: its place. So the tests write that, as the dead process had.

use std::time::{Duration, Instant};

use lockkeeper::{Error, Keeper, Lease, Mutex, MutexGuard};
use lockkeeper_testkit::{Matcher, Proxy, RedisServer, real_time, wait_until};
use redis::cmd;
use tokio::task::JoinHandle;

use crate::scripts::{is_acquire, is_release};

const SOON: Duration = Duration::from_secs(15);

/// The shortest that can be set.
const GRACE: Duration = Duration::from_secs(2);

/// A busy machine may add this to any wait.
const SLACK: Duration = Duration::from_millis(1_500);

/// An owner text of ours, and one of Java's.
const DEAD: &str = "0b1c2d3e-0000-4000-8000-00000000dead:5000000000000000001";
const ALSO_DEAD: &str = "0b1c2d3e-0000-4000-8000-00000000dead:5000000000000000002";
const JAVA: &str = "1b1c2d3e-0000-4000-8000-00000000cafe:47";

const QUEUE: &str = "redisson_lock_queue:{f}";
const ENDS: &str = "redisson_lock_timeout:{f}";

struct Stage {
    server: RedisServer,
    proxy: Proxy,
}

impl Stage {
    fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.address());
        Self { server, proxy }
    }

    async fn keeper(&self) -> Keeper {
        self.keeper_at(&self.server.url()).await
    }

    async fn keeper_at(&self, url: &str) -> Keeper {
        Keeper::builder()
            .fair_grace(GRACE)
            .connect(url)
            .await
            .expect("a running server")
    }

    async fn now(&self) -> i64 {
        let (seconds, microseconds): (i64, i64) = self.server.query(&cmd("TIME")).await;
        seconds * 1_000 + microseconds / 1_000
    }

    /// Puts a waiter at the end of the line that counts as dead in `life`.
    async fn put_in_line(&self, owner: &str, life: Duration) {
        let end = self.now().await + i64::try_from(life.as_millis()).unwrap();
        let _: i64 = self.server.query(cmd("RPUSH").arg(QUEUE).arg(owner)).await;
        let _: i64 = self.server.query(cmd("ZADD").arg(ENDS).arg(end).arg(owner)).await;
    }

    /// What Java's waiter does when its time is over, without a word to anybody.
    async fn give_up_in_silence(&self, owner: &str) {
        let _: i64 = self.server.query(cmd("LREM").arg(QUEUE).arg(0).arg(owner)).await;
        let _: i64 = self.server.query(cmd("ZREM").arg(ENDS).arg(owner)).await;
    }

    /// Somebody hears what is said to a waiter, and does nothing.
    async fn deaf_listener(&self, owner: &str) -> redis::aio::PubSub {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener
            .subscribe(format!("redisson_lock__channel:{{f}}:{owner}"))
            .await
            .unwrap();
        listener
    }

    async fn in_line(&self, keeper: &Keeper, count: usize) {
        wait_until(&format!("{count} in line"), SOON, async || {
            let found = keeper.inspect("f").await.unwrap();
            if found.waiting.len() == count {
                Ok(())
            } else {
                Err(found)
            }
        })
        .await;
    }

    /// Nothing of a line is left.
    async fn no_line_is_left(&self) {
        wait_until("no line", SOON, async || {
            let keys = self.server.keys().await;
            let left: Vec<_> = keys.into_iter().filter(|key| key == QUEUE || key == ENDS).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

fn locking(keeper: &Keeper) -> JoinHandle<Result<(MutexGuard, Instant), Error>> {
    let mutex = keeper.fair_mutex("f");
    tokio::spawn(async move { mutex.lock().await.map(|guard| (guard, Instant::now())) })
}

async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match real_time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}

/// B14, B16: a head that died costs those behind it one grace, whatever its end was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_head_costs_one_grace() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let guard = keeper.fair_mutex("f").lock().await.unwrap();
    stage.put_in_line(DEAD, Duration::from_secs(3_600)).await;
    let behind = locking(&keeper);
    stage.in_line(&keeper, 2).await;
    let freed = Instant::now();
    guard.unlock().await.unwrap();
    let (guard, since) = soon("the one behind", behind).await.unwrap().unwrap();
    assert!(since - freed < GRACE + SLACK, "{:?}", since - freed);
    guard.unlock().await.unwrap();
    stage.no_line_is_left().await;
}

/// A head whose process stands still: its connection is there and hears, and nothing comes of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deaf_head_costs_one_grace() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let _deaf = stage.deaf_listener(DEAD).await;
    let guard = keeper.fair_mutex("f").lock().await.unwrap();
    stage.put_in_line(DEAD, Duration::from_secs(3_600)).await;
    let behind = locking(&keeper);
    stage.in_line(&keeper, 2).await;
    let freed = Instant::now();
    guard.unlock().await.unwrap();
    let (guard, since) = soon("the one behind", behind).await.unwrap().unwrap();
    assert!(since - freed < GRACE + SLACK, "{:?}", since - freed);
    guard.unlock().await.unwrap();
    stage.no_line_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_dead_waiter_costs_one_grace() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let guard = keeper.fair_mutex("f").lock().await.unwrap();
    stage.put_in_line(DEAD, Duration::from_secs(3_600)).await;
    stage.put_in_line(ALSO_DEAD, Duration::from_secs(3_600)).await;
    let behind = locking(&keeper);
    stage.in_line(&keeper, 3).await;
    let freed = Instant::now();
    guard.unlock().await.unwrap();
    let (_guard, since) = soon("the one behind", behind).await.unwrap().unwrap();
    assert!(since - freed < GRACE * 2 + SLACK, "{:?}", since - freed);
}

/// B16: holder and waiters are all gone; somebody new gets the lock a lease and a grace later at the latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_the_dead_alone_is_no_obstacle() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let lease = Duration::from_millis(800);
    let dead = stage.keeper().await;
    let guard = dead.fair_mutex("f").lease(Lease::fixed(lease)).lock().await.unwrap();
    stage.put_in_line(DEAD, Duration::from_secs(300)).await;
    let _dead = std::mem::ManuallyDrop::new(guard);
    let begun = Instant::now();
    let (_guard, since) = soon("the new one", locking(&keeper)).await.unwrap().unwrap();
    assert!(since - begun < lease + GRACE + SLACK, "{:?}", since - begun);
}

/// Section 6 of the layout: Java's head gives up without a word while the lock is free. Java's own waiters would sleep on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_gives_up_in_silence_strands_nobody() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let _java = stage.deaf_listener(JAVA).await;
    let guard = keeper.fair_mutex("f").lock().await.unwrap();
    stage.put_in_line(JAVA, Duration::from_secs(330)).await;
    let behind = locking(&keeper);
    stage.in_line(&keeper, 2).await;
    guard.unlock().await.unwrap();
    let left = Instant::now();
    stage.give_up_in_silence(JAVA).await;
    let (_guard, since) = soon("the one behind", behind).await.unwrap().unwrap();
    assert!(since - left < Duration::from_secs(1) + SLACK, "{:?}", since - left);
}

/// Java takes its five minutes off everybody's end when it is served: a place of ours behind it must survive that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_behind_a_peer_outlasts_its_being_served() {
    let stage = Stage::new();
    let keeper = stage.keeper().await;
    let _guard = keeper.fair_mutex("f").lock().await.unwrap();
    // Java's moment is near: it has waited for long, and moves nothing on.
    stage.put_in_line(JAVA, Duration::from_secs(40)).await;
    let _behind = locking(&keeper);
    stage.in_line(&keeper, 2).await;
    wait_until("a moment far enough", SOON, async || {
        let found = keeper.inspect("f").await.unwrap();
        let left = found.waiting[1].time_left.unwrap();
        if left > Duration::from_secs(300) + GRACE {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
}

/// B17: a waiter gives up just when the server is slow, and its word is lost at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_in_a_slow_moment_leaves_no_ghost() {
    let stage = Stage::new();
    let (near, far) = (stage.keeper().await, stage.keeper_at(&stage.proxy.url()).await);
    far.fair_mutex("g").lock().await.unwrap().unlock().await.unwrap();
    let guard = near.fair_mutex("f").lock().await.unwrap();
    let releases = Matcher::scripts().containing("{f}").when(is_release);
    let lost = stage.proxy.on(releases).times(1).delay_replies(Duration::from_secs(3));
    let wait = Duration::from_millis(500);
    assert!(far.fair_mutex("f").wait(wait).lock().await.is_err());
    lost.fired().await;
    guard.unlock().await.unwrap();
    let (guard, _) = soon("the next", locking(&near)).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    stage.no_line_is_left().await;
}

/// The request to join the line is answered too late, and its caller has gone: the place goes too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_nobody_learned_of_is_given_up() {
    let stage = Stage::new();
    let (near, far) = (stage.keeper().await, stage.keeper_at(&stage.proxy.url()).await);
    far.fair_mutex("g").lock().await.unwrap().unlock().await.unwrap();
    let _guard = near.fair_mutex("f").lock().await.unwrap();
    let acquires = Matcher::scripts().containing("{f}").when(is_acquire);
    let held_back = stage.proxy.on(acquires).times(1).hold_replies();
    let caller = locking(&far);
    held_back.fired().await;
    stage.in_line(&near, 1).await;
    caller.abort();
    stage.in_line(&near, 0).await;
    held_back.release();
    stage.no_line_is_left().await;
}

/// No state of the line makes anybody ask again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_polls_fast_in_any_state() {
    let stage = Stage::new();
    let (near, far) = (stage.keeper().await, stage.keeper_at(&stage.proxy.url()).await);
    let _java = stage.deaf_listener(JAVA).await;
    let guard = near.fair_mutex("f").lock().await.unwrap();
    stage.put_in_line(JAVA, Duration::from_secs(330)).await;
    let turn = async |mutex: Mutex| mutex.lock().await?.unlock().await;
    let behind: Vec<_> = (0..3).map(|_| tokio::spawn(turn(far.fair_mutex("f")))).collect();
    stage.in_line(&near, 4).await;
    let asked = || {
        let log = stage.proxy.log();
        log.iter().filter(|request| is_acquire(request)).count()
    };
    let before = asked();
    let span = Duration::from_secs(2);
    tokio::time::sleep(span).await;
    // Each of the three looks once a second behind Java's waiter.
    let held = asked() - before;
    assert!(held <= 3 * 4, "{held} attempts in {span:?} while it was held");
    guard.unlock().await.unwrap();
    let before = asked();
    let served = Instant::now();
    for caller in behind {
        soon("a turn", caller).await.unwrap().unwrap();
    }
    let free = asked() - before;
    // Hurrying the deaf head takes a few looks, and each turn a few more.
    assert!(
        free <= 40,
        "{free} attempts in {:?} until all were served",
        served.elapsed()
    );
}
