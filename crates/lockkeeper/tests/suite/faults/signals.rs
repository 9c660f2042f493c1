//! Waking: signals that come too early, too late, never, or from a connection that is half dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Error, Keeper, Layout, Lease, MutexGuard, Polling};
use lockkeeper_testkit::proxy::Request;
use lockkeeper_testkit::{Matcher, RedisServer, wait_until};
use redis::cmd;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::bed::{Bed, SOON, ends_on_time, locking, soon, taking_a_turn, traffic};
use super::in_both_layouts;

in_both_layouts!(
    a_release_before_the_subscription_is_seen_at_once,
    releases_before_many_subscriptions_are_all_seen,
    a_failed_subscription_does_not_poison_the_name,
    many_contended_names_share_one_connection,
    a_waiter_that_gave_up_leaves_nothing,
    a_silent_signal_connection_is_found_out,
    a_signal_connection_closed_by_its_output_limit_is_replaced,
    a_reset_signal_connection_is_replaced,
    subscribers_killed_again_and_again_lose_no_wake_up,
    polling_makes_no_signal_traffic,
    an_idle_keeper_forgets_its_names,
);

const MOMENT: Duration = Duration::from_millis(900);

/// B01, H46: the release comes while the subscription is on its way. Without a look after the confirmation the waiter
/// would sleep on a signal that is gone.
async fn a_release_before_the_subscription_is_seen_at_once(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let guard = bed.mutex(&holder, "early").lock().await.unwrap();
    let held_back = bed.proxy.on(Matcher::command("SUBSCRIBE")).hold_requests();
    let waiting = locking(&bed.mutex(&waiter, "early").wait(Duration::from_secs(20)));
    held_back.fired().await;
    guard.unlock().await.unwrap();
    held_back.release();
    let let_through = Instant::now();
    let (guard, got) = soon("the freed lock", waiting).await.unwrap().unwrap();
    assert!(got - let_through < MOMENT, "{:?}", got - let_through);
    guard.unlock().await.unwrap();
    bed.nothing_is_left_of("early").await;
}

/// B01 under load: every one of many names is released in the gap.
async fn releases_before_many_subscriptions_are_all_seen(layout: Layout) {
    const NAMES: usize = 200;
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let name = |number: usize| format!("gap{number}");
    let mut guards = Vec::new();
    for number in 0..NAMES {
        guards.push(bed.mutex(&holder, &name(number)).lock().await.unwrap());
    }
    let held_back = bed.proxy.on(Matcher::command("SUBSCRIBE")).hold_requests();
    let waiting: Vec<_> = (0..NAMES)
        .map(|number| locking(&bed.mutex(&waiter, &name(number))))
        .collect();
    wait_until("an attempt for each name", SOON, async || {
        let attempts = traffic(&bed.proxy, "gap").acquires;
        if attempts >= NAMES { Ok(()) } else { Err(attempts) }
    })
    .await;
    held_back.fired().await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    held_back.release();
    let let_through = Instant::now();
    for wait in waiting {
        let (guard, _) = soon("every freed lock", wait).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
    // No lease had to run out: they are of 30 seconds.
    assert!(
        let_through.elapsed() < Duration::from_secs(5),
        "{:?}",
        let_through.elapsed()
    );
    bed.nobody_listens().await;
}

/// B06: the call that met the failure is the only one that suffers from it.
async fn a_failed_subscription_does_not_poison_the_name(layout: Layout) {
    let bed = Bed::new(layout);
    let holder = bed.direct().await;
    let waiter = bed.behind_proxy_beating(Duration::from_millis(150)).await;
    let guard = bed.mutex(&holder, "poison").lock().await.unwrap();
    // Longer than the probe's limit: this connection is given up with its subscription unconfirmed.
    let stuck = bed.proxy.on(Matcher::command("SUBSCRIBE")).black_hole();
    let budget = Duration::from_millis(500);
    let error = ends_on_time(budget, bed.mutex(&waiter, "poison").wait(budget).lock()).await;
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    stuck.fired().await;
    stuck.remove();
    let waiting: Vec<_> = (0..30).map(|_| taking_a_turn(&bed.mutex(&waiter, "poison"))).collect();
    bed.somebody_listens("poison").await;
    guard.unlock().await.unwrap();
    let freed = Instant::now();
    for wait in waiting {
        soon("a turn for everybody", wait).await.unwrap().unwrap();
    }
    assert!(freed.elapsed() < Duration::from_secs(3), "{:?}", freed.elapsed());
    bed.nothing_is_left_of("poison").await;
}

/// H49: a user who may not subscribe waits by looking again, and listens as soon as it is allowed to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_subscription_only_costs_speed() {
    let server = RedisServer::builder()
        .user("deaf", "on nopass ~* resetchannels +@all")
        .start();
    let bed = Bed::on(server, Layout::Redisson);
    let holder = bed.direct().await;
    let config = RedisConfig::from_url(&format!("redis://deaf:x@{}/", bed.server.address())).unwrap();
    let waiter = Keeper::builder().connect_with(config).await.unwrap();
    let guard = bed.mutex(&holder, "deaf-name").lock().await.unwrap();
    let lease = Lease::renewed(Duration::from_secs(1));
    let waiting = locking(&bed.mutex(&waiter, "deaf-name").lease(lease));
    wait_until("the refusal", SOON, async || {
        bed.server
            .command_stats()
            .await
            .get("subscribe")
            .is_some_and(|told| told.rejected > 0)
    })
    .await;
    guard.unlock().await.unwrap();
    let freed = Instant::now();
    let (guard, got) = soon("the freed lock", waiting).await.unwrap().unwrap();
    assert!(got - freed < Duration::from_secs(2), "{:?}", got - freed);
    let waiting = locking(&bed.mutex(&holder, "deaf-name"));
    bed.somebody_listens("deaf-name").await;
    // It may not publish either, and frees all the same: the other finds out when the lease it was told of ends.
    guard.unlock().await.unwrap();
    let (guard, _) = soon("the lock freed in silence", waiting).await.unwrap().unwrap();
    let waiting = locking(&bed.mutex(&waiter, "deaf-name"));
    let () = bed.ask(cmd("ACL").arg("SETUSER").arg("deaf").arg("allchannels")).await;
    wait_until("the subscription that is allowed now", SOON, async || {
        bed.server
            .client_list()
            .await
            .iter()
            .any(|client| client.field("user") == "deaf" && client.subscriptions() == 1)
    })
    .await;
    guard.unlock().await.unwrap();
    drop(soon("the freed lock", waiting).await.unwrap().unwrap());
}

/// B07: channels are multiplexed on one connection, and one wait that ends does not disturb the others.
async fn many_contended_names_share_one_connection(layout: Layout) {
    const NAMES: usize = 300;
    let bed = Bed::new(layout);
    let holder = bed.direct().await;
    let config = RedisConfig::from_url(&bed.server.url()).unwrap().client_name("crowd");
    let waiter = Keeper::builder().connect_with(config).await.unwrap();
    let name = |number: usize| format!("crowd{number}");
    let mut guards = Vec::new();
    for number in 0..=NAMES {
        guards.push(bed.mutex(&holder, &name(number)).lock().await.unwrap());
    }
    let mut waiting: Vec<_> = (0..NAMES)
        .map(|number| locking(&bed.mutex(&waiter, &name(number))))
        .collect();
    let subscriptions = async || {
        let clients = bed.server.client_list().await;
        let ours: Vec<_> = clients.iter().filter(|client| client.name() == "crowd").collect();
        let listening = ours.iter().filter(|client| client.subscriptions() > 0);
        let counts: Vec<u64> = listening.map(|client| client.subscriptions()).collect();
        (ours.len(), counts)
    };
    wait_until("all subscriptions on one connection", SOON, async || {
        let (connections, counts) = subscriptions().await;
        if counts == [NAMES as u64] {
            Ok(())
        } else {
            Err((connections, counts))
        }
    })
    .await;
    assert!(subscriptions().await.0 <= 3, "{:?}", subscriptions().await);
    // One more, which gives up; then one of the first is freed.
    let budget = Duration::from_millis(300);
    let error = ends_on_time(budget, bed.mutex(&waiter, &name(NAMES)).wait(budget).lock()).await;
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    guards.remove(0).unlock().await.unwrap();
    let freed = Instant::now();
    let (first, got) = soon("the one that was freed", waiting.remove(0))
        .await
        .unwrap()
        .unwrap();
    assert!(got - freed < MOMENT, "{:?}", got - freed);
    assert!(waiting.iter().all(|wait| !wait.is_finished()));
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for wait in waiting {
        let (guard, _) = soon("all others", wait).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
    first.unlock().await.unwrap();
    bed.nobody_listens().await;
    bed.every_key_ends().await;
}

/// B11: nothing stale wakes who comes later. In the plain layout waiters poll besides, so their looks are not counted.
async fn a_waiter_that_gave_up_leaves_nothing(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let guard = bed.mutex(&holder, "stale").lock().await.unwrap();
    let budget = Duration::from_millis(200);
    let error = ends_on_time(budget, bed.mutex(&waiter, "stale").wait(budget).lock()).await;
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    bed.nobody_listens().await;
    guard.unlock().await.unwrap();
    let guard = bed.mutex(&holder, "stale").lock().await.unwrap();
    bed.proxy.clear_log();
    let waiting = locking(&bed.mutex(&waiter, "stale"));
    bed.somebody_listens("stale").await;
    // Long enough for a stale wake-up, or for spinning, to show.
    assert!(
        timeout(Duration::from_millis(400), std::future::pending::<()>())
            .await
            .is_err()
    );
    let looks = traffic(&bed.proxy, "stale").acquires;
    guard.unlock().await.unwrap();
    let freed = Instant::now();
    let (guard, got) = soon("the freed lock", waiting).await.unwrap().unwrap();
    assert!(got - freed < MOMENT, "{:?}", got - freed);
    if layout == Layout::Redisson {
        assert_eq!(looks, 2, "one on arrival, one after the subscription");
        assert_eq!(traffic(&bed.proxy, "stale").acquires, 3, "and one for the release");
    } else {
        assert!(looks <= 8, "{looks} looks in 400 ms");
    }
    guard.unlock().await.unwrap();
}

/// B waits on a live subscription while A holds; then something happens to B's signal connection.
struct Listening {
    guard: MutexGuard,
    waiter: Keeper,
    waiting: JoinHandle<Result<(MutexGuard, Instant), Error>>,
    /// The proxy's number of the signal connection.
    connection: u64,
}

impl Listening {
    async fn on(bed: &Bed, name: &str) -> Self {
        let holder = bed.direct().await;
        let waiter = bed.behind_proxy_beating(Duration::from_millis(250)).await;
        let guard = bed.mutex(&holder, name).lock().await.unwrap();
        let waiting = locking(&bed.mutex(&waiter, name).wait(Duration::from_secs(60)));
        bed.somebody_listens(name).await;
        let log = bed.proxy.log();
        let connection = log
            .iter()
            .find(|request| request.command == "SUBSCRIBE")
            .unwrap()
            .connection;
        Self {
            guard,
            waiter,
            waiting,
            connection,
        }
    }

    /// Another connection has taken over the subscription, without any release.
    async fn is_replaced(&self, bed: &Bed) {
        wait_until("another subscription", SOON, async || {
            let log = bed.proxy.log();
            let subscribe = |request: &&Arc<Request>| request.command == "SUBSCRIBE";
            log.iter()
                .filter(subscribe)
                .any(|request| request.connection > self.connection)
        })
        .await;
        self.bury(bed);
    }

    /// A proxy keeps the server's end of a black hole open, with the subscription on it.
    fn bury(&self, bed: &Bed) {
        bed.proxy.reset(&Matcher::any().on_connection(self.connection));
    }

    /// The lock comes soon after its release, and the next wait has a working subscription.
    async fn recovers(self, bed: &Bed, name: &str) {
        let connection = self.connection;
        self.guard.unlock().await.unwrap();
        let freed = Instant::now();
        let (guard, got) = soon("the freed lock", self.waiting).await.unwrap().unwrap();
        assert!(got - freed < Duration::from_secs(2), "{:?}", got - freed);
        guard.unlock().await.unwrap();
        bed.proxy.reset(&Matcher::any().on_connection(connection));
        let other = bed.direct().await;
        let guard = bed.mutex(&other, name).lock().await.unwrap();
        let waiting = locking(&bed.mutex(&self.waiter, name));
        bed.somebody_listens(name).await;
        guard.unlock().await.unwrap();
        let freed = Instant::now();
        let (guard, got) = soon("the lock after its signal", waiting).await.unwrap().unwrap();
        assert!(got - freed < MOMENT, "{:?}", got - freed);
        guard.unlock().await.unwrap();
        bed.nothing_is_left_of(name).await;
    }
}

/// B65a, H44c: no message, no error. Only the probe can tell.
async fn a_silent_signal_connection_is_found_out(layout: Layout) {
    let bed = Bed::new(layout);
    let listening = Listening::on(&bed, "silent").await;
    let hole = bed
        .proxy
        .on(Matcher::any().on_connection(listening.connection))
        .black_hole();
    hole.fired().await;
    listening.is_replaced(&bed).await;
    listening.recovers(&bed, "silent").await;
}

/// B65a at its worst: the release itself falls into the hole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_the_dark_is_found_within_two_probes() {
    let bed = Bed::new(Layout::Redisson);
    let listening = Listening::on(&bed, "dark").await;
    let hole = bed
        .proxy
        .on(Matcher::any().on_connection(listening.connection))
        .black_hole();
    hole.fired().await;
    listening.recovers(&bed, "dark").await;
}

/// B65b: the server closes a subscriber whose output is larger than its limit.
async fn a_signal_connection_closed_by_its_output_limit_is_replaced(layout: Layout) {
    let bed = Bed::new(layout);
    let listening = Listening::on(&bed, "output").await;
    let limit = "pubsub 1024 1024 1";
    let () = bed
        .ask(cmd("CONFIG").arg("SET").arg("client-output-buffer-limit").arg(limit))
        .await;
    let channel = bed.server.pubsub_channels().await.remove(0);
    let told: u64 = bed.ask(cmd("PUBLISH").arg(channel).arg("x".repeat(4 << 20))).await;
    assert_eq!(told, 1);
    listening.is_replaced(&bed).await;
    listening.recovers(&bed, "output").await;
}

/// B65c.
async fn a_reset_signal_connection_is_replaced(layout: Layout) {
    let bed = Bed::new(layout);
    let listening = Listening::on(&bed, "reset").await;
    assert_eq!(bed.proxy.reset(&Matcher::subscribers()), 1);
    listening.is_replaced(&bed).await;
    listening.recovers(&bed, "reset").await;
}

/// H47: subscriptions that are cut all the time cost speed at most.
async fn subscribers_killed_again_and_again_lose_no_wake_up(layout: Layout) {
    let bed = Bed::new(layout);
    let keepers = [bed.direct().await, bed.direct().await];
    let work = async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let mutex = bed.mutex(&keepers[task % 2], "killed").wait(SOON);
            tasks.spawn(async move {
                for _ in 0..15 {
                    let guard = mutex.lock().await.expect("only slower");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    guard.unlock().await.expect("only slower");
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    tokio::pin!(work);
    let mut killed = 0;
    let started = Instant::now();
    loop {
        tokio::select! {
            () = &mut work => break,
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                killed += bed.ask::<u64>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub")).await;
            }
        }
        assert!(started.elapsed() < SOON, "a wake-up was lost");
    }
    assert!(killed > 0, "nobody was killed: nothing was tried");
    bed.nothing_is_left_of("killed").await;
}

/// B67: who polls needs no channel.
async fn polling_makes_no_signal_traffic(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.behind_proxy().await);
    let polling = Polling::every(Duration::from_millis(5));
    for _ in 0..10 {
        let guard = bed.mutex(&holder, "polled").lock().await.unwrap();
        let looks = traffic(&bed.proxy, "polled").acquires;
        let waiting = locking(&bed.mutex(&waiter, "polled").polling(polling));
        wait_until("three looks", SOON, async || {
            traffic(&bed.proxy, "polled").acquires >= looks + 3
        })
        .await;
        assert!(bed.server.pubsub_channels().await.is_empty());
        guard.unlock().await.unwrap();
        soon("the polled lock", waiting)
            .await
            .unwrap()
            .unwrap()
            .0
            .unlock()
            .await
            .unwrap();
    }
    let counts = bed.proxy.request_counts();
    assert!(
        !counts.contains_key("SUBSCRIBE") && !counts.contains_key("SSUBSCRIBE"),
        "{counts:?}"
    );
    let clients = bed.server.client_list().await;
    assert!(clients.iter().all(|client| client.subscriptions() == 0), "{clients:?}");
}

/// Whatever a name needed goes with its last user: the entry in the keeper, the channel on the server.
async fn an_idle_keeper_forgets_its_names(layout: Layout) {
    let bed = Bed::new(layout);
    let (holder, waiter) = (bed.direct().await, bed.direct().await);
    let knows = |keeper: &Keeper, name: &str| format!("{keeper:?}").contains(name);
    let lease = Lease::renewed(Duration::from_secs(1));
    let guard = bed.mutex(&holder, "forgotten").lease(lease).lock().await.unwrap();
    let waiting = locking(&bed.mutex(&waiter, "forgotten"));
    bed.somebody_listens("forgotten").await;
    assert!(
        knows(&holder, "forgotten") && knows(&waiter, "forgotten"),
        "else this test shows nothing"
    );
    guard.unlock().await.unwrap();
    soon("the freed lock", waiting)
        .await
        .unwrap()
        .unwrap()
        .0
        .unlock()
        .await
        .unwrap();
    wait_until("no entry", SOON, async || {
        !knows(&holder, "forgotten") && !knows(&waiter, "forgotten")
    })
    .await;
    bed.nothing_is_left_of("forgotten").await;
}
