//! Four processes with eight tasks each that all want one name.

use std::time::Duration;

use crate::client::Client;
use crate::line::{Line, with_client};
use crate::load::{Load, count};
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{CHILD_LIMIT, Stage, two_workers};
use crate::work::{Role, ready_and_wait, tell};

const PROCESSES: usize = 4;
const TASKS: usize = 8;

const LINES: [Line; 5] = [
    Line::Rslock,
    Line::Redisson,
    Line::Plain,
    Line::RedissonAlone,
    Line::PlainAlone,
];

/// Sections a second of rueidislock, the best of fourteen libraries measured on two cores, at its best. It is written in
/// Go and not part of this run.
const BEST_PEER: f64 = 6_300.0;

/// What one turn of a line told.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    rate: f64,
    /// Milliseconds.
    worst: f64,
    /// The share of the process that had the least, where a quarter is fair.
    least_share: f64,
}

pub(crate) fn measure(stage: &Stage) -> Table {
    let race = two_workers().block_on(Race::run(&LINES, stage.rounds(5), async |line, round| {
        turn(stage, line, round).await
    }));
    let mut rows = Vec::new();
    for line in LINES {
        let rates = race.samples(line, |turn: &Turn| turn.rate);
        let row =
            Row::new(line.title(), Unit::PerSecond, &rates).ratio(rates.median() / BEST_PEER, "rueidislock's best");
        rows.push(match line {
            Line::Redisson | Line::Plain => row.ratio_goal(Goal::AtLeast(10.0)),
            Line::RedissonAlone | Line::PlainAlone => row.ratio_goal(Goal::AtLeast(1.0)),
            _ => row,
        });
    }
    for line in LINES {
        let worst = race.samples(line, |turn| turn.worst);
        let row = Row::new(format!("{}: worst wait", line.title()), Unit::Milliseconds, &worst);
        rows.push(match line {
            Line::Redisson | Line::Plain => row.goal(Goal::AtMost(20.0)),
            _ => row,
        });
    }
    for line in LINES {
        let share = race.samples(line, |turn| turn.least_share * 100.0);
        rows.push(Row::new(
            format!("{}: least share of a process", line.title()),
            Unit::Percent,
            &share,
        ));
    }
    Table {
        title: "4 processes × 8 tasks on one name".to_owned(),
        note: "Sections a second of all processes together, each with one `yield_now`, and the longest wait of any caller. \
               Against the best peer known: rueidislock (Go), 3,800 to 6,300 a second and worst waits of 38 to 57 ms on two \
               cores, measured elsewhere. A quarter is a process's fair share."
            .to_owned(),
        rows,
    }
}

async fn turn(stage: &Stage, line: Line, round: u16) -> Turn {
    let role = Role::Contend {
        url: stage.server.url(),
        line,
        name: format!("bench:four:{}:{round}", line.argument()),
        tasks: TASKS,
        milliseconds: stage.choose(1500, 600),
    };
    let mut children = Stage::ready_children(vec![role; PROCESSES]).await;
    for child in &mut children {
        child.write_line("go").expect("a child listens");
    }
    let mut turn = Turn::default();
    let mut rates = Vec::new();
    for child in &mut children {
        let told = child
            .line_starting_with("done ", CHILD_LIMIT)
            .await
            .expect("a child ends its work");
        let numbers: Vec<f64> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [rate, worst] = numbers[..] else {
            panic!("a child told {told:?}");
        };
        turn.worst = turn.worst.max(worst);
        rates.push(rate);
    }
    turn.rate = rates.iter().sum();
    turn.least_share = rates.iter().copied().fold(f64::INFINITY, f64::min) / turn.rate;
    for child in &mut children {
        child.wait(CHILD_LIMIT).await.expect("a child ends");
    }
    turn
}

/// The child's part.
pub(crate) fn contend(url: &str, line: Line, name: &str, tasks: usize, milliseconds: u64) {
    two_workers().block_on(async {
        let load = Load {
            time: Duration::from_millis(milliseconds),
            gives_way: true,
        };
        let outcome = with_client!(line, url, client => {
            let locks = vec![client.lock_named(name); tasks];
            ready_and_wait();
            load.waits(locks).await
        });
        let worst = count(outcome.waits.max()) / 1e6;
        tell(&format!("done {} {worst}", outcome.rate()));
    });
}
