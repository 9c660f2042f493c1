//! Futures that are dropped at every point at which they wait. Nothing is left behind, and the lock can be had at once.

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockkeeper::{Keeper, Layout, Lease, Mutex};
use lockkeeper_testkit::proxy::Request;
use lockkeeper_testkit::{Matcher, wait_until};

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms, soon};
use crate::scripts::{is_acquire, is_release, is_renewal};

in_both_layouts!(
    a_call_dropped_at_any_point_leaves_nothing,
    a_call_dropped_before_its_held_reply_leaves_nothing,
    a_call_dropped_before_its_held_request_leaves_nothing,
    a_waiter_dropped_as_it_is_granted_leaves_nothing,
    many_calls_dropped_at_random_leave_nothing,
);

/// The calls that can be dropped.
#[derive(Clone, Copy, Debug)]
enum Call {
    Lock,
    TryLock,
    Unlock,
    Extend,
    Run,
    /// Behind a caller of the same process.
    WaitBehindNeighbour,
    /// Behind another process, which keeps it.
    WaitBehindStranger,
    /// Behind another process, which gives it up meanwhile.
    WaitAsItIsFreed,
}

const CALLS: [Call; 8] = [
    Call::Lock,
    Call::TryLock,
    Call::Unlock,
    Call::Extend,
    Call::Run,
    Call::WaitBehindNeighbour,
    Call::WaitBehindStranger,
    Call::WaitAsItIsFreed,
];

/// Drops a future when it was pending so many times, or when it is not woken any more.
async fn dropped_after<F: Future>(times: u32, future: F) -> Option<F::Output> {
    let mut pending = 0;
    let mut future = Box::pin(future);
    let polled = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            pending += 1;
            if pending >= times {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        }
    });
    tokio::time::timeout(ms(60), polled).await.unwrap_or(None)
}

async fn drop_a_call(call: Call, times: u32, mutex: &Mutex, other: &Mutex) {
    match call {
        Call::Lock => drop(dropped_after(times, mutex.lock()).await),
        Call::TryLock => drop(dropped_after(times, mutex.try_lock()).await),
        Call::Unlock => {
            let guard = soon("the lock", mutex.lock()).await.unwrap();
            drop(dropped_after(times, guard.unlock()).await);
        }
        Call::Extend => {
            let guard = soon("the lock", mutex.lock()).await.unwrap();
            drop(dropped_after(times, guard.extend(Duration::from_secs(40))).await);
            assert!(
                guard.remaining() > Duration::from_secs(20),
                "the hold itself is untouched"
            );
        }
        Call::Run => {
            let work = mutex.run(async |_| {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
            drop(dropped_after(times, work).await);
        }
        Call::WaitBehindNeighbour => {
            let guard = soon("the lock", mutex.lock()).await.unwrap();
            assert!(dropped_after(times, mutex.lock()).await.is_none());
            drop(guard);
        }
        Call::WaitBehindStranger => {
            let guard = soon("the lock", other.lock()).await.unwrap();
            assert!(dropped_after(times, mutex.lock()).await.is_none());
            guard.unlock().await.unwrap();
        }
        Call::WaitAsItIsFreed => {
            let guard = soon("the lock", other.lock()).await.unwrap();
            let freeing = async {
                tokio::task::yield_now().await;
                guard.unlock().await.unwrap();
            };
            tokio::join!(async { drop(dropped_after(times, mutex.lock()).await) }, freeing);
        }
    }
}

/// The lease is half a minute: whoever gets in now was let in.
async fn had_quickly(other: &Mutex, what: &dyn std::fmt::Debug) {
    let started = Instant::now();
    let guard = soon("the lock", other.lock())
        .await
        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{what:?}: {:?}",
        started.elapsed()
    );
    guard.unlock().await.unwrap();
}

async fn drop_everywhere(mutex: &Mutex, other: &Mutex) {
    for call in CALLS {
        for times in 1..=8 {
            drop_a_call(call, times, mutex, other).await;
            had_quickly(other, &(call, times)).await;
            // The same process is not in its own way either.
            had_quickly(mutex, &(call, times)).await;
        }
    }
}

async fn a_call_dropped_at_any_point_leaves_nothing(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(1000)).await;
    let other = stage.keeper().await;
    drop_everywhere(&stage.mutex(&keeper, "dropped"), &stage.mutex(&other, "dropped")).await;
    stage.nothing_left().await;
}

#[tokio::test]
async fn a_call_dropped_at_any_point_leaves_nothing_embedded() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    for layout in [Layout::Redisson, Layout::Plain] {
        drop_everywhere(
            &keeper.mutex("dropped").layout(layout),
            &other.mutex("dropped").layout(layout),
        )
        .await;
        assert!(!keeper.inspect("dropped").await.unwrap().is_held());
    }
}

type Belongs = fn(&Request) -> bool;

/// The calls that send a request of their own, with a way to know it.
const SENDING: [(Call, Belongs); 5] = [
    (Call::Lock, is_acquire),
    (Call::TryLock, is_acquire),
    (Call::Run, is_acquire),
    (Call::Unlock, is_release),
    (Call::Extend, is_renewal),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Request,
    Reply,
}

/// Drops each call while its first request, or the reply to it, is kept back.
async fn drop_while_held(stage: &Stage, held: Held) {
    let limit = ms(700);
    let other = stage.mutex(&stage.keeper().await, "held");
    for (call, belongs) in SENDING {
        let keeper = stage.far_keeper(limit).await;
        let mutex = stage.mutex(&keeper, "held");
        // The scripts are loaded, so that the first request is the one.
        had_quickly(&mutex, &call).await;
        let guard = match call {
            Call::Unlock | Call::Extend => Some(mutex.lock().await.unwrap()),
            _ => None,
        };
        let faults = stage.proxy.on(Matcher::command("EVALSHA").when(belongs)).nth(1);
        let rule = match held {
            Held::Request => faults.hold_requests(),
            Held::Reply => faults.hold_replies(),
        };
        let work = async {
            match call {
                Call::TryLock => drop(mutex.try_lock().await),
                Call::Run => drop(mutex.run(async |_| ()).await),
                Call::Unlock => drop(guard.unwrap().unlock().await),
                Call::Extend => {
                    let guard = guard.unwrap();
                    let _ = guard.extend(Duration::from_secs(40)).await;
                }
                _ => drop(mutex.lock().await),
            }
        };
        {
            let mut work = pin!(work);
            tokio::select! {
                () = &mut work => panic!("{call:?} ended without its answer"),
                () = rule.fired() => {}
            }
        }
        // It is gone, and what it asked for is still on its way.
        had_quickly(&other, &(call, held)).await;
        rule.release();
        had_quickly(&other, &(call, held)).await;
        had_quickly(&mutex, &(call, held)).await;
        // A late copy may have run after all; it is found and undone.
        tokio::time::sleep(limit).await;
        stage.nothing_left().await;
        assert_eq!(keeper.close().await.unconfirmed, Vec::<String>::new());
    }
}

async fn a_call_dropped_before_its_held_reply_leaves_nothing(layout: Layout) {
    drop_while_held(&Stage::new(layout), Held::Reply).await;
}

async fn a_call_dropped_before_its_held_request_leaves_nothing(layout: Layout) {
    drop_while_held(&Stage::new(layout), Held::Request).await;
}

/// The grant to a waiter, or its way back, is kept back while the waiter goes away.
async fn a_waiter_dropped_as_it_is_granted_leaves_nothing(layout: Layout) {
    let stage = Stage::new(layout);
    let other = stage.mutex(&stage.keeper().await, "granted");
    for held in [Held::Request, Held::Reply] {
        let keeper = stage.far_keeper(ms(700)).await;
        let mutex = stage.mutex(&keeper, "granted");
        had_quickly(&mutex, &held).await;
        let guard = soon("the lock", other.lock()).await.unwrap();
        let waiter = mutex.clone();
        let waiting = tokio::spawn(async move { waiter.lock().await });
        wait_until("a subscriber", SOON, async || {
            !stage.server.pubsub_channels().await.is_empty()
        })
        .await;
        let faults = stage.proxy.on(Matcher::command("EVALSHA").when(is_acquire)).nth(1);
        let rule = match held {
            Held::Request => faults.hold_requests(),
            Held::Reply => faults.hold_replies(),
        };
        guard.unlock().await.unwrap();
        rule.fired().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        // The keeper's own connection is stuck: the grant is given back all the same.
        had_quickly(&other, &held).await;
        rule.release();
        had_quickly(&mutex, &held).await;
        stage.nothing_left().await;
        assert_eq!(keeper.close().await.unconfirmed, Vec::<String>::new());
    }
}

/// Callers that go away at random points, on few names, from two processes.
async fn many_calls_dropped_at_random_leave_nothing(layout: Layout) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let stage = Stage::new(layout);
    let keepers = [stage.far_keeper(ms(1000)).await, stage.keeper().await];
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0_u64..8 {
        let mut random = fastrand::Rng::with_seed(seed ^ task);
        let keeper = &keepers[usize::from(task % 2 == 0)];
        let lease = Lease::renewed(Duration::from_secs(30));
        let mutexes: Vec<Mutex> = (0..3)
            .map(|number| stage.mutex(keeper, &format!("storm:{number}")).lease(lease))
            .collect();
        tasks.spawn(async move {
            let mut granted = 0;
            for _ in 0..60 {
                let mutex = random.choice(&mutexes).unwrap();
                let times = random.u32(1..12);
                if let Some(guard) = dropped_after(times, mutex.lock()).await {
                    granted += 1;
                    drop(dropped_after(random.u32(1..4), guard.unwrap().unlock()).await);
                }
            }
            granted
        });
    }
    let mut granted = 0;
    while let Some(task) = soon("the storm", tasks.join_next()).await {
        granted += task.unwrap();
    }
    assert!(granted > 20, "{granted} grants prove little");
    stage.nothing_left().await;
    for keeper in &keepers {
        for number in 0..3 {
            had_quickly(&stage.mutex(keeper, &format!("storm:{number}")), &number).await;
        }
    }
    wait_until("an empty server", SOON, async || stage.lock_keys().await.is_empty()).await;
}
