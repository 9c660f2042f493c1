//! 64 tasks, each with a name of its own, over one connection.

use std::time::Duration;

use crate::client::Client;
use crate::line::{Line, with_client};
use crate::load::{Load, Outcome};
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{Stage, two_workers};

const TASKS: usize = 64;

const LINES: [Line; 6] = [
    Line::BareSet,
    Line::BareRedisson,
    Line::BarePlain,
    Line::Rslock,
    Line::Redisson,
    Line::Plain,
];

pub(crate) fn measure(stage: &Stage) -> Table {
    let race = two_workers().block_on(Race::run(&LINES, stage.rounds(9), async |line, _| {
        outcome(stage, line).await
    }));
    let samples = |line| race.samples(line, Outcome::rate);
    let row = |line: Line, against: Line, to| {
        Row::new(line.title(), Unit::PerSecond, &samples(line)).ratio(samples(line).relative_to(&samples(against)), to)
    };
    let mut rows: Vec<Row> = [Line::BareSet, Line::BareRedisson, Line::BarePlain, Line::Rslock]
        .into_iter()
        .map(|line| row(line, Line::BareSet, "SET NX PX"))
        .collect();
    for (line, bare) in [(Line::Redisson, Line::BareRedisson), (Line::Plain, Line::BarePlain)] {
        rows.push(row(line, bare, "same scripts bare").ratio_goal(Goal::AtLeast(0.85)));
    }
    for line in LINES {
        let processor = |line| race.samples(line, Outcome::processor_each);
        let row = Row::new(
            format!("{}: client processor time a pair", line.title()),
            Unit::Microseconds,
            &processor(line),
        );
        rows.push(match line {
            Line::Redisson => row.ratio(
                processor(line).relative_to(&processor(Line::BareRedisson)),
                "same scripts bare",
            ),
            Line::Plain => row.ratio(
                processor(line).relative_to(&processor(Line::BarePlain)),
                "same scripts bare",
            ),
            _ => row,
        });
    }
    Table {
        title: "64 tasks on 64 names, one connection".to_owned(),
        note: "Pairs a second of all tasks together, on a runtime with two workers.".to_owned(),
        rows,
    }
}

async fn outcome(stage: &Stage, line: Line) -> Outcome {
    let url = stage.server.url();
    let load = |milliseconds| Load {
        time: Duration::from_millis(milliseconds),
        gives_way: false,
    };
    with_client!(line, &url, client => {
        let locks: Vec<_> = (0..TASKS)
            .map(|number| client.lock_named(&format!("bench:many:{}:{number}", line.argument())))
            .collect();
        load(stage.choose(60, 30)).rate(locks.clone()).await;
        load(stage.choose(700, 250)).rate(locks).await
    })
}
