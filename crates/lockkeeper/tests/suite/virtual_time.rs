//! The embedded engine honours tokio's paused clock: hours pass in no time, and nothing sleeps for real.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::{Error, HoldState, Keeper, LatchEnd, Lease, LossReason, Polling, Unlocked};
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_renewed_hold_lives_through_hours_and_a_fixed_one_does_not() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let renewed = keeper.mutex("renewed").lock().await.unwrap();
    let fixed = keeper
        .mutex("fixed")
        .lease(Lease::fixed(60 * SECOND))
        .lock()
        .await
        .unwrap();
    advance(5 * 3600 * SECOND).await;
    assert_eq!(renewed.state(), HoldState::Held);
    assert!(renewed.remaining() > 18 * SECOND);
    assert_eq!(fixed.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert!(matches!(
        other.mutex("renewed").try_lock().await,
        Err(Error::Busy { .. })
    ));
    assert!(other.mutex("fixed").try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_holder_stops_before_the_key_expires() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let guard = keeper
        .mutex("margin")
        .lease(Lease::fixed(10 * SECOND))
        .lock()
        .await
        .unwrap();
    let started = Instant::now();
    let lost = guard.lost();
    let waiting = tokio::spawn(async move {
        let _guard = other.mutex("margin").lock().await.unwrap();
        started.elapsed()
    });
    assert_eq!(lost.await, LossReason::DeadlinePassed);
    let stopped = started.elapsed();
    let taken = waiting.await.unwrap();
    // A second of margin and 102 ms of drift lie between the two.
    assert!(
        stopped >= Duration::from_millis(8897) && stopped <= Duration::from_millis(8900),
        "{stopped:?}"
    );
    assert!(
        taken >= 10 * SECOND && taken <= Duration::from_millis(10_003),
        "{taken:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_takes_exactly_its_budget() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let _guard = keeper.mutex("budget").lock().await.unwrap();
    for mutex in [keeper.mutex("budget"), other.mutex("budget")] {
        let started = Instant::now();
        let refused = mutex.wait(90 * SECOND).lock().await;
        assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
        let waited = started.elapsed();
        assert!(
            waited >= 90 * SECOND && waited < 90 * SECOND + Duration::from_millis(3),
            "{waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_hold_is_kept_to() {
    let keeper = Keeper::embedded();
    let guard = keeper.mutex("hung").longest_hold(100 * SECOND).lock().await.unwrap();
    let started = Instant::now();
    assert_eq!(guard.lost().await, LossReason::LongestHoldReached);
    assert!(started.elapsed() >= 100 * SECOND && started.elapsed() < 101 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn polling_pauses_as_it_was_told() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let _guard = keeper.mutex("polled").lock().await.unwrap();
    let started = Instant::now();
    let polling = Polling::every(10 * SECOND).attempts(4);
    let refused = other.mutex("polled").polling(polling).lock().await;
    assert!(
        matches!(refused, Err(Error::AttemptsUsedUp { attempts: 4, .. })),
        "{refused:?}"
    );
    // Three pauses, each with up to a tenth of jitter.
    assert!(
        started.elapsed() >= 30 * SECOND && started.elapsed() <= 34 * SECOND,
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn work_is_cancelled_at_the_deadline_and_its_value_kept_before() {
    let keeper = Keeper::embedded();
    let mutex = keeper.mutex("work").lease(Lease::fixed(10 * SECOND));
    let started = Instant::now();
    let ran = mutex.run(|_| tokio::time::sleep(60 * SECOND)).await.unwrap();
    assert_eq!((ran.value, ran.lost), (None, Some(LossReason::DeadlinePassed)));
    assert!(started.elapsed() < 10 * SECOND);
    let ran = mutex
        .run(|_| async { tokio::time::sleep(5 * SECOND).await })
        .await
        .unwrap();
    assert_eq!((ran.value, ran.lost), (Some(()), None));
}

/// An inner guard that outlives its name's other users, local waiters, a lost holder: each ends at the right virtual moment.
#[tokio::test(start_paused = true)]
async fn local_waiters_take_over_when_the_holders_lease_ends() {
    let keeper = Keeper::embedded();
    let mutex = keeper.mutex("takeover").lease(Lease::fixed(10 * SECOND));
    let guard = mutex.lock().await.unwrap();
    let started = Instant::now();
    let next = mutex.lock().await.unwrap();
    assert!(
        started.elapsed() >= 10 * SECOND && started.elapsed() < 11 * SECOND,
        "{:?}",
        started.elapsed()
    );
    assert!(next.token() > guard.token());
    assert!(matches!(
        guard.unlock().await,
        Err(Error::Lost(LossReason::DeadlinePassed))
    ));
    assert_eq!(next.state(), HoldState::Held);
}

/// Three machines look every ten minutes whether the nightly job is to be done: it is done once a day, for ten days.
#[tokio::test(start_paused = true)]
async fn a_fleet_does_a_daily_job_once_a_day() {
    const MINUTE: Duration = Duration::from_secs(60);
    let first = Keeper::embedded();
    let began = Instant::now();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let machines = (0..3).map(|machine| {
        let keeper = first.embedded_peer().unwrap();
        let runs = Arc::clone(&runs);
        tokio::spawn(async move {
            let job = keeper
                .periodic("nightly")
                .at_least(24 * 60 * MINUTE)
                .at_most(90 * MINUTE);
            // Not in step, and not for the whole of the last day.
            tokio::time::sleep(machine * 3 * MINUTE).await;
            while began.elapsed() < 10 * 24 * 60 * MINUTE - 30 * MINUTE {
                let ran = job.run(async |_| {
                    runs.lock().unwrap().push(began.elapsed());
                    tokio::time::sleep(machine * 20 * MINUTE).await;
                });
                if let Some(ran) = ran.await.unwrap() {
                    assert_eq!((ran.value, ran.lost), (Some(()), None));
                }
                tokio::time::sleep(10 * MINUTE).await;
            }
        })
    });
    for machine in machines.collect::<Vec<_>>() {
        machine.await.unwrap();
    }
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), 10, "{runs:?}");
    for pair in runs.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(
            apart >= 24 * 60 * MINUTE && apart <= 24 * 60 * MINUTE + 10 * MINUTE,
            "{runs:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_costs_its_most_time_and_no_more() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let job = |keeper: &Keeper| {
        keeper
            .periodic("dies")
            .at_least(24 * 3600 * SECOND)
            .at_most(3600 * SECOND)
    };
    let began = Instant::now();
    // Nobody will ever say that it has ended.
    let _dead = std::mem::ManuallyDrop::new(job(&keeper).try_start().await.unwrap().unwrap());
    advance(3599 * SECOND).await;
    assert!(job(&other).try_start().await.unwrap().is_none());
    let next = job(&other).wait(3600 * SECOND).try_start().await.unwrap();
    assert!(next.is_some());
    let waited = began.elapsed();
    assert!(waited >= 3600 * SECOND && waited < 3601 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rest_ends_to_the_millisecond() {
    let keeper = Keeper::embedded();
    let job = keeper.periodic("exact").at_least(20 * 3600 * SECOND);
    let ran = job.run(|_| tokio::time::sleep(1800 * SECOND)).await.unwrap().unwrap();
    assert_eq!(ran.release, Ok(Unlocked::Resting));
    let left = keeper.inspect("exact").await.unwrap().resting.unwrap();
    let expected = 20 * 3600 * SECOND - 1800 * SECOND;
    assert!(left.abs_diff(expected) <= Duration::from_millis(2), "{left:?}");
    advance(left - Duration::from_millis(3)).await;
    assert!(job.try_start().await.unwrap().is_none());
    advance(Duration::from_millis(4)).await;
    assert!(job.try_start().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_leader_leads_through_hours_and_its_successor_comes_with_the_end_of_its_lease() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let leadership = keeper.election("scheduler").candidate("one").campaign().await.unwrap();
    let mut observation = other.election("scheduler").observe();
    assert_eq!(observation.changed().await.unwrap().unwrap().candidate, "one");
    advance(7 * 3600 * SECOND).await;
    assert_eq!(leadership.state(), HoldState::Held);
    assert!(
        tokio::time::timeout(3600 * SECOND, observation.changed())
            .await
            .is_err()
    );
    // It dies without a word: its lease of 30 seconds is all that keeps others out.
    let last = Instant::now();
    let fixed = keeper.election("fixed").lease(Lease::fixed(30 * SECOND));
    let _dead = std::mem::ManuallyDrop::new(fixed.campaign().await.unwrap());
    let mut observation = other.election("fixed").observe();
    assert!(observation.changed().await.unwrap().is_some());
    assert_eq!(observation.changed().await, Ok(None));
    let gone = last.elapsed();
    assert!(gone >= 30 * SECOND && gone < 31 * SECOND, "{gone:?}");
    assert!(other.election("fixed").try_campaign().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_latch_costs_nothing_while_nothing_happens() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    other.latch("quiet").try_set_count(1).await.unwrap();
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let latch = keeper.latch("quiet");
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    tokio::time::sleep(SECOND).await;
    let looked = keeper.round_trips();
    tokio::time::sleep(25 * SECOND).await;
    assert_eq!(keeper.round_trips(), looked, "no look, no poll");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(keeper.round_trips(), looked + 10, "one re-check each");
    other.latch("quiet").count_down().await.unwrap();
    for wait in waits {
        assert_eq!(wait.await.unwrap(), Ok(LatchEnd::Open));
    }
}

#[tokio::test(start_paused = true)]
async fn renewed_permits_live_through_hours_and_fixed_ones_come_back_on_time() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    let semaphore = keeper.semaphore("permits");
    semaphore.try_set_permits(3).await.unwrap();
    let renewed = semaphore.acquire_many(2).await.unwrap();
    advance(5 * 3600 * SECOND).await;
    assert_eq!(renewed.state(), HoldState::Held);
    assert_eq!(semaphore.acquired_permits().await, Ok(2));
    let fixed = semaphore
        .clone()
        .lease(Lease::fixed(10 * SECOND))
        .acquire()
        .await
        .unwrap();
    let started = Instant::now();
    // Nobody says anything when a permit ends: the waiter was told when that is.
    let got = other.semaphore("permits").acquire().await.unwrap();
    let waited = started.elapsed();
    assert!(
        waited >= 10 * SECOND && waited <= 10 * SECOND + Duration::from_millis(3),
        "{waited:?}"
    );
    assert_eq!(fixed.state(), HoldState::Lost(LossReason::DeadlinePassed));
    assert_eq!(semaphore.acquired_permits().await, Ok(3));
    drop((renewed, fixed, got));
    assert_eq!(semaphore.available_permits().await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_permits_looks_no_sooner_than_it_must() {
    let keeper = Keeper::embedded();
    let other = keeper.embedded_peer().unwrap();
    keeper.counting_semaphore("plain").try_set_permits(0).await.unwrap();
    let waiting = tokio::spawn(async move {
        let got = other.counting_semaphore("plain").acquire(1).await;
        (got, other.round_trips())
    });
    tokio::time::sleep(25 * SECOND).await;
    keeper.counting_semaphore("plain").release(1).await.unwrap();
    let (got, asked) = waiting.await.unwrap();
    assert_eq!(got, Ok(()));
    // Steps of the engine that both share: set, first attempt, the one after subscribing, release, the last attempt.
    assert!(asked <= 5, "{asked}");
}
