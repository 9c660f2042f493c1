//! What it costs to keep many holds alive.

use std::time::{Duration, Instant};

use lockkeeper::{HoldState, Lease, MutexGuard};
use redis::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, Lockkeeper};
use crate::load::count;
use crate::processor::processor_time;
use crate::report::{Goal, Row, Table, Unit};
use crate::samples::Samples;
use crate::stage::{Stage, two_workers};

/// Callers that take the locks at the same time.
const TAKERS: usize = 64;

/// Lockkeeper renews every third of a lease: at its default of 30 s, every 10 s.
const DEFAULT_PERIOD: f64 = 10.0;

/// Scripts that are quicker than this are not looked at one by one, in microseconds.
const SLOW: u64 = 50;

#[derive(Debug, Default)]
struct Cost {
    /// Milliseconds of processor time to renew all holds once.
    processor: Samples,
    /// Percent of one core at the default lease.
    core: Samples,
    scripts: Samples,
    /// Microseconds a script, by the server's count.
    mean: Samples,
    longest: Samples,
}

pub(crate) fn measure(stage: &Stage) -> Table {
    let holds = stage.choose(&[1_000, 10_000, 100_000][..], &[1_000, 10_000]);
    // A quick run renews more often, and reckons back to the default lease.
    let lease = Duration::from_secs(stage.choose(30, 12));
    let mut rows = Vec::new();
    for layout in [lockkeeper::Layout::Redisson, lockkeeper::Layout::Plain] {
        for number in holds {
            let rounds = if *number > 1_000 { 1 } else { stage.rounds(3) };
            let mut cost = Cost::default();
            for round in 0..rounds {
                two_workers().block_on(renewal(stage, layout, *number, lease, round, &mut cost));
            }
            rows.extend(rows_of(layout, *number, &cost));
        }
    }
    Table {
        title: "Renewal".to_owned(),
        note: format!(
            "Holds of one keeper with a renewed lease of {} s, watched for one period (a third of it) in which each is renewed \
             once. Processor time is that of the whole client process; the share of a core is for the default lease of 30 s. \
             The time of scripts is the server's own count.",
            lease.as_secs()
        ),
        rows,
    }
}

fn rows_of(layout: lockkeeper::Layout, number: usize, cost: &Cost) -> Vec<Row> {
    let what = |figure| format!("{number} holds, {layout:?}: {figure}");
    let core = Row::new(what("share of a core"), Unit::Percent, &cost.core);
    let scripts = Row::new(what("scripts a period"), Unit::Count, &cost.scripts);
    let mean = Row::new(what("mean script"), Unit::Microseconds, &cost.mean);
    vec![
        Row::new(
            what("client processor time a period"),
            Unit::Milliseconds,
            &cost.processor,
        ),
        if number == 100_000 {
            core.goal(Goal::AtMost(2.0))
        } else {
            core
        },
        if number == 1_000 {
            scripts.goal(Goal::AtMost(10.0))
        } else {
            scripts
        },
        if number == 1_000 {
            mean.goal(Goal::AtMost(100.0))
        } else {
            mean
        },
        Row::new(what("longest script"), Unit::Microseconds, &cost.longest),
    ]
}

async fn renewal(
    stage: &Stage,
    layout: lockkeeper::Layout,
    number: usize,
    lease: Duration,
    round: u16,
    cost: &mut Cost,
) {
    let server = &stage.server;
    let period = lease / 3;
    let client = Lockkeeper::connect(&server.url(), layout, true).await;
    let taking = Instant::now();
    let guards = take(
        &client,
        number,
        lease,
        &format!("bench:renewal:{layout:?}:{number}:{round}"),
    )
    .await;
    let taken_in = taking.elapsed();

    configure(stage, "slowlog-max-len", 10_000).await;
    configure(stage, "slowlog-log-slower-than", SLOW).await;
    // The first holds were due a period after they were granted, the last one after the taking has ended. A whole period in
    // between sees each hold once, wherever it begins.
    if taken_in < period {
        sleep(period - taken_in - (period - taken_in).min(period / 20)).await;
    }
    let _: Value = server.query(redis::cmd("SLOWLOG").arg("RESET")).await;
    let before = server.command_stats().await.get("evalsha").copied().unwrap_or_default();
    let (processor, begin) = (processor_time(), Instant::now());
    sleep(period).await;
    let (processor, elapsed) = (processor_time() - processor, begin.elapsed());
    let after = server.command_stats().await.get("evalsha").copied().unwrap_or_default();

    let scripts = after.calls - before.calls;
    let once = processor / elapsed.as_secs_f64() * period.as_secs_f64();
    cost.processor.push(once * 1e3);
    cost.core.push(once / DEFAULT_PERIOD * 100.0);
    cost.scripts.push(count(scripts));
    cost.mean
        .push(count(after.microseconds - before.microseconds) / count(scripts.max(1)));
    cost.longest.push(longest(stage).await);
    configure(stage, "slowlog-log-slower-than", 10_000).await;

    let lost = guards.iter().filter(|guard| guard.state() != HoldState::Held).count();
    assert_eq!(lost, 0, "every hold lives on");
    give_back(guards).await;
}

async fn take(client: &Lockkeeper, number: usize, lease: Duration, prefix: &str) -> Vec<MutexGuard> {
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let mutexes: Vec<_> = (taker..number)
            .step_by(TAKERS)
            .map(|place| {
                client
                    .lock_named(&format!("{prefix}:{place}"))
                    .lease(Lease::renewed(lease))
            })
            .collect();
        takers.spawn(async move {
            let mut guards = Vec::with_capacity(mutexes.len());
            for mutex in mutexes {
                guards.push(mutex.lock().await.expect("the lock is granted"));
            }
            guards
        });
    }
    let mut guards = Vec::with_capacity(number);
    while let Some(taken) = takers.join_next().await {
        guards.extend(taken.expect("no task fails"));
    }
    guards
}

async fn give_back(mut guards: Vec<MutexGuard>) {
    let mut givers = JoinSet::new();
    let each = guards.len().div_ceil(TAKERS).max(1);
    while !guards.is_empty() {
        let part = guards.split_off(guards.len().saturating_sub(each));
        givers.spawn(async move {
            for guard in part {
                guard.unlock().await.expect("the lock is given up");
            }
        });
    }
    while let Some(given) = givers.join_next().await {
        given.expect("no task fails");
    }
}

async fn configure(stage: &Stage, name: &str, value: u64) {
    let _: Value = stage
        .server
        .query(redis::cmd("CONFIG").arg("SET").arg(name).arg(value))
        .await;
}

/// The longest script that the server noted, in microseconds; NaN if all were quick.
async fn longest(stage: &Stage) -> f64 {
    let entries: Vec<(u64, u64, u64, Vec<String>)> = stage
        .server
        .query::<Vec<Value>>(redis::cmd("SLOWLOG").arg("GET").arg(10_000))
        .await
        .into_iter()
        .filter_map(|entry| {
            let Value::Array(fields) = entry else { return None };
            let number = |index: usize| redis::from_redis_value_ref::<u64>(fields.get(index)?).ok();
            let command = redis::from_redis_value_ref(fields.get(3)?).ok()?;
            Some((number(0)?, number(1)?, number(2)?, command))
        })
        .collect();
    entries
        .iter()
        .filter(|(_, _, _, command)| command.first().is_some_and(|name| name.eq_ignore_ascii_case("EVALSHA")))
        .map(|(_, _, microseconds, _)| count(*microseconds))
        .fold(f64::NAN, f64::max)
}
