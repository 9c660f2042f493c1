//! How many scripts forty hand-overs take, from the release that begins them to the last waiter's own.

use std::time::Duration;

use lockkeeper_testkit::RedisServer;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::client::{Client, Lock};
use crate::line::{Line, with_client};
use crate::load::count;
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{CHILD_LIMIT, Stage, two_workers};
use crate::work::idle_waiters::{holder, settled};
use crate::work::{Role, ready_and_wait, tell};

/// Processes, waiters in each, and the goal.
const SHAPES: [(usize, usize, f64); 3] = [(1, 40, 12.0), (10, 4, 20.0), (40, 1, 42.0)];

const LINES: [Line; 3] = [Line::Rslock, Line::Redisson, Line::Plain];

pub(crate) fn measure(stage: &Stage) -> Table {
    let mut rows = Vec::new();
    for (processes, waiters, goal) in SHAPES {
        let race = two_workers().block_on(Race::run(&LINES, stage.rounds(3), async |line, round| {
            scripts(stage, line, round, processes, waiters).await
        }));
        for line in LINES {
            let row = Row::new(
                format!("{processes} × {waiters}: {}", line.title()),
                Unit::Count,
                &race.samples(line, |scripts| *scripts),
            );
            rows.push(if line == Line::Rslock {
                row
            } else {
                row.goal(Goal::AtMost(goal))
            });
        }
    }
    Table {
        title: "40 hand-overs".to_owned(),
        note: "Processes × waiters in each; all wait, then the holder releases and each has its turn. Scripts that the server runs, \
               the first release included; for rslock, which asks with a plain `SET`, those too."
            .to_owned(),
        rows,
    }
}

async fn scripts(stage: &Stage, line: Line, round: u16, processes: usize, waiters: usize) -> f64 {
    let server = &stage.server;
    let url = server.url();
    let name = format!("bench:queue:{}:{processes}:{round}", line.argument());
    let holder = holder(&url, line).await.lock_named(&name);
    let owner = holder.take().await;

    let role = Role::Queue {
        url,
        line,
        name,
        tasks: waiters,
    };
    let mut children = Stage::ready_children(vec![role; processes]).await;
    for child in &mut children {
        child.write_line("go").expect("a child listens");
    }
    for child in &mut children {
        child
            .line_starting_with("waiting", CHILD_LIMIT)
            .await
            .expect("a child waits");
    }
    if line == Line::Rslock {
        sleep(Duration::from_millis(500)).await;
    } else {
        settled(server, holder.channel(), processes as u64).await;
    }
    let before = requests(server, line).await;
    holder.give_back(owner).await;
    for child in &mut children {
        child
            .line_starting_with("done", CHILD_LIMIT)
            .await
            .expect("every waiter gets its turn");
    }
    let after = requests(server, line).await;
    for child in &mut children {
        child.write_line("end").expect("a child listens");
        child.wait(CHILD_LIMIT).await.expect("a child ends");
    }
    count(after - before)
}

async fn requests(server: &RedisServer, line: Line) -> u64 {
    let scripts = server.calls("evalsha").await;
    match line {
        Line::Rslock => scripts + server.calls("set").await,
        _ => scripts,
    }
}

/// The child's part.
pub(crate) fn queue(url: &str, line: Line, name: &str, tasks: usize) {
    two_workers().block_on(async {
        with_client!(line, url, client => {
            let lock = client.lock_named(name);
            ready_and_wait();
            let mut waiters = JoinSet::new();
            for _ in 0..tasks {
                let lock = lock.clone();
                waiters.spawn(async move {
                    let held = lock.take().await;
                    yield_now().await;
                    lock.give_back(held).await;
                });
            }
            tell("waiting");
            while let Some(ended) = waiters.join_next().await {
                ended.expect("no task fails");
            }
            // Stays until all are counted: leaving would be counted too.
            tell("done");
            ready_and_wait();
        });
    });
}
