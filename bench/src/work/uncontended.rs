//! One task that locks and unlocks a name that nobody else wants.

use std::time::Duration;

use lockkeeper_testkit::RedisServer;

use crate::client::{Client, Lock};
use crate::line::{Line, with_client};
use crate::load::{Load, Outcome, count};
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{Stage, one_thread, two_workers};

const LINES: [Line; 7] = [
    Line::BareRedisson,
    Line::BarePlain,
    Line::BareSet,
    Line::Rslock,
    Line::Tokio,
    Line::Redisson,
    Line::Plain,
];

/// Pairs whose requests are counted.
const COUNTED: u32 = 100;

pub(crate) fn measure(stage: &Stage) -> Table {
    let mut rows = Vec::new();
    for (runtime, workers) in [(two_workers(), "two workers"), (one_thread(), "one thread")] {
        let race = runtime.block_on(Race::run(&LINES, stage.rounds(9), async |line, _| {
            outcome(stage, line).await
        }));
        rows.extend(rows_of(&race, workers));
    }
    for line in [Line::Rslock, Line::Redisson, Line::Plain] {
        let scripts = two_workers().block_on(requests_a_pair(&stage.server, line));
        let mut samples = crate::samples::Samples::default();
        samples.push(scripts);
        let row = Row::new(format!("{}: requests a pair", line.title()), Unit::Count, &samples);
        rows.push(if line == Line::Rslock {
            row
        } else {
            row.goal(Goal::AtMost(2.0))
        });
    }
    Table {
        title: "Uncontended lock + unlock".to_owned(),
        note: "One task, one name, time for a pair; on a runtime with two workers and on one of a single thread."
            .to_owned(),
        rows,
    }
}

async fn outcome(stage: &Stage, line: Line) -> Outcome {
    let url = stage.server.url();
    let name = format!("bench:uncontended:{}", line.argument());
    let load = |milliseconds| Load {
        time: Duration::from_millis(milliseconds),
        gives_way: false,
    };
    with_client!(line, &url, client => {
        load(stage.choose(60, 30)).rate(vec![client.lock_named(&name)]).await;
        load(stage.choose(500, 200)).rate(vec![client.lock_named(&name)]).await
    })
}

/// `EVALSHA` and `SET` as clients send them, counted by the server. A script's own `SET` counts too, so only the plain
/// layout's and the peer's are told apart here by what they are known to send.
async fn requests_a_pair(server: &RedisServer, line: Line) -> f64 {
    let url = server.url();
    let name = format!("bench:requests:{}", line.argument());
    let sent = async || {
        let requests = server.calls("evalsha").await;
        if line == Line::Rslock {
            requests + server.calls("set").await
        } else {
            requests
        }
    };
    with_client!(line, &url, client => {
        let lock = client.lock_named(&name);
        // The first pair may load scripts.
        let held = lock.take().await;
        lock.give_back(held).await;
        let before = sent().await;
        for _ in 0..COUNTED {
            let held = lock.take().await;
            lock.give_back(held).await;
        }
        count(sent().await - before) / f64::from(COUNTED)
    })
}

fn rows_of(race: &Race<Outcome>, workers: &str) -> Vec<Row> {
    let samples = |line| race.samples(line, |outcome| 1e6 / outcome.rate());
    let row = |line: Line, against: Line, to: &'static str| {
        Row::new(
            format!("{}, {workers}", line.title()),
            Unit::Microseconds,
            &samples(line),
        )
        .ratio(samples(line).relative_to(&samples(against)), to)
    };
    let mut rows: Vec<Row> = [
        Line::BareSet,
        Line::BareRedisson,
        Line::BarePlain,
        Line::Rslock,
        Line::Tokio,
    ]
    .into_iter()
    .map(|line| row(line, Line::BareSet, "SET NX PX"))
    .collect();
    for (line, bare, bound) in [
        (Line::Redisson, Line::BareRedisson, 1.25),
        (Line::Plain, Line::BarePlain, 1.10),
    ] {
        rows.push(row(line, bare, "same scripts bare").ratio_goal(Goal::AtMost(1.10)));
        rows.push(row(line, Line::BareSet, "SET NX PX").ratio_goal(Goal::AtMost(bound)));
    }
    for (line, bare) in [
        (Line::BareSet, Line::BareSet),
        (Line::BareRedisson, Line::BareRedisson),
        (Line::Redisson, Line::BareRedisson),
        (Line::Plain, Line::BarePlain),
    ] {
        let processor = |line| race.samples(line, Outcome::processor_each);
        let row = Row::new(
            format!("{}, {workers}: client processor time", line.title()),
            Unit::Microseconds,
            &processor(line),
        );
        rows.push(if line == bare {
            row
        } else {
            row.ratio(processor(line).relative_to(&processor(bare)), "same scripts bare")
        });
    }
    rows
}
