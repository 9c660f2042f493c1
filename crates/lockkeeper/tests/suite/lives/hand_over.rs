//! Hand-over between callers of one process: fast, bounded, and invisible otherwise.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockkeeper::{
    Error, HoldState, Keeper, KeeperBuilder, Layout, Lease, LossReason, Mutex, MutexGuard, Polling, Unlocked,
};
use lockkeeper_testkit::{Matcher, wait_until};

use super::in_both_layouts;
use super::stage::{Stage, SteeredClock, ms, soon};
use crate::scripts::{is_acquire, is_release};

in_both_layouts!(
    the_budget_ends_by_time,
    the_budget_ends_by_count,
    a_block_of_tokens_stays_within_the_floor,
    each_local_guard_has_its_whole_fixed_lease,
    a_hold_lost_by_deadline_is_not_handed_over,
    a_hold_gone_on_the_server_is_not_handed_over,
    a_doubtful_hold_is_not_handed_over,
    another_process_gets_in_under_a_hot_queue,
    a_try_after_a_drop_waits_for_the_slow_release,
    a_line_behind_a_busy_first_attempt_is_not_forgotten,
);

type Locking<'a> = Pin<Box<dyn Future<Output = Result<MutexGuard, Error>> + 'a>>;

/// Takes a place in line without waiting for the lock.
fn in_line(mutex: &Mutex) -> Locking<'_> {
    let mut locking: Locking<'_> = Box::pin(mutex.lock());
    let polled = locking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "the lock is held");
    locking
}

/// A process whose clock stands, with a hold whose block of tokens was asked for with callers waiting.
struct Turns {
    stage: Stage,
    keeper: Keeper,
    clock: SteeredClock,
    mutex: Mutex,
}

impl Turns {
    async fn new(layout: Layout, builder: KeeperBuilder, lease: Lease) -> Self {
        let stage = Stage::new(layout);
        let clock = SteeredClock::running();
        clock.stop();
        let builder = builder.clock(clock.clone());
        let keeper = builder.connect(&stage.server.url()).await.unwrap();
        let mutex = stage.mutex(&keeper, "turns").lease(lease);
        Self {
            stage,
            keeper,
            clock,
            mutex,
        }
    }

    /// The first holder, with `waiting` others behind it. The first hold had nobody waiting, so it is given back.
    async fn begin(&self, waiting: usize) -> (MutexGuard, Vec<Locking<'_>>) {
        let lone = soon("the first lock", self.mutex.lock()).await.unwrap();
        let mut line: Vec<Locking<'_>> = (0..=waiting).map(|_| in_line(&self.mutex)).collect();
        assert_eq!(lone.unlock().await, Ok(Unlocked::Freed));
        let first = soon("the first of the line", line.remove(0)).await.unwrap();
        (first, line)
    }

    /// Last token, first token and size of the block on the server.
    async fn block(&self) -> (u64, u64, u64) {
        let record: String = self.stage.ask(&["GET", "lockkeeper_token:{turns}"]).await;
        let numbers: Vec<u64> = record.split(' ').take(3).map(|text| text.parse().unwrap()).collect();
        (numbers[0], numbers[1], numbers[2])
    }
}

fn long_lease() -> Lease {
    Lease::renewed(Duration::from_secs(60))
}

async fn the_budget_ends_by_time(layout: Layout) {
    let builder = Keeper::builder().turn_budget(ms(20), 1_000_000);
    let turns = Turns::new(layout, builder, long_lease()).await;
    let (first, mut line) = turns.begin(2).await;
    let (owner, token) = (first.owner().to_owned(), first.token().get());
    turns.clock.put_forward(ms(5));
    assert_eq!(first.unlock().await, Ok(Unlocked::PassedOn));
    let second = soon("the second", line.remove(0)).await.unwrap();
    assert_eq!(second.owner(), owner, "the same hold");
    assert_eq!(second.token().get(), token + 1);
    turns.clock.put_forward(ms(16));
    assert_eq!(second.unlock().await, Ok(Unlocked::Freed), "the time is over");
    let third = soon("the third", line.remove(0)).await.unwrap();
    assert_ne!(third.owner(), owner);
    assert!(third.token().get() > token + 1);
}

async fn the_budget_ends_by_count(layout: Layout) {
    let builder = Keeper::builder().turn_budget(Duration::from_secs(10), 3);
    let turns = Turns::new(layout, builder, long_lease()).await;
    let (mut guard, line) = turns.begin(6).await;
    let before = turns.keeper.round_trips();
    let mut owners = vec![(guard.owner().to_owned(), guard.token())];
    let mut unlocked = Vec::new();
    for next in line {
        unlocked.push(guard.unlock().await.unwrap());
        guard = soon("the next", next).await.unwrap();
        owners.push((guard.owner().to_owned(), guard.token()));
    }
    use Unlocked::{Freed, PassedOn};
    assert_eq!(unlocked, [PassedOn, PassedOn, Freed, PassedOn, PassedOn, Freed]);
    assert!(owners.is_sorted_by_key(|(_, token)| *token));
    let runs: Vec<usize> = owners.chunk_by(|one, next| one.0 == next.0).map(<[_]>::len).collect();
    assert_eq!(runs, [3, 3, 1]);
    assert_eq!(
        turns.keeper.round_trips() - before,
        4,
        "a release and an acquire for each run"
    );
}

async fn a_block_of_tokens_stays_within_the_floor(layout: Layout) {
    let budgets = [
        (Keeper::builder(), 1500),
        (Keeper::builder().turn_budget(ms(1), 4000), 1000),
        (Keeper::builder().turn_budget(Duration::from_secs(1), 5), 5),
        (Keeper::builder().hand_over(false), 1),
    ];
    for (builder, expected) in budgets {
        let turns = Turns::new(layout, builder, long_lease()).await;
        let lone = turns.mutex.lock().await.unwrap();
        assert_eq!(turns.block().await.2, 1, "nobody waits");
        lone.unlock().await.unwrap();
        let (first, mut line) = turns.begin(1).await;
        let (last, start, size) = turns.block().await;
        assert_eq!(size, expected);
        assert_eq!((first.token().get(), last), (start, start + size - 1));
        let unlocked = first.unlock().await.unwrap();
        assert_eq!(unlocked == Unlocked::PassedOn, expected > 1);
        let second = soon("the second", line.remove(0)).await.unwrap();
        if expected > 1 {
            assert_eq!(second.token().get(), start + 1);
        } else {
            assert!(second.token().get() > last, "the next grant is above the block");
        }
        second.unlock().await.unwrap();
        // Whatever is left of a block ends with its hold.
        let after = turns.mutex.lock().await.unwrap();
        assert!(after.token().get() > last);
        drop(after);
    }
}

async fn each_local_guard_has_its_whole_fixed_lease(layout: Layout) {
    let lease = Duration::from_secs(5);
    let trusted = lease - lease / 100 - ms(2) - lease / 10;
    let builder = Keeper::builder().turn_budget(ms(50), 100);
    let turns = Turns::new(layout, builder, Lease::fixed(lease)).await;
    let (first, line) = turns.begin(3).await;
    let started = first.remaining();
    assert_eq!(started, trusted + ms(50), "the lease and the time of the turns");
    let mut guard = first;
    for (index, next) in (1..).zip(line) {
        turns.clock.put_forward(ms(15));
        assert_eq!(guard.unlock().await, Ok(Unlocked::PassedOn));
        guard = soon("the next", next).await.unwrap();
        let remaining = guard.remaining();
        assert!(remaining >= trusted, "{index}: {remaining:?} of {trusted:?}");
        assert_eq!(remaining, started - ms(15) * index, "a hand-over moves no deadline");
    }
    // The key lives as much longer as the clocks may run apart in the time of the turns.
    assert!(turns.stage.left("turns").await <= 5051);
}

async fn a_hold_lost_by_deadline_is_not_handed_over(layout: Layout) {
    let builder = || Keeper::builder().turn_budget(Duration::from_secs(7200), 100);
    for dropped in [false, true] {
        let turns = Turns::new(layout, builder(), Lease::renewed(ms(1500))).await;
        let (first, mut line) = turns.begin(1).await;
        let (owner, token) = (first.owner().to_owned(), first.token());
        turns.clock.put_forward(Duration::from_secs(3600));
        if dropped {
            drop(first);
        } else {
            assert_eq!(first.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
        }
        let second = soon("the second", line.remove(0)).await.unwrap();
        assert_ne!(second.owner(), owner, "a new hold, asked for anew");
        assert!(second.token() > token);
        assert_eq!(second.state(), HoldState::Held);
        assert_eq!(turns.stage.holder("turns").await.as_deref(), Some(second.owner()));
    }
}

async fn a_hold_gone_on_the_server_is_not_handed_over(layout: Layout) {
    let builder = Keeper::builder().turn_budget(Duration::from_secs(7200), 100);
    let turns = Turns::new(layout, builder, Lease::renewed(ms(900))).await;
    let (first, mut line) = turns.begin(1).await;
    let owner = first.owner().to_owned();
    let _: () = turns.stage.ask(&["DEL", "turns"]).await;
    // To the next renewal.
    turns.clock.put_forward(ms(301));
    assert_eq!(soon("the loss", first.lost()).await, LossReason::GoneOnServer);
    assert_eq!(first.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
    let second = soon("the second", line.remove(0)).await.unwrap();
    assert_ne!(second.owner(), owner);
    assert_eq!(turns.stage.holder("turns").await.as_deref(), Some(second.owner()));
}

async fn a_doubtful_hold_is_not_handed_over(layout: Layout) {
    let builder = Keeper::builder().turn_budget(Duration::from_secs(7200), 100);
    let turns = Turns::new(layout, builder, long_lease()).await;
    let (first, mut line) = turns.begin(1).await;
    let owner = first.owner().to_owned();
    // Past the time at which a renewal should have come.
    turns.stage.server.freeze();
    turns.clock.put_forward(Duration::from_secs(35));
    assert_eq!(first.state(), HoldState::Doubtful);
    let unlocking = first.unlock();
    let thawing = async {
        tokio::time::sleep(ms(100)).await;
        turns.stage.server.thaw();
    };
    let (unlocked, ()) = tokio::join!(unlocking, thawing);
    assert_ne!(unlocked, Ok(Unlocked::PassedOn));
    let second = soon("the second", line.remove(0)).await.unwrap();
    assert_ne!(second.owner(), owner);
}

async fn another_process_gets_in_under_a_hot_queue(layout: Layout) {
    for budget in [(ms(20), 1_000_000), (Duration::from_secs(10), 200)] {
        let stage = Stage::new(layout);
        let builder = Keeper::builder().turn_budget(budget.0, budget.1);
        let hot = builder.connect(&stage.server.url()).await.unwrap();
        let other = stage.mutex(&stage.keeper().await, "hot");
        let over = Arc::new(AtomicBool::new(false));
        let passed_on = Arc::new(AtomicU64::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let (mutex, over) = (stage.mutex(&hot, "hot"), Arc::clone(&over));
            let passed_on = Arc::clone(&passed_on);
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let guard = mutex.lock().await.unwrap();
                    tokio::task::yield_now().await;
                    if guard.unlock().await == Ok(Unlocked::PassedOn) {
                        passed_on.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut waits = Vec::new();
        // So many turns of the other, and so many hand-overs that there was something to get under.
        for _ in 0..200 {
            if waits.len() >= 20 && passed_on.load(Ordering::Relaxed) > 50 {
                break;
            }
            let started = Instant::now();
            let guard = soon("the lock under a hot queue", other.lock()).await.unwrap();
            waits.push(started.elapsed());
            guard.unlock().await.unwrap();
        }
        over.store(true, Ordering::Relaxed);
        while let Some(task) = soon("the end of the hot tasks", tasks.join_next()).await {
            task.unwrap();
        }
        waits.sort();
        let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
        println!("{budget:?}: median {median:?}, worst {worst:?}");
        let passed_on = passed_on.load(Ordering::Relaxed);
        assert!(
            passed_on > 50,
            "{budget:?}: the queue was not hot, {passed_on} hand-overs; {waits:?}"
        );
        assert!(median < ms(150), "{waits:?}");
        assert!(worst < ms(2000), "{waits:?}");
    }
}

async fn a_try_after_a_drop_waits_for_the_slow_release(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let mutex = stage.mutex(&keeper, "tried");
    let slow = stage
        .proxy
        .on(Matcher::command("EVALSHA").when(is_release))
        .delay_requests(ms(40));
    for round in 0..10 {
        let guard = mutex.try_lock().await;
        drop(guard.unwrap_or_else(|error| panic!("round {round}: {error}")));
    }
    assert!(slow.times_fired() >= 9);
}

/// The first caller's own attempt is under way when others line up behind it; then it is told "busy", and waits with them
/// or gives up.
async fn a_line_behind_a_busy_first_attempt_is_not_forgotten(layout: Layout) {
    let stage = Stage::new(layout);
    let holder = stage.mutex(&stage.keeper().await, "line");
    for patient in [true, false] {
        let keeper = stage.far_keeper(ms(2000)).await;
        let mutex = stage.mutex(&keeper, "line");
        mutex.lock().await.unwrap().unlock().await.unwrap();
        let guard = holder.lock().await.unwrap();
        let acquires = Matcher::command("EVALSHA").when(is_acquire);
        let held = stage.proxy.on(acquires).nth(1).hold_replies();
        let first = if patient {
            mutex.clone()
        } else {
            mutex.clone().polling(Polling::every(ms(10)).attempts(1))
        };
        let mut first = Box::pin(first.lock());
        assert!(tokio::time::timeout(ms(10), &mut first).await.is_err());
        held.fired().await;
        let mut line: Vec<Locking<'_>> = (0..2).map(|_| in_line(&mutex)).collect();
        // The line's own task sees the attempt under way, and waits for its end.
        tokio::time::sleep(ms(50)).await;
        held.release();
        let told = Instant::now();
        if patient {
            line.insert(0, first);
            assert!(tokio::time::timeout(ms(10), &mut line[0]).await.is_err());
        } else {
            let ended = soon("the only attempt", first).await;
            assert!(
                matches!(ended, Err(Error::AttemptsUsedUp { attempts: 1, .. })),
                "{ended:?}"
            );
        }
        // The first of the line is polled again for its answer to be read.
        let listening = wait_until("a subscriber", ms(900), async || {
            !stage.server.pubsub_channels().await.is_empty()
        });
        let polled = async {
            let first = line[0].as_mut();
            tokio::time::timeout(ms(900), first).await
        };
        tokio::select! {
            () = listening => {}
            ended = polled => panic!("no subscriber in time: {ended:?}"),
        }
        guard.unlock().await.unwrap();
        for turn in line {
            soon("a turn of the line", turn).await.unwrap().unlock().await.unwrap();
        }
        assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
        stage.nothing_left().await;
    }
}
