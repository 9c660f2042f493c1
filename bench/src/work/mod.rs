//! The kinds of work that are measured, one a file, and the roles of the processes that some of them need.

mod baton;
mod four_processes;
mod hand_over;
mod hand_over_scripts;
mod idle_waiters;
mod many_names;
mod one_process;
mod re_entry;
mod renewal;
mod uncontended;

use std::io::{BufRead, Write};

use clap::Subcommand;

use crate::line::Line;
use crate::report::Table;
use crate::stage::Stage;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Uncontended,
    ManyNames,
    OneProcess,
    FourProcesses,
    HandOver,
    IdleWaiters,
    HandOverScripts,
    ReEntry,
    Renewal,
}

impl Work {
    pub(crate) const ALL: [Self; 9] = [
        Self::Uncontended,
        Self::ManyNames,
        Self::OneProcess,
        Self::FourProcesses,
        Self::HandOver,
        Self::IdleWaiters,
        Self::HandOverScripts,
        Self::ReEntry,
        Self::Renewal,
    ];

    /// As typed behind `--only`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::ManyNames => "many-names",
            Self::OneProcess => "one-process",
            Self::FourProcesses => "four-processes",
            Self::HandOver => "hand-over",
            Self::IdleWaiters => "idle-waiters",
            Self::HandOverScripts => "hand-over-scripts",
            Self::ReEntry => "re-entry",
            Self::Renewal => "renewal",
        }
    }

    pub(crate) fn measure(self, stage: &Stage) -> Table {
        match self {
            Self::Uncontended => uncontended::measure(stage),
            Self::ManyNames => many_names::measure(stage),
            Self::OneProcess => one_process::measure(stage),
            Self::FourProcesses => four_processes::measure(stage),
            Self::HandOver => hand_over::measure(stage),
            Self::IdleWaiters => idle_waiters::measure(stage),
            Self::HandOverScripts => hand_over_scripts::measure(stage),
            Self::ReEntry => re_entry::measure(stage),
            Self::Renewal => renewal::measure(stage),
        }
    }
}

/// What a child process does.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Role {
    /// Some tasks that want one name, for a while.
    Contend {
        url: String,
        line: Line,
        name: String,
        tasks: usize,
        milliseconds: u64,
    },
    /// One of two that pass a lock to and fro.
    Pass {
        url: String,
        line: Line,
        name: String,
        turns: u32,
    },
    /// One of two that pass ownership to and fro in a published message.
    Baton {
        url: String,
        name: String,
        place: u8,
        turns: u32,
    },
    /// Some tasks that wait for one name and take it once each.
    Queue {
        url: String,
        line: Line,
        name: String,
        tasks: usize,
    },
}

impl Role {
    /// The arguments that bring this role about.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Contend {
                url,
                line,
                name,
                tasks,
                milliseconds,
            } => vec![
                "contend".to_owned(),
                url.clone(),
                line.argument(),
                name.clone(),
                tasks.to_string(),
                milliseconds.to_string(),
            ],
            Self::Pass { url, line, name, turns } => vec![
                "pass".to_owned(),
                url.clone(),
                line.argument(),
                name.clone(),
                turns.to_string(),
            ],
            Self::Baton {
                url,
                name,
                place,
                turns,
            } => vec![
                "baton".to_owned(),
                url.clone(),
                name.clone(),
                place.to_string(),
                turns.to_string(),
            ],
            Self::Queue { url, line, name, tasks } => vec![
                "queue".to_owned(),
                url.clone(),
                line.argument(),
                name.clone(),
                tasks.to_string(),
            ],
        }
    }
}

/// The whole life of a child process.
pub(crate) fn run_child(role: Role) {
    match role {
        Role::Contend {
            url,
            line,
            name,
            tasks,
            milliseconds,
        } => four_processes::contend(&url, line, &name, tasks, milliseconds),
        Role::Pass { url, line, name, turns } => hand_over::pass(&url, line, &name, turns),
        Role::Baton {
            url,
            name,
            place,
            turns,
        } => baton::carry(&url, &name, place, turns),
        Role::Queue { url, line, name, tasks } => hand_over_scripts::queue(&url, line, &name, tasks),
    }
}

/// Tells the parent something.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that is gone has nothing to be told: the watchdog ends this process.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Says that all is prepared, and waits for the word to begin; without a parent it never comes.
fn ready_and_wait() {
    tell("ready");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    assert!(read.is_ok_and(|length| length > 0), "the parent is gone");
}
