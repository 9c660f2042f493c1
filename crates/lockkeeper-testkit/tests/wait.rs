//! Waiting by real time.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use lockkeeper_testkit::real_time::{self, timeout};
use lockkeeper_testkit::{boot_time_ns, wait_until};

/// The panic message of a wait, run on a runtime whose clock is paused.
fn failure(wait: impl Future<Output = ()>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(wait)));
    *caught.unwrap_err().downcast::<String>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_state_is_waited_for_in_real_time_while_the_clock_stands() {
    let start = Instant::now();
    let virtual_start = tokio::time::Instant::now();
    let seen = wait_until("some time", Duration::from_secs(10), async || {
        let passed = start.elapsed();
        if passed >= Duration::from_millis(30) {
            Ok(passed)
        } else {
            Err(passed)
        }
    })
    .await;
    assert!(seen >= Duration::from_millis(30));
    assert_eq!(virtual_start.elapsed(), Duration::ZERO);
}

#[test]
fn a_state_that_never_comes_is_described_with_what_was_seen() {
    let text = failure(async {
        wait_until("five apples", Duration::from_millis(20), async || {
            Err::<(), _>("3 apples")
        })
        .await;
    });
    assert!(
        text.contains("five apples") && text.contains("3 apples") && text.contains("20ms"),
        "{text}"
    );
}

#[test]
fn a_look_that_hangs_counts_against_the_limit() {
    let text = failure(async {
        wait_until("an answer", Duration::from_millis(20), async || {
            std::future::pending::<bool>().await
        })
        .await;
    });
    assert!(text.contains("an answer") && text.contains("did not end"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn real_limits_hold_and_sleeps_end_in_order() {
    let start = Instant::now();
    assert!(
        timeout(Duration::from_millis(20), std::future::pending::<()>())
            .await
            .is_err()
    );
    assert!(start.elapsed() >= Duration::from_millis(20));
    let (long, short) = (
        real_time::sleep(Duration::from_millis(60)),
        real_time::sleep(Duration::from_millis(5)),
    );
    let (mut long, mut short) = (std::pin::pin!(long), std::pin::pin!(short));
    tokio::select! {
        () = &mut long => panic!("the longer sleep ended first"),
        () = &mut short => {}
    }
    long.await;
}

#[test]
fn the_boot_clock_runs_with_real_time() {
    let (clock, stamp) = (Instant::now(), boot_time_ns());
    std::thread::sleep(Duration::from_millis(5));
    let (passed, counted) = (clock.elapsed(), boot_time_ns() - stamp);
    assert!(counted >= 5_000_000 && Duration::from_nanos(counted) < passed + Duration::from_secs(5));
}
