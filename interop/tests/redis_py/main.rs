//! The plain layout, shared with redis-py's `Lock`, which asks again and again and sends no message.

use std::sync::LazyLock;
use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, Mutex, Unlocked};
use lockkeeper_interop::{Peer, redis_py};
use lockkeeper_testkit::{RedisServer, wait_until};
use redis::cmd;

/// Far below any lease here but those that are to end, far above the tenth of a second between two looks.
const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

struct Stage {
    server: RedisServer,
    python: Peer,
}

/// One server and one Python process for all tests, each with names of its own.
static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let server = RedisServer::start();
    let python = redis_py::start(&server);
    Stage { server, python }
});

async fn mutex(name: &str) -> Mutex {
    let keeper = Keeper::connect(&STAGE.server.url()).await.expect("a server");
    keeper.mutex(name).layout(Layout::Plain).lease(Lease::fixed(LONG))
}

async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("not after {SOON:?}: {what}"),
    }
}

#[tokio::test]
async fn python_holds_and_rust_is_refused() {
    let python = STAGE.python.thread("refused-rust");
    let mutex = mutex("refused-rust").await;
    assert!(python.ask::<bool>("lock acquire refused-rust 60000").await);
    assert!(matches!(mutex.try_lock().await, Err(Error::Busy { .. })));
    let waited = mutex.clone().wait(Duration::from_millis(300)).lock().await;
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    python.tell("lock release refused-rust").await;
    mutex.try_lock().await.expect("a free lock").unlock().await.unwrap();
}

#[tokio::test]
async fn rust_holds_and_python_is_refused() {
    let python = STAGE.python.thread("refused-python");
    let guard = mutex("refused-python").await.lock().await.unwrap();
    assert!(!python.ask::<bool>("lock acquire refused-python 60000 0").await);
    assert!(!python.ask::<bool>("lock acquire refused-python 60000 300").await);
    assert!(python.ask::<bool>("lock locked refused-python").await);
    assert!(!python.ask::<bool>("lock owned refused-python").await);
    guard.unlock().await.unwrap();
    assert!(python.ask::<bool>("lock acquire refused-python 60000 0").await);
    python.tell("lock release refused-python").await;
}

#[tokio::test]
async fn rust_waits_for_python() {
    let python = STAGE.python.thread("waiting-rust");
    assert!(python.ask::<bool>("lock acquire waiting-rust 60000").await);
    let mutex = mutex("waiting-rust").await;
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // Ours listens all the same: others of ours do send messages in this layout.
    wait_until("a waiter", SOON, async || {
        let channels = STAGE.server.pubsub_channels().await;
        channels.iter().any(|channel| channel.contains("waiting-rust"))
    })
    .await;
    assert!(!waiting.is_finished());
    python.tell("lock release waiting-rust").await;
    let guard = soon("a grant by looking again", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn python_waits_for_rust() {
    // A server of its own, so that the looks counted are this waiter's.
    let server = RedisServer::start();
    let python = redis_py::start(&server);
    let python = python.thread("waiting");
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let mutex = keeper.mutex("waiting-python").layout(Layout::Plain);
    let guard = mutex.lease(Lease::fixed(LONG)).lock().await.unwrap();
    let before = server.calls("set").await;
    let waiting = python.start("lock acquire waiting-python 60000");
    wait_until("two looks", SOON, async || server.calls("set").await >= before + 2).await;
    assert!(waiting.is_under_way());
    guard.unlock().await.unwrap();
    assert!(soon("a grant by looking again", waiting.value::<bool>()).await);
    python.tell("lock release waiting-python").await;
}

#[tokio::test]
async fn both_extend_what_the_other_waits_for() {
    let python = STAGE.python.thread("extended");
    let keeper = Keeper::connect(&STAGE.server.url()).await.unwrap();
    let time_left = async || {
        let found = keeper.inspect("extended").await.unwrap();
        found.holders[0].time_left.expect("a lifetime")
    };
    assert!(python.ask::<bool>("lock acquire extended 20000").await);
    assert!(time_left().await <= Duration::from_secs(20));
    assert!(python.ask::<bool>("lock extend extended 60000").await);
    assert!(time_left().await > Duration::from_secs(20));
    assert!(matches!(
        mutex("extended").await.try_lock().await,
        Err(Error::Busy { .. })
    ));
    python.tell("lock release extended").await;

    let ours = mutex("extended").await.lease(Lease::fixed(Duration::from_secs(20)));
    let guard = ours.lock().await.unwrap();
    guard.extend(LONG).await.unwrap();
    let left: u64 = STAGE.server.query(cmd("PTTL").arg("extended")).await;
    assert!(left > 20_000, "{left}");
    assert!(!python.ask::<bool>("lock acquire extended 60000 0").await);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn neither_frees_the_others() {
    let python = STAGE.python.thread("foreign");
    // Python's runs out, ours follows: what Python then does is refused.
    assert!(python.ask::<bool>("lock acquire foreign 200").await);
    let mutex = mutex("foreign").await;
    let guard = soon("the end of Python's lifetime", mutex.lock()).await.unwrap();
    for method in ["release", "extend foreign 60000", "reacquire"] {
        let (method, rest) = method.split_once(' ').unwrap_or((method, "foreign"));
        let refused = python.attempt(format!("lock {method} {rest}")).await;
        // A release forgets the token first, so what comes after it is an error of another class.
        let refused = refused.expect_err("a lock of ours").0;
        assert!(refused.contains("lock"), "{refused}");
    }
    assert!(guard.remaining() > Duration::from_secs(20));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));

    // And the other way round.
    let short = mutex.clone().lease(Lease::fixed(Duration::from_millis(500)));
    let guard = short.lock().await.unwrap();
    assert!(python.ask::<bool>("lock acquire foreign 60000").await);
    assert!(matches!(guard.state(), HoldState::Lost(_)));
    assert!(matches!(guard.unlock().await, Err(Error::Lost(_))));
    assert!(python.ask::<bool>("lock owned foreign").await);
    python.tell("lock release foreign").await;
}

#[tokio::test]
async fn a_killed_python_holder_is_survived() {
    let python = redis_py::start(&STAGE.server);
    assert!(
        python
            .thread("holder")
            .ask::<bool>("lock acquire killed-python 1500")
            .await
    );
    let mutex = mutex("killed-python").await;
    python.kill();
    assert!(matches!(mutex.try_lock().await, Err(Error::Busy { .. })));
    let guard = soon("the end of a dead process's lifetime", mutex.lock())
        .await
        .unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn we_tell_pythons_holder() {
    let python = STAGE.python.thread("shown");
    let keeper = Keeper::connect(&STAGE.server.url()).await.unwrap();
    assert!(python.ask::<bool>("lock acquire shown 60000").await);
    let found = keeper.inspect("shown").await.unwrap();
    let stored: String = STAGE.server.query(cmd("GET").arg("shown")).await;
    assert_eq!(found.layout, Some(Layout::Plain));
    assert_eq!(found.holders[0].owner, stored);
    python.tell("lock release shown").await;
    assert!(!keeper.inspect("shown").await.unwrap().is_held());
}

/// A counter that both change by reading, and writing what they read plus one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    const ROUNDS: u64 = 40;
    let server = &STAGE.server;
    let python = STAGE.python.thread("counted");
    let increment = async |connection: &mut redis::aio::MultiplexedConnection| {
        let seen: Option<u64> = cmd("GET").arg("counter").query_async(connection).await.unwrap();
        tokio::task::yield_now().await;
        let () = cmd("SET")
            .arg("counter")
            .arg(seen.unwrap_or(0) + 1)
            .query_async(connection)
            .await
            .unwrap();
    };
    let theirs = async {
        let mut connection = server.connection().await;
        for _ in 0..ROUNDS {
            assert!(python.ask::<bool>("lock acquire counted 60000").await);
            increment(&mut connection).await;
            python.tell("lock release counted").await;
        }
    };
    let ours = async {
        let mut connection = server.connection().await;
        let mutex = mutex("counted").await;
        for _ in 0..ROUNDS {
            let guard = mutex.lock().await.unwrap();
            increment(&mut connection).await;
            guard.unlock().await.unwrap();
        }
    };
    tokio::join!(theirs, ours);
    let counter: u64 = server.query(cmd("GET").arg("counter")).await;
    assert_eq!(counter, 2 * ROUNDS);
}
