//! Readers and writers take turns: neither side keeps the other out for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper::{Error, Keeper, Polling, RwLock};
use lockkeeper_testkit::wait_until;
use tokio::task::JoinHandle;

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    fifty_readers_do_not_keep_a_writer_out,
    writers_do_not_keep_a_reader_out,
    nobody_tries_past_a_writer_that_waits,
    a_writer_that_gives_up_lets_readers_in,
    a_dropped_wait_of_a_writer_lets_readers_in,
    a_reader_who_waits_goes_in_when_the_writer_has_been,
);

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn is_busy<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

/// Waits until so many writers have left a notice.
async fn notices(keeper: &Keeper, name: &str, wanted: usize) {
    wait_until("the writers' notices", SOON, async || {
        let waiting = keeper.inspect(name).await.unwrap().waiting.len();
        if waiting == wanted { Ok(()) } else { Err(waiting) }
    })
    .await;
}

/// The stated bound: once a writer's notice stands, no reader comes in before it but those whose attempt was already on its
/// way, and one round of those who had waited for more than a second.
async fn fifty_readers_do_not_keep_a_writer_out(stage: Stage) {
    const READERS: usize = 50;
    const WRITES: usize = 5;
    let keepers = [stage.keeper().await, stage.keeper().await];
    let (entered, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..READERS)
        .map(|number| {
            let lock = keepers[number % 2].rwlock("crowd");
            let (entered, over) = (Arc::clone(&entered), Arc::clone(&over));
            tokio::spawn(async move {
                // So many readers, each for so long, leave no gap by themselves.
                while !over.load(Ordering::SeqCst) {
                    let guard = lock.read().await.unwrap();
                    entered.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(ms(30)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let watcher = stage.keeper().await;
    wait_until("the crowd", SOON, async || entered.load(Ordering::SeqCst) > READERS).await;
    let lock = stage.keeper().await.rwlock("crowd");
    for write in 0..WRITES {
        let writing = tokio::spawn({
            let (lock, entered) = (lock.clone(), Arc::clone(&entered));
            async move {
                let guard = lock.write().await.unwrap();
                (entered.load(Ordering::SeqCst), guard)
            }
        });
        wait_until("a notice, or the writer itself", SOON, async || {
            writing.is_finished() || !watcher.inspect("crowd").await.unwrap().waiting.is_empty()
        })
        .await;
        let before = entered.load(Ordering::SeqCst);
        let (at_entry, guard) = soon("the writer", writing).await.unwrap();
        let passed = at_entry.saturating_sub(before);
        assert!(passed <= 2 * READERS, "{passed} readers came in before writer {write}");
        guard.unlock().await.unwrap();
        // The crowd goes on in between.
        let seen = entered.load(Ordering::SeqCst);
        wait_until("readers again", SOON, async || entered.load(Ordering::SeqCst) > seen).await;
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        soon("the end of a reader", reader).await.unwrap();
    }
}

/// Writers of several processes, one on the other's heels.
fn writers(locks: &[RwLock], over: &Arc<AtomicBool>, writes: &Arc<AtomicUsize>) -> Vec<JoinHandle<()>> {
    let writer = |lock: &RwLock| {
        let (lock, over, writes) = (lock.clone(), Arc::clone(over), Arc::clone(writes));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let guard = lock.write().await.unwrap();
                writes.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(ms(20)).await;
                guard.unlock().await.unwrap();
            }
        })
    };
    locks.iter().map(writer).collect()
}

/// The stated bound: a reader that has waited for more than a second waits for those who are in, and two writers more. What its
/// first second lets through is not counted.
async fn writers_do_not_keep_a_reader_out(stage: Stage) {
    let mut locks = Vec::new();
    for _ in 0..4 {
        let lock = stage.keeper().await.rwlock("stream");
        locks.extend([lock.clone(), lock]);
    }
    let (over, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writing = writers(&locks, &over, &writes);
    let keeper = stage.keeper().await;
    notices(&keeper, "stream", 3).await;
    let lock = keeper.rwlock("stream");
    for _ in 0..3 {
        let reading = tokio::spawn({
            let (lock, writes) = (lock.clone(), Arc::clone(&writes));
            async move {
                let guard = lock.read().await.unwrap();
                (writes.load(Ordering::SeqCst), guard)
            }
        });
        // A signal may be late on a busy machine: then it is one more round.
        let late = tokio::time::sleep(ms(1_200));
        late.await;
        let before = writes.load(Ordering::SeqCst);
        let (at_entry, guard) = soon("the reader", reading).await.unwrap();
        let passed = at_entry.saturating_sub(before);
        assert!(passed <= 12, "{passed} writers came in before the reader");
        guard.unlock().await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for writer in writing {
        soon("the end of a writer", writer).await.unwrap();
    }
}

async fn nobody_tries_past_a_writer_that_waits(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lock = first.rwlock("past");
    let reader = lock.read().await.unwrap();
    let writing = tokio::spawn({
        let lock = second.rwlock("past");
        async move { lock.write().await }
    });
    notices(&first, "past", 1).await;
    assert!(is_busy(&lock.try_read().await) && is_busy(&second.rwlock("past").try_read().await));
    assert!(is_busy(&lock.clone().wait(Duration::ZERO).read().await));
    let refused = lock.clone().wait(ms(200)).read().await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    reader.unlock().await.unwrap();
    let writer = soon("the writer", writing).await.unwrap().unwrap();
    writer.unlock().await.unwrap();
    drop(lock.try_read().await.unwrap());
}

async fn a_writer_that_gives_up_lets_readers_in(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lock = first.rwlock("given up");
    let _reader = lock.read().await.unwrap();
    let writing = tokio::spawn({
        let lock = second.rwlock("given up").wait(ms(600));
        async move { lock.write().await }
    });
    notices(&first, "given up", 1).await;
    let waiting = tokio::spawn(async move { lock.read().await });
    let refused = writing.await.unwrap();
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    drop(soon("the reader behind", waiting).await.unwrap().unwrap());
    notices(&first, "given up", 0).await;
}

async fn a_dropped_wait_of_a_writer_lets_readers_in(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lock = first.rwlock("dropped");
    let _reader = lock.read().await.unwrap();
    let writing = tokio::spawn({
        let lock = second.rwlock("dropped");
        async move { lock.write().await }
    });
    notices(&first, "dropped", 1).await;
    writing.abort();
    drop(soon("the reader behind", lock.read()).await.unwrap());
    notices(&first, "dropped", 0).await;
    assert!(is_busy(&second.rwlock("dropped").try_write().await));
}

/// Between one writer and the next it is the turn of a reader who has waited for long, and looked since.
async fn a_reader_who_waits_goes_in_when_the_writer_has_been(stage: Stage) {
    let (first, second, third) = (stage.keeper().await, stage.keeper().await, stage.keeper().await);
    let writer = first.rwlock("between").write().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let next = tokio::spawn({
        let (lock, order) = (second.rwlock("between"), Arc::clone(&order));
        async move {
            let guard = lock.write().await.unwrap();
            order.lock().unwrap().push("writer");
            guard.unlock().await.unwrap();
        }
    });
    notices(&first, "between", 1).await;
    let reader = tokio::spawn({
        let lock = third.rwlock("between").polling(Polling::every(ms(5)));
        let order = Arc::clone(&order);
        async move {
            let guard = lock.read().await.unwrap();
            order.lock().unwrap().push("reader");
            guard.unlock().await.unwrap();
        }
    });
    // That is how long it must have waited.
    tokio::time::sleep(ms(1_300)).await;
    writer.unlock().await.unwrap();
    soon("the reader", reader).await.unwrap();
    soon("the next writer", next).await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["reader", "writer"]);
}
