//! At most one run in a period: `at least` and `at most` hold, whatever ends the run.

use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, LossReason, Periodic, Unlocked};

use super::stage::{SOON, soon};
use super::{Stage, on_every_stage};

on_every_stage!(
    a_run_keeps_others_out_for_its_least_time,
    a_run_longer_than_its_least_time_frees_at_once,
    one_of_many_begins,
    a_dropped_run_rests_and_so_does_cancelled_work,
    a_run_beyond_its_most_time_is_cancelled_and_rests_all_the_same,
    a_renewed_run_rests_too,
    nothing_of_the_old_run_touches_the_rest,
    a_rest_is_ended_by_force_alone,
    a_run_that_is_taken_back_counts_as_none,
    who_waits_begins_when_the_rest_is_over,
    a_closing_keeper_lays_to_rest,
    bad_times_and_other_kinds_are_told,
    threads_run_once_too,
);

const LEAST: Duration = Duration::from_millis(700);

fn periodic(stage: &Stage, keeper: &Keeper, name: &str) -> Periodic {
    keeper.periodic(name).layout(stage.layout())
}

async fn is_none(what: &str, periodic: &Periodic) {
    let started = soon(what, periodic.try_start()).await.unwrap();
    assert!(started.is_none(), "{what}: {started:?}");
}

/// Waits until somebody may begin, and tells when.
async fn begin(periodic: &Periodic) -> Instant {
    let patient = periodic.clone().wait(SOON);
    let started = soon("the next run", patient.try_start()).await.unwrap();
    let began = Instant::now();
    let run = started.expect("the rest has an end");
    assert_eq!(run.unlock().await, Ok(Unlocked::Freed));
    began
}

async fn a_run_keeps_others_out_for_its_least_time(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let before = Instant::now();
    let job = periodic(&stage, &first, "job").at_least(LEAST);
    let run = job.try_start().await.unwrap().expect("nobody else is here");
    is_none("a second run", &periodic(&stage, &second, "job").at_least(LEAST)).await;
    let found = second.inspect("job").await.unwrap();
    assert_eq!((found.holders.len(), found.resting), (1, None));
    assert_eq!(run.unlock().await, Ok(Unlocked::Resting));
    let found = second.inspect("job").await.unwrap();
    assert_eq!(
        (found.kind.as_deref(), found.layout),
        (Some("mutex"), Some(stage.layout()))
    );
    assert!(found.holders.is_empty() && !found.is_held());
    assert!(found.resting.is_some_and(|left| left <= LEAST), "{found:?}");
    // Neither the process that ran, nor another, nor an ordinary lock.
    is_none("a run in the rest", &job).await;
    is_none("another's run in the rest", &periodic(&stage, &second, "job")).await;
    for keeper in [&first, &second] {
        let refused = stage.mutex(keeper, "job").try_lock().await;
        assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    }
    let next = begin(&periodic(&stage, &second, "job")).await;
    assert!(next - before >= LEAST, "{:?}", next - before);
}

async fn a_run_longer_than_its_least_time_frees_at_once(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    for least in [Duration::ZERO, Duration::from_millis(20)] {
        let job = periodic(&stage, &first, "long").at_least(least);
        let ran = job
            .run(|_| tokio::time::sleep(Duration::from_millis(60)))
            .await
            .unwrap();
        let ran = ran.expect("nobody else is here");
        assert_eq!(
            (ran.value, ran.lost, ran.release),
            (Some(()), None, Ok(Unlocked::Freed))
        );
        let guard = stage.mutex(&second, "long").try_lock().await.unwrap();
        guard.unlock().await.unwrap();
    }
}

async fn one_of_many_begins(stage: Stage) {
    let keepers = [stage.keeper().await, stage.keeper().await, stage.keeper().await];
    for round in 0..20 {
        let name = format!("round {round}");
        let tries = (0..12).map(|number| {
            let job = periodic(&stage, &keepers[number % 3], &name).at_least(SOON);
            tokio::spawn(async move { job.run(|hold| async move { hold.token() }).await })
        });
        let mut began = 0;
        for outcome in futures_util::future::join_all(tries).await {
            began += usize::from(outcome.unwrap().unwrap().is_some());
        }
        assert_eq!(began, 1, "{name}");
    }
}

async fn a_dropped_run_rests_and_so_does_cancelled_work(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let other = periodic(&stage, &second, "dropped");
    let before = Instant::now();
    let job = periodic(&stage, &first, "dropped").at_least(LEAST);
    drop(job.try_start().await.unwrap().expect("nobody else is here"));
    is_none("a run after a drop", &other).await;
    assert!(begin(&other).await - before >= LEAST);

    let before = Instant::now();
    let working = tokio::spawn(async move { job.wait(SOON).run(|_| std::future::pending::<()>()).await });
    soon("the work", async {
        while !second.inspect("dropped").await.unwrap().is_held() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    assert!(begin(&other).await - before >= LEAST);
}

async fn a_run_beyond_its_most_time_is_cancelled_and_rests_all_the_same(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let before = Instant::now();
    let job = periodic(&stage, &first, "hung").at_least(2 * LEAST).at_most(LEAST);
    let ran = soon("cancelled work", job.run(|_| std::future::pending::<()>())).await;
    let ran = ran.unwrap().expect("nobody else is here");
    assert_eq!((ran.value, ran.lost), (None, Some(LossReason::DeadlinePassed)));
    assert!(before.elapsed() < LEAST, "cancelled before the key could end");
    let next = begin(&periodic(&stage, &second, "hung")).await;
    assert!(next - before >= 2 * LEAST, "{:?}", next - before);
}

async fn a_renewed_run_rests_too(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let before = Instant::now();
    let lease = Lease::renewed(Duration::from_millis(300));
    let job = periodic(&stage, &first, "renewed").lease(lease).at_least(2 * LEAST);
    let run = job.try_start().await.unwrap().expect("nobody else is here");
    tokio::time::sleep(LEAST).await;
    assert_eq!(run.state(), HoldState::Held);
    assert_eq!(run.unlock().await, Ok(Unlocked::Resting));
    let next = begin(&periodic(&stage, &second, "renewed")).await;
    assert!(next - before >= 2 * LEAST, "{:?}", next - before);
}

async fn nothing_of_the_old_run_touches_the_rest(stage: Stage) {
    let keeper = stage.keeper().await;
    let job = periodic(&stage, &keeper, "late").at_least(SOON);
    let run = job.try_start().await.unwrap().expect("nobody else is here");
    let owner = run.owner().to_owned();
    assert_eq!(run.unlock().await, Ok(Unlocked::Resting));
    let before = keeper.inspect("late").await.unwrap().resting.expect("a rest");
    // A guard of another owner, and the process that goes away, with all that they may still send.
    is_none("a run in the rest", &job.clone().at_least(4 * SOON)).await;
    drop(job);
    keeper.close().await;
    let found = stage.keeper().await.inspect("late").await.unwrap();
    assert!(found.resting.is_some_and(|left| left <= before), "{found:?}");
    assert!(!format!("{found:?}").contains(&owner));
}

async fn a_rest_is_ended_by_force_alone(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let job = periodic(&stage, &first, "forced").at_least(SOON);
    job.run(|_| async {}).await.unwrap().expect("nobody else is here");
    assert_eq!(stage.mutex(&second, "forced").force_unlock().await, Ok(true));
    assert!(job.try_start().await.unwrap().is_some());
}

async fn a_run_that_is_taken_back_counts_as_none(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let job = periodic(&stage, &first, "taken back").at_least(SOON);
    let run = job.try_start().await.unwrap().expect("nobody else is here");
    assert_eq!(run.abandon().await, Ok(Unlocked::Freed));
    let next = periodic(&stage, &second, "taken back").try_start().await.unwrap();
    assert!(next.is_some());
}

async fn who_waits_begins_when_the_rest_is_over(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let before = Instant::now();
    let job = periodic(&stage, &first, "waited").at_least(LEAST);
    job.run(|_| async {}).await.unwrap().expect("nobody else is here");
    // An ordinary lock of another process, which hears of nothing, and learns by the time left.
    let mutex = stage.mutex(&second, "waited").wait(SOON);
    let guard = soon("the lock", mutex.lock()).await.unwrap();
    assert!(before.elapsed() >= LEAST);
    let waited = before.elapsed();
    let late = job.clone().wait(Duration::from_millis(200)).try_start().await.unwrap();
    assert!(late.is_none() && before.elapsed() - waited >= Duration::from_millis(200));
    guard.unlock().await.unwrap();
}

async fn a_closing_keeper_lays_to_rest(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let before = Instant::now();
    let run = periodic(&stage, &first, "closed")
        .at_least(LEAST)
        .try_start()
        .await
        .unwrap();
    let run = run.expect("nobody else is here");
    assert_eq!(first.close().await.freed, ["closed"]);
    assert_eq!(run.state(), HoldState::Lost(LossReason::KeeperClosed));
    assert!(begin(&periodic(&stage, &second, "closed")).await - before >= LEAST);
}

async fn bad_times_and_other_kinds_are_told(stage: Stage) {
    let keeper = stage.keeper().await;
    let day = Duration::from_secs(24 * 3600);
    let refused = keeper.periodic("a").at_least(401 * day).try_start().await;
    assert!(matches!(refused, Err(Error::Lease(_))), "{refused:?}");
    let refused = keeper.periodic("a").at_most(Duration::ZERO).try_start().await;
    assert!(matches!(refused, Err(Error::Lease(_))), "{refused:?}");
    let refused = keeper.periodic("").try_start().await;
    assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    let guard = stage.mutex(&keeper, "a").lock().await.unwrap();
    let other = match stage.layout() {
        Layout::Plain => Layout::Redisson,
        _ => Layout::Plain,
    };
    let refused = keeper.periodic("a").layout(other).try_start().await;
    assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    guard.unlock().await.unwrap();
}

async fn threads_run_once_too(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let layout = stage.layout();
    let work = move || {
        let (first, second) = (
            lockkeeper::blocking::Keeper::from(first),
            lockkeeper::blocking::Keeper::from(second),
        );
        let job = first.periodic("threads").layout(layout).at_least(LEAST);
        let before = Instant::now();
        let run = job.try_start().unwrap().expect("nobody else is here");
        assert_eq!((run.name(), run.state()), ("threads", HoldState::Held));
        assert!(job.try_start().unwrap().is_none(), "no re-entry");
        assert_eq!(run.unlock(), Ok(Unlocked::Resting));
        let other = second.periodic("threads").layout(layout);
        assert!(other.try_start().unwrap().is_none());
        assert!(other.wait(SOON).try_start().unwrap().is_some());
        assert!(before.elapsed() >= LEAST);
    };
    soon("the threads", tokio::task::spawn_blocking(work)).await.unwrap();
}
