//! What the server answers instead of doing it: each refusal has a class, comes fast, changes nothing, and passes.

use std::fs;
use std::time::{Duration, Instant};

use lockkeeper::{Effect, Error, HoldState, Keeper, Layout, Lease, Refusal, Unlocked};
use lockkeeper_testkit::{RedisServer, wait_until};
use redis::cmd;

use super::bed::{Bed, SOON, acquires, locking, releases, soon, traffic};
use super::in_both_layouts;

in_both_layouts!(
    out_of_memory_refuses_acquires_and_nothing_else,
    a_replica_is_read_only_until_it_is_not,
    a_server_without_its_master_is_not_ready,
    too_few_replicas_are_told_at_once,
    a_server_that_cannot_persist_is_told_at_once,
    a_release_that_was_refused_is_repeated,
    a_user_without_the_rights_is_told_at_once,
);

/// A password that no text may show.
const CANARY: &str = "canary-5f2b";

const FAST: Duration = Duration::from_millis(700);

/// The refusal of a call that is not repeated, which comes at once and changes nothing.
async fn refused_at_once<T: std::fmt::Debug>(call: impl Future<Output = Result<T, Error>>) -> Refusal {
    let asked = Instant::now();
    let error = soon("a refusal", call).await.unwrap_err();
    assert!(asked.elapsed() < FAST, "{:?}: {error:?}", asked.elapsed());
    refusal_of(&error)
}

fn refusal_of(error: &Error) -> Refusal {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(CANARY), "a password in {shown}");
    assert!(!error.is_contention() && !error.is_unreachable(), "{error:?}");
    match error {
        Error::Refused { refusal, effect, .. } => {
            assert_eq!(*effect, Effect::None, "{error:?}");
            *refusal
        }
        other => panic!("no refusal: {other:?}"),
    }
}

async fn configure(bed: &Bed, name: &str, value: &str) {
    let () = bed.ask(cmd("CONFIG").arg("SET").arg(name).arg(value)).await;
}

/// H34.
async fn out_of_memory_refuses_acquires_and_nothing_else(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let lease = Lease::renewed(Duration::from_millis(900));
    let guard = bed.mutex(&keeper, "full").lease(lease).lock().await.unwrap();
    configure(&bed, "maxmemory", "1").await;
    let other = bed.mutex(&keeper, "other").wait(Duration::from_secs(5));
    assert_eq!(refused_at_once(other.try_lock()).await, Refusal::OutOfMemory);
    assert_eq!(refused_at_once(other.lock()).await, Refusal::OutOfMemory);
    assert!(!bed.is_locked("other").await);
    let renewed = traffic(&bed.proxy, "full").renewals;
    wait_until("five renewals", SOON, async || {
        traffic(&bed.proxy, "full").renewals >= renewed + 5
    })
    .await;
    assert_eq!(
        guard.state(),
        HoldState::Held,
        "kept by renewals for longer than its lease"
    );
    guard.extend(Duration::from_secs(40)).await.unwrap();
    assert!(bed.life("full").await > 30_000);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    assert!(!bed.is_locked("full").await);
    configure(&bed, "maxmemory", "0").await;
    drop(other.try_lock().await.unwrap());
}

/// A call that is in place until the server's state is over: it waits, and is told the class when its time is up.
async fn passes_by_itself(bed: &Bed, keeper: &Keeper, refusal: Refusal, end: impl AsyncFnOnce()) {
    let budget = Duration::from_millis(400);
    let asked = Instant::now();
    let short = bed.mutex(keeper, "short").wait(budget);
    let error = soon("the end of a wait", short.lock()).await.unwrap_err();
    assert_eq!(refusal_of(&error), refusal);
    assert!(
        asked.elapsed() < budget + Duration::from_millis(500),
        "{:?}",
        asked.elapsed()
    );
    let waiting = locking(&bed.mutex(keeper, "patient").wait(SOON));
    wait_until("two refusals", SOON, async || {
        traffic(&bed.proxy, "patient").acquires >= 2
    })
    .await;
    assert!(!waiting.is_finished());
    end().await;
    let (guard, _) = soon("the lock afterwards", waiting).await.unwrap().unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    for name in ["short", "patient"] {
        bed.nothing_is_left_of(name).await;
    }
}

/// H35: READONLY. A demotion may be about to be undone, so the call is repeated within its wait.
async fn a_replica_is_read_only_until_it_is_not(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let nowhere = RedisServer::start();
    let () = bed
        .ask(cmd("REPLICAOF").arg("127.0.0.1").arg(nowhere.address().port()))
        .await;
    nowhere.kill();
    passes_by_itself(&bed, &keeper, Refusal::ReadOnly, async || {
        let () = bed.ask(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    })
    .await;
}

/// H35: MASTERDOWN.
async fn a_server_without_its_master_is_not_ready(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    configure(&bed, "replica-serve-stale-data", "no").await;
    let nowhere = RedisServer::start();
    let () = bed
        .ask(cmd("REPLICAOF").arg("127.0.0.1").arg(nowhere.address().port()))
        .await;
    nowhere.kill();
    passes_by_itself(&bed, &keeper, Refusal::NotReady, async || {
        let () = bed.ask(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    })
    .await;
}

/// H35: LOADING. The data is read back slowly, and the server answers everybody so meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loading_server_is_waited_for() {
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy().await;
    let fill = "for i = 1, 3000 do redis.call('SET', 'fill:' .. i, string.rep('x', 1000)) end";
    let () = bed.ask(cmd("EVAL").arg(fill).arg(0)).await;
    configure(&bed, "loading-process-events-interval-bytes", "2048").await;
    configure(&bed, "key-load-delay", "400").await;
    let mut connection = bed.server.connection().await;
    let mut probe = bed.server.connection().await;
    let reload = tokio::spawn(async move { cmd("DEBUG").arg("RELOAD").exec_async(&mut connection).await });
    wait_until("a loading server", SOON, async || {
        let told = cmd("GET").arg("x").query_async::<Option<String>>(&mut probe).await;
        told.is_err_and(|error| error.code() == Some("LOADING"))
    })
    .await;
    let error = bed
        .mutex(&keeper, "short")
        .wait(Duration::from_millis(150))
        .lock()
        .await
        .unwrap_err();
    assert!(!error.is_contention(), "{error:?}");
    let guard = soon("the lock afterwards", bed.mutex(&keeper, "loaded").wait(SOON).lock())
        .await
        .unwrap();
    assert!(traffic(&bed.proxy, "loaded").acquires >= 2, "it was refused before");
    guard.unlock().await.unwrap();
    soon("the end of the reload", reload).await.unwrap().unwrap();
}

/// H35: NOREPLICAS.
async fn too_few_replicas_are_told_at_once(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    configure(&bed, "min-replicas-to-write", "1").await;
    let mutex = bed.mutex(&keeper, "alone").wait(SOON);
    assert_eq!(refused_at_once(mutex.try_lock()).await, Refusal::Durability);
    assert_eq!(refused_at_once(mutex.lock()).await, Refusal::Durability);
    assert_eq!(traffic(&bed.proxy, "alone").acquires, 2, "no storm");
    assert!(!bed.is_locked("alone").await);
    configure(&bed, "min-replicas-to-write", "0").await;
    drop(mutex.lock().await.unwrap());
}

/// H35: MISCONF. A folder stands where the snapshot would go.
async fn a_server_that_cannot_persist_is_told_at_once(layout: Layout) {
    let bed = Bed::new(layout);
    let keeper = bed.behind_proxy().await;
    let mutex = bed.mutex(&keeper, "disk").wait(SOON);
    break_persistence(&bed).await;
    assert_eq!(refused_at_once(mutex.try_lock()).await, Refusal::Durability);
    assert_eq!(refused_at_once(mutex.lock()).await, Refusal::Durability);
    assert!(!bed.is_locked("disk").await);
    configure(&bed, "stop-writes-on-bgsave-error", "no").await;
    drop(mutex.lock().await.unwrap());
}

async fn break_persistence(bed: &Bed) {
    fs::create_dir(bed.server.folder().join("dump.rdb")).unwrap();
    configure(bed, "save", "3600 1000000").await;
    let () = bed.ask(&cmd("BGSAVE")).await;
    wait_until("a failed snapshot", SOON, async || {
        bed.server.info_field("persistence", "rdb_last_bgsave_status").await == "err"
    })
    .await;
}

/// A release that the server refuses has not happened; it is repeated, and the lock is free long before its lease ends.
async fn a_release_that_was_refused_is_repeated(layout: Layout) {
    let bed = Bed::new(layout);
    let (keeper, other) = (bed.behind_proxy().await, bed.direct().await);
    let lease = Lease::fixed(Duration::from_secs(60));
    let dropped = bed.mutex(&keeper, "dropped").lease(lease).lock().await.unwrap();
    let unlocked = bed.mutex(&keeper, "unlocked").lease(lease).lock().await.unwrap();
    let seen = bed.proxy.on(releases("dropped")).delay_requests(Duration::ZERO);
    configure(&bed, "min-replicas-to-write", "1").await;
    drop(dropped);
    let unlocking = tokio::spawn(unlocked.unlock());
    seen.fired_times(2, Duration::from_secs(5)).await;
    configure(&bed, "min-replicas-to-write", "0").await;
    assert_eq!(soon("the release", unlocking).await.unwrap(), Ok(Unlocked::Freed));
    for name in ["dropped", "unlocked"] {
        let mutex = bed.mutex(&other, name).wait(Duration::from_secs(4));
        mutex
            .lock()
            .await
            .expect("long before the lease ends")
            .unlock()
            .await
            .unwrap();
    }
}

/// H35: NOPERM, for the whole call and inside of a script. It is never repeated.
async fn a_user_without_the_rights_is_told_at_once(layout: Layout) {
    let write = if layout == Layout::Plain { "-set" } else { "-hset" };
    let server = RedisServer::builder()
        .user("mute", &format!("on >{CANARY} ~* &* +@all -evalsha -eval"))
        .user("weak", &format!("on >{CANARY} ~* &* +@all {write}"))
        .user("blind", &format!("on >{CANARY} ~elsewhere* &* +@all"))
        .start();
    let bed = Bed::on(server, layout);
    // Loads the scripts.
    drop(bed.direct().await);
    for user in ["mute", "weak", "blind"] {
        let url = format!("redis://{user}:{CANARY}@{}/", bed.proxy.address());
        let keeper = Keeper::connect(&url).await.unwrap();
        let mutex = bed.mutex(&keeper, "denied").wait(SOON);
        bed.proxy.clear_log();
        let asked = bed.proxy.on(acquires("denied")).delay_requests(Duration::ZERO);
        for call in [mutex.try_lock().await, mutex.lock().await] {
            let error = call.map(drop).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(CANARY), "a password in {shown}");
            let typed = matches!(
                error,
                Error::Refused {
                    refusal: Refusal::Permission,
                    ..
                }
            );
            assert!(typed, "{user}: {error:?}");
        }
        assert_eq!(asked.times_fired(), 2, "{user}: no storm");
        wait_until("no lock", Duration::from_secs(3), async || {
            !bed.is_locked("denied").await
        })
        .await;
    }
}

/// H35: NOAUTH and WRONGPASS, told when connecting, and no password in any text.
#[tokio::test]
async fn wrong_credentials_are_told_at_once_and_not_shown() {
    let server = RedisServer::builder().password("the-right-one").start();
    let address = server.address();
    for url in [
        format!("redis://{address}/"),
        format!("redis://:{CANARY}@{address}/"),
        format!("redis://nobody:{CANARY}@{address}/"),
    ] {
        assert_eq!(refused_at_once(Keeper::connect(&url)).await, Refusal::Permission);
    }
    let builder = Keeper::builder().password(CANARY);
    assert_eq!(
        refused_at_once(builder.connect(&format!("redis://{address}/"))).await,
        Refusal::Permission
    );
    let keeper = Keeper::builder()
        .password("the-right-one")
        .connect(&format!("redis://{address}/"))
        .await
        .unwrap();
    drop(keeper.mutex("open").lock().await.unwrap());
}

/// H35, H65: a user that is disabled while the keeper works. Its next connection is refused, and the refusal is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_was_disabled_is_told_at_once() {
    let server = RedisServer::builder()
        .user("gone", &format!("on >{CANARY} ~* &* +@all"))
        .start();
    let bed = Bed::on(server, Layout::Redisson);
    let keeper = Keeper::connect(&format!("redis://gone:{CANARY}@{}/", bed.proxy.address()))
        .await
        .unwrap();
    drop(bed.mutex(&keeper, "before").lock().await.unwrap());
    let () = bed.ask(cmd("ACL").arg("SETUSER").arg("gone").arg("off")).await;
    bed.proxy.reset_all();
    let mutex = bed.mutex(&keeper, "after").wait(SOON);
    assert_eq!(refused_at_once(mutex.lock()).await, Refusal::Permission);
    let () = bed.ask(cmd("ACL").arg("SETUSER").arg("gone").arg("on")).await;
    drop(soon("the lock afterwards", mutex.lock()).await.unwrap());
}

/// H35: max clients. It may pass by itself, so it is waited for where there is a wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_told_and_waited_for() {
    let bed = Bed::new(Layout::Redisson);
    let keeper = bed.behind_proxy().await;
    let mut door = bed.server.connection().await;
    let connected: usize = bed.server.client_list().await.len();
    let limit = async |connection: &mut redis::aio::MultiplexedConnection, most: usize| {
        let mut command = cmd("CONFIG");
        command.arg("SET").arg("maxclients").arg(most);
        command.exec_async(connection).await.unwrap();
    };
    wait_until("the looking connection gone", SOON, async || {
        let list: String = cmd("CLIENT").arg("LIST").query_async(&mut door).await.unwrap();
        list.lines().count() < connected
    })
    .await;
    let list: String = cmd("CLIENT").arg("LIST").query_async(&mut door).await.unwrap();
    limit(&mut door, list.lines().count()).await;
    let asked = Instant::now();
    let error = Keeper::connect(&bed.server.url()).await.unwrap_err();
    assert!(asked.elapsed() < FAST && !error.is_contention(), "{error:?}");
    // The server hangs up behind its answer, which may destroy it on the way.
    let told = matches!(
        error,
        Error::Refused {
            refusal: Refusal::TooManyClients,
            ..
        } | Error::Unreachable { .. }
    );
    assert!(told, "{error:?}");
    drop(bed.mutex(&keeper, "inside").lock().await.expect("who is in stays in"));
    // Now the keeper's own connections are broken, and somebody else takes the places.
    bed.proxy.reset_all();
    limit(&mut door, 1).await;
    let waiting = locking(&bed.mutex(&keeper, "outside").wait(SOON));
    let before = bed.proxy.connections();
    wait_until("two attempts to connect", SOON, async || {
        bed.proxy.connections() >= before + 2
    })
    .await;
    assert!(!waiting.is_finished());
    limit(&mut door, 1000).await;
    let (guard, _) = soon("the lock afterwards", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
}
