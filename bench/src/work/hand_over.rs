//! How long a lock takes from one process to another that already waits for it.

use std::time::Duration;

use lockkeeper_testkit::boot_time_ns;
use tokio::time::sleep;

use crate::client::{Client, Lock};
use crate::line::{Line, with_client};
use crate::load::count;
use crate::race::Race;
use crate::report::{Goal, Row, Table, Unit};
use crate::samples::Samples;
use crate::stage::{CHILD_LIMIT, Stage, two_workers};
use crate::work::{Role, baton, ready_and_wait, tell};

/// `BareSet` stands for ownership in the published message here.
const LINES: [Line; 4] = [Line::BareSet, Line::Rslock, Line::Redisson, Line::Plain];

/// How long each turn holds the lock: long enough that the other process surely waits, whatever it did before.
pub(crate) const HOLD: Duration = Duration::from_millis(12);

/// How long a process stays away after its turn, so that it does not compete with the one it passed the lock to.
const REST: Duration = Duration::from_millis(1);

/// Something that happened in one of the processes, on the clock that all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    kind: Kind,
    process: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Released,
    Acquired,
}

pub(crate) fn measure(stage: &Stage) -> Table {
    let race = two_workers().block_on(Race::run(&LINES, stage.rounds(5), async |line, round| {
        hand_overs(stage, line, round).await
    }));
    let medians = |line| race.samples(line, Samples::median);
    let floor = medians(Line::BareSet);
    let mut rows = vec![Row::new(
        "bare driver, ownership in the published message",
        Unit::Microseconds,
        &floor,
    )];
    for line in [Line::Rslock, Line::Redisson, Line::Plain] {
        let row = Row::new(line.title(), Unit::Microseconds, &medians(line));
        let row = row.ratio(medians(line).relative_to(&floor), "that");
        rows.push(if line == Line::Rslock {
            row
        } else {
            row.ratio_goal(Goal::AtMost(1.3))
        });
    }
    Table {
        title: "Hand-over between two processes".to_owned(),
        note: "From the call that gives the lock up in one process to the moment at which a caller in another has it; the median \
               of a round's hand-overs. The floor is one script that sets the new owner and publishes it."
            .to_owned(),
        rows,
    }
}

/// The hand-overs of one round, in microseconds.
async fn hand_overs(stage: &Stage, line: Line, round: u16) -> Samples {
    let url = stage.server.url();
    let name = format!("bench:pass:{}:{round}", line.argument());
    // A peer that polls every 100 ms or so makes few hand-overs in a reasonable time.
    let turns = match line {
        Line::Rslock => stage.choose(12, 5),
        _ => stage.choose(60, 20),
    };
    let role = |place| match line {
        Line::BareSet => Role::Baton {
            url: url.clone(),
            name: name.clone(),
            place,
            turns,
        },
        _ => Role::Pass {
            url: url.clone(),
            line,
            name: name.clone(),
            turns,
        },
    };
    let mut children = Stage::ready_children([role(0), role(1)]).await;
    for child in &mut children {
        child.write_line("go").expect("a child listens");
    }
    let mut events = Vec::new();
    for (process, child) in children.iter_mut().enumerate() {
        let told = child
            .line_starting_with("events", CHILD_LIMIT)
            .await
            .expect("a child ends its work");
        for pair in told.split_whitespace() {
            let (acquired, released) = pair.split_once('-').expect("two moments");
            for (kind, at) in [(Kind::Acquired, acquired), (Kind::Released, released)] {
                let at = at.parse().expect("a moment is a number");
                events.push(Event { at, kind, process });
            }
        }
        child.wait(CHILD_LIMIT).await.expect("a child ends");
    }
    between_processes(events)
}

/// The times between a release and the acquisition that follows it in the other process.
fn between_processes(mut events: Vec<Event>) -> Samples {
    events.sort_unstable();
    let mut samples = Samples::default();
    for pair in events.windows(2) {
        let [released, acquired] = pair else { continue };
        if released.kind == Kind::Released && acquired.kind == Kind::Acquired && released.process != acquired.process {
            samples.push(count(acquired.at - released.at) / 1e3);
        }
    }
    samples
}

/// The child's part.
pub(crate) fn pass(url: &str, line: Line, name: &str, turns: u32) {
    two_workers().block_on(async {
        let events = with_client!(line, url, client => {
            let lock = client.lock_named(name);
            ready_and_wait();
            tokio::spawn(async move {
                let mut events = String::new();
                for _ in 0..turns {
                    let held = lock.take().await;
                    let acquired = boot_time_ns();
                    sleep(HOLD).await;
                    let released = boot_time_ns();
                    lock.give_back(held).await;
                    events.push_str(&baton::turn(acquired, released));
                    sleep(REST).await;
                }
                events
            })
            .await
            .expect("no task fails")
        });
        tell(&format!("events{events}"));
    });
}

#[cfg(test)]
mod tests {
    use super::{Event, Kind, between_processes};

    #[test]
    fn only_what_passes_between_processes_counts() {
        let event = |at, kind, process| Event { at, kind, process };
        let samples = between_processes(vec![
            event(9_000, Kind::Acquired, 1),
            event(1_000, Kind::Acquired, 0),
            event(4_000, Kind::Released, 0),
            event(12_000, Kind::Released, 1),
            event(13_000, Kind::Acquired, 1),
        ]);
        assert_eq!((samples.smallest(), samples.largest()), (5.0, 5.0));
    }
}
