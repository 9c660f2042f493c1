//! What fifty tasks cost that wait for a lock that stays taken.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_testkit::{RedisServer, wait_until};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{BareScripts, Client, Lock};
use crate::line::{Line, with_client};
use crate::load::count;
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::stage::{CHILD_LIMIT, Stage, two_workers};

const WAITERS: usize = 50;

const LINES: [Line; 3] = [Line::Rslock, Line::Redisson, Line::Plain];

/// Commands of whoever looks into the server.
const LOOKING: [&str; 5] = ["info", "hello", "client|setinfo", "client|list", "pubsub|numsub"];

#[derive(Clone, Copy, Debug)]
struct Cost {
    commands: f64,
    connections: f64,
}

pub(crate) fn measure(stage: &Stage) -> Table {
    let seconds = stage.choose(10, 3);
    // What is counted does not depend on the machine's mood.
    let race = two_workers().block_on(Race::run(&LINES, 1, async |line, _| {
        cost(stage, line, Duration::from_secs(seconds)).await
    }));
    let mut rows = Vec::new();
    for line in LINES {
        let commands = race.samples(line, |cost: &Cost| cost.commands);
        let row = Row::new(
            format!("{}: commands in {seconds} s", line.title()),
            Unit::Count,
            &commands,
        );
        rows.push(if line == Line::Redisson {
            row.goal(Goal::AtMost(0.0))
        } else {
            row
        });
    }
    for line in LINES {
        let connections = race.samples(line, |cost| cost.connections);
        let row = Row::new(format!("{}: connections", line.title()), Unit::Count, &connections);
        rows.push(if line == Line::Rslock {
            row
        } else {
            row.goal(Goal::AtMost(3.0))
        });
    }
    Table {
        title: "50 idle waiters".to_owned(),
        note: "Fifty tasks of one process wait for one lock that somebody else holds. Every command that reaches the server counts, \
               heartbeats and those inside of scripts included. In the plain layout peers send no signal, so a waiter also looks \
               every 100 ms."
            .to_owned(),
        rows,
    }
}

async fn cost(stage: &Stage, line: Line, span: Duration) -> Cost {
    let server = &stage.server;
    let url = server.url();
    let name = format!("bench:idle:{}", line.argument());
    let holder = holder(&url, line).await.lock_named(&name);
    let owner = holder.take().await;

    let before = server.client_list().await.len();
    with_client!(line, &url, client => {
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let lock = client.lock_named(&name);
            waiters.spawn(async move {
                let held = lock.take().await;
                lock.give_back(held).await;
            });
        }
        quiet(server, line, holder.channel()).await;
        let begin = commands(server).await;
        sleep(span).await;
        let cost = Cost {
            commands: count(commands(server).await - begin),
            connections: count((server.client_list().await.len() - before) as u64),
        };
        holder.give_back(owner).await;
        let all = async { while waiters.join_next().await.is_some() {} };
        tokio::time::timeout(CHILD_LIMIT, all).await.expect("every waiter gets its turn");
        cost
    })
}

/// Somebody outside who holds the lock: the bare driver, in the layout of the line.
pub(crate) async fn holder(url: &str, line: Line) -> BareScripts {
    let layout = match line {
        Line::Redisson | Line::RedissonAlone => lockkeeper::Layout::Redisson,
        // rslock reads the same key as the plain layout.
        _ => lockkeeper::Layout::Plain,
    };
    BareScripts::connect(url, layout).await
}

/// Waits until the waiters have settled: subscribed where they do, and no more requests than before.
async fn quiet(server: &RedisServer, line: Line, channel: &str) {
    if line == Line::Rslock {
        // It never settles: it polls.
        sleep(Duration::from_millis(500)).await;
        return;
    }
    settled(server, channel, 1).await;
}

/// Waits until so many connections listen, and until no script has run for a while.
pub(crate) async fn settled(server: &RedisServer, channel: &str, listeners: u64) {
    wait_until("the waiters' subscriptions", CHILD_LIMIT, async || {
        let counts: BTreeMap<String, u64> = server.query(redis::cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
        let present = counts.get(channel).copied().unwrap_or(0);
        if present == listeners { Ok(()) } else { Err(present) }
    })
    .await;
    // The attempt that follows a subscription may still be on its way; in the plain layout looks never end.
    let mut calls = server.calls("evalsha").await;
    for _ in 0..10 {
        sleep(Duration::from_millis(100)).await;
        let now = server.calls("evalsha").await;
        if now == calls {
            break;
        }
        calls = now;
    }
}

async fn commands(server: &RedisServer) -> u64 {
    let statistics = server.command_stats().await;
    statistics
        .iter()
        .filter(|(name, _)| !LOOKING.contains(&name.as_str()))
        .map(|(_, statistics)| statistics.calls)
        .sum()
}
