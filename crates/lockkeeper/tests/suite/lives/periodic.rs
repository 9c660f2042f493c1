//! Runs made once in a period, by processes that race and die.

use std::time::{Duration, Instant};

use lockkeeper::Layout;
use lockkeeper_testkit::wait_until;

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms};
use super::worker::Worker;

in_both_layouts!(processes_race_and_one_begins, a_killed_run_costs_its_most_time);

async fn processes_race_and_one_begins(layout: Layout) {
    let stage = Stage::new(layout);
    let mut workers: Vec<_> = (0..3).map(|_| Worker::start(&stage.server.url(), layout)).collect();
    let least = ms(400);
    let mut last: Option<(Instant, u64)> = None;
    let mut rounds = 0;
    // All try, over and over, without any pause, and each run is over as soon as it has begun.
    while rounds < 5 {
        let before = Instant::now();
        for worker in &mut workers {
            worker.send(&format!("begin job {} 60000", least.as_millis()));
        }
        let mut begun = Vec::new();
        for worker in &mut workers {
            match worker.answer().await.as_str() {
                "none" => {}
                token => begun.push(token.parse::<u64>().unwrap()),
            }
        }
        assert!(begun.len() <= 1, "{begun:?}");
        let Some(token) = begun.pop() else { continue };
        if let Some((began, previous)) = last {
            // The run before began before its answer came, and this one not before it was asked for.
            assert!(Instant::now() - began >= least, "{:?}", Instant::now() - began);
            assert!(token > previous);
        }
        last = Some((before, token));
        rounds += 1;
    }
}

async fn a_killed_run_costs_its_most_time(layout: Layout) {
    let stage = Stage::new(layout);
    let other = stage.keeper().await;
    let mut worker = Worker::start(&stage.server.url(), layout);
    let most = ms(1_500);
    let before = Instant::now();
    assert_ne!(
        worker.ask(&format!("work job 600000 {}", most.as_millis())).await,
        "none"
    );
    worker.0.kill().unwrap();
    let job = other.periodic("job").layout(layout).at_least(Duration::from_secs(600));
    assert!(job.try_start().await.unwrap().is_none());
    wait_until("the end of the dead run's lease", SOON, async || {
        job.try_start().await.unwrap().is_some()
    })
    .await;
    assert!(before.elapsed() >= most);
}
