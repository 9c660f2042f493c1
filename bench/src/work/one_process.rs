//! 32 tasks of one process that all want one name; each section gives way once.

use std::time::Duration;

use crate::client::Client;
use crate::line::{Line, with_client};
use crate::load::{Load, count};
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{Stage, two_workers};

const TASKS: usize = 32;

const LINES: [Line; 6] = [
    Line::Tokio,
    Line::Rslock,
    Line::Redisson,
    Line::Plain,
    Line::RedissonAlone,
    Line::PlainAlone,
];

/// What one turn of a line told.
struct Turn {
    rate: f64,
    /// Milliseconds.
    worst: f64,
}

pub(crate) fn measure(stage: &Stage) -> Table {
    let race = two_workers().block_on(Race::run(&LINES, stage.rounds(7), async |line, _| {
        turn(stage, line).await
    }));
    let rates = |line| race.samples(line, |turn: &Turn| turn.rate);
    let mut rows = Vec::new();
    for line in LINES {
        let row = Row::new(line.title(), Unit::PerSecond, &rates(line));
        let row = row.ratio(rates(line).relative_to(&rates(Line::Tokio)), "tokio");
        rows.push(match line {
            Line::Redisson | Line::Plain => row.ratio_goal(Goal::AtLeast(0.20)),
            _ => row,
        });
    }
    for line in LINES {
        let row = Row::new(
            format!("{}: worst wait", line.title()),
            Unit::Milliseconds,
            &race.samples(line, |turn| turn.worst),
        );
        rows.push(match line {
            Line::Redisson | Line::Plain => row.goal(Goal::AtMost(20.0)),
            _ => row,
        });
    }
    Table {
        title: "32 tasks on one name in one process".to_owned(),
        note: "Sections a second, each with one `yield_now`, on a runtime with two workers. The worst wait is taken in a run of \
               its own, so that looking at the clock does not slow the first."
            .to_owned(),
        rows,
    }
}

async fn turn(stage: &Stage, line: Line) -> Turn {
    let url = stage.server.url();
    let name = format!("bench:one:{}", line.argument());
    let load = |milliseconds| Load {
        time: Duration::from_millis(milliseconds),
        gives_way: true,
    };
    let (rate, waits) = with_client!(line, &url, client => {
        let locks = vec![client.lock_named(&name); TASKS];
        load(stage.choose(60, 30)).rate(locks.clone()).await;
        let rate = load(stage.choose(600, 250)).rate(locks.clone()).await;
        (rate, load(stage.choose(600, 250)).waits(locks).await)
    });
    Turn {
        rate: rate.rate(),
        worst: count(waits.waits.max()) / 1e6,
    }
}
