//! Which clock decides: the holder's own, which counts sleep, and the server's. Never a wall clock.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper::{Error, HoldState, Keeper, Layout, Lease, LossReason, Unlocked};
use lockkeeper_testkit::wait_until;
use redis::cmd;

use super::in_both_layouts;
use super::stage::{SOON, Stage, SteeredClock, ms, soon};

in_both_layouts!(
    a_machine_that_slept_has_lost_its_holds,
    a_restored_machine_learns_that_its_hold_is_over,
    a_slow_clock_stays_inside_the_servers_interval,
    clocks_of_clients_may_differ_by_hours,
);

async fn steered(stage: &Stage, clock: &SteeredClock) -> Keeper {
    let builder = Keeper::builder().clock(clock.clone());
    builder.connect(&stage.server.url()).await.unwrap()
}

async fn a_machine_that_slept_has_lost_its_holds(layout: Layout) {
    let stage = Stage::new(layout);
    let clock = SteeredClock::running();
    let keeper = steered(&stage, &clock).await;
    let renewed = stage.mutex(&keeper, "renewed").lock().await.unwrap();
    let fixed = stage
        .mutex(&keeper, "fixed")
        .lease(Lease::fixed(Duration::from_secs(600)))
        .lock()
        .await
        .unwrap();
    let running = stage.mutex(&keeper, "running");
    let (started, is_started) = tokio::sync::oneshot::channel();
    let work = tokio::spawn(async move {
        let ran = running.run(|_| async move {
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        ran.await.unwrap()
    });
    soon("the work", is_started).await.unwrap();
    let lost = [tokio::spawn(renewed.lost()), tokio::spawn(fixed.lost())];
    tokio::task::yield_now().await;

    // The boot clock moves an hour while the monotonic one, and with it every timer, stood still.
    clock.put_forward(Duration::from_secs(3600));
    let woken = Instant::now();
    for guard in [&renewed, &fixed] {
        assert_eq!(guard.state(), HoldState::Lost(LossReason::DeadlinePassed));
        assert_eq!(guard.remaining(), Duration::ZERO);
    }
    for lost in lost {
        assert_eq!(soon("the loss", lost).await.unwrap(), LossReason::DeadlinePassed);
    }
    let ran = soon("the end of the work", work).await.unwrap();
    assert_eq!((ran.value, ran.lost), (None, Some(LossReason::DeadlinePassed)));
    assert!(
        woken.elapsed() < Duration::from_secs(4),
        "told after {:?}",
        woken.elapsed()
    );
    assert_eq!(renewed.unlock().await, Err(Error::Lost(LossReason::DeadlinePassed)));
    drop(fixed);
    stage.nothing_left().await;
}

async fn a_restored_machine_learns_that_its_hold_is_over(layout: Layout) {
    let stage = Stage::new(layout);
    let clock = SteeredClock::running();
    let keeper = steered(&stage, &clock).await;
    let other = stage.mutex(&stage.keeper().await, "restored");
    let mutex = stage.mutex(&keeper, "restored").lease(Lease::renewed(ms(900)));
    let guard = mutex.lock().await.unwrap();
    // The machine's snapshot: its clock stands, the server's goes on.
    clock.stop();
    let next = soon("the next holder", other.lock()).await.unwrap();
    assert_eq!(
        guard.state(),
        HoldState::Held,
        "no clock can tell: only the token protects here"
    );
    assert!(next.token() > guard.token());
    clock.go_on();
    assert_eq!(soon("the loss", guard.lost()).await, LossReason::GoneOnServer);
    assert_eq!(guard.unlock().await, Err(Error::Lost(LossReason::GoneOnServer)));
    assert_eq!(next.state(), HoldState::Held, "the other's hold is left alone");
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}

/// When the key expires on the server, in microseconds of the machine's time.
async fn expires_at(stage: &Stage, key: &str) -> u64 {
    let script = "local t = redis.call('TIME') \
                  return t[1] * 1000000 + math.floor(t[2] / 1000) * 1000 + redis.call('PTTL', KEYS[1]) * 1000";
    stage.server.query(cmd("EVAL").arg(script).arg(1).arg(key)).await
}

fn wall_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

async fn a_slow_clock_stays_inside_the_servers_interval(layout: Layout) {
    let stage = Stage::new(layout);
    // With the margin two clocks may run apart by more than the hundredth that drift alone covers.
    for (pace, margin) in [(980_000_u64, None), (990_000, Some(Duration::ZERO))] {
        let clock = SteeredClock::with_pace(pace);
        let keeper = steered(&stage, &clock).await;
        for lease in [ms(100), ms(1000), ms(9000)] {
            let name = format!("drift:{pace}:{}", lease.as_millis());
            let mut mutex = stage.mutex(&keeper, &name).lease(Lease::fixed(lease));
            if let Some(margin) = margin {
                mutex = mutex.margin(margin);
            }
            let guard = mutex.lock().await.unwrap();
            // Each sample is an upper bound of the moment at which the holder stops to believe.
            let believed_until = (0..50)
                .map(|_| {
                    let remaining = u64::try_from(guard.remaining().as_micros()).unwrap();
                    assert!(remaining > 0, "sampled too late");
                    wall_clock() + remaining * 1_000_000 / pace
                })
                .min()
                .unwrap();
            let expires = expires_at(&stage, &name).await;
            assert!(
                believed_until <= expires,
                "believed {} us too long with a lease of {lease:?} at {pace}",
                believed_until - expires
            );
            drop(guard);
        }
    }
}

async fn clocks_of_clients_may_differ_by_hours(layout: Layout) {
    let stage = Stage::new(layout);
    let (early, late) = (SteeredClock::running(), SteeredClock::running());
    late.put_forward(Duration::from_secs(180));
    let (first, second) = (steered(&stage, &early).await, steered(&stage, &late).await);
    let lease = Lease::renewed(Duration::from_secs(120));
    let guard = stage.mutex(&first, "hours").lease(lease).lock().await.unwrap();
    let second = stage.mutex(&second, "hours");
    for hours in [0, 1, 24] {
        late.put_forward(Duration::from_secs(hours * 3600));
        assert!(matches!(second.try_lock().await, Err(Error::Busy { .. })));
        let refused = second.clone().wait(ms(100)).lock().await;
        assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    }
    assert_eq!(guard.state(), HoldState::Held);
    let waiting = tokio::spawn(async move { second.lock().await });
    wait_until("a subscriber", SOON, async || {
        !stage.server.pubsub_channels().await.is_empty()
    })
    .await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let next = soon("the waiter", waiting).await.unwrap().unwrap();
    assert_eq!(next.state(), HoldState::Held);
}

/// No part of the library reads a wall clock, but for the embedded engine: it is the server, and its time begins with one
/// look at it, so that tokens rise across restarts.
#[test]
fn the_library_reads_no_wall_clock() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    let mut looks = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Unit tests may read what they like.
                if !path.ends_with("tests") {
                    folders.push(path);
                }
                continue;
            }
            if path.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for forbidden in [
                "SystemTime::now",
                "UNIX_EPOCH.elapsed",
                "ClockId::Realtime",
                "OffsetDateTime",
                "Utc::now",
            ] {
                looks.extend(text.matches(forbidden).map(|_| (path.clone(), forbidden)));
            }
        }
    }
    assert!(files > 30, "the sources were looked through: {files}");
    looks.sort();
    // The embedded engine's server time begins there, and the doctor compares the wall clock with the server's: that decides
    // nothing.
    let allowed = ["engine/embedded/mod.rs", "engine/redis/diagnosis/facts.rs"];
    assert_eq!(looks.len(), allowed.len(), "{looks:?}");
    for (look, allowed) in looks.iter().zip(allowed) {
        assert!(look.0.ends_with(allowed), "{looks:?}");
    }
}
