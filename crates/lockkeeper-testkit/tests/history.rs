//! Histories: written by processes that die, read back, and judged.

use std::io::Write;
use std::time::Duration;

use lockkeeper_testkit::history::checker::Fault;
use lockkeeper_testkit::history::{Ending, Entry, Grant, History, Recorder, Sharing};
use lockkeeper_testkit::{Process, boot_time_ns};

const SOON: Duration = Duration::from_secs(10);
const HOUR_NS: u64 = 3_600_000_000_000;

/// A hold of `job` by process `process`, believed from `from` to `until`.
fn hold(process: &str, from: u64, until: u64, token: u64) -> Entry {
    let grant = Grant {
        owner: format!("{process}:{from}"),
        token: Some(token),
        returned: from,
        deadline: Some(until),
        release_called: None,
        lost: None,
        process_ended: None,
    };
    Entry {
        process: process.to_owned(),
        number: from,
        object: "job".to_owned(),
        sharing: Sharing::Exclusive,
        called: from.saturating_sub(5),
        ending: Some(Ending::Granted(grant)),
    }
}

fn shared(mut entry: Entry) -> Entry {
    entry.sharing = Sharing::Shared;
    entry
}

fn of(entries: impl IntoIterator<Item = Entry>) -> History {
    History::from_entries(entries)
}

#[test]
fn a_recorded_history_is_read_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("a"), folder.path().join("b")];
    let start = boot_time_ns();
    let first = Recorder::open(&files[0], "a").unwrap();
    let held = first
        .call("job", Sharing::Exclusive)
        .granted("a:1", Some(u64::MAX), Some(start + HOUR_NS));
    held.renewed(start + 2 * HOUR_NS);
    held.release_called();
    let second = Recorder::open(&files[1], "b").unwrap();
    second.call("job", Sharing::Shared).refused("busy");
    drop(second.call("job", Sharing::Shared));
    let waiting = second.call("job", Sharing::Shared);
    let lost = second.call("other", Sharing::Shared).granted("b:1", None, None);
    lost.lost();

    let history = History::read(&files).unwrap();
    let entries = history.entries();
    assert_eq!(entries.len(), 5);
    let grant = entries[0].grant().unwrap();
    assert_eq!((grant.owner.as_str(), grant.token), ("a:1", Some(u64::MAX)));
    assert_eq!(grant.deadline, Some(start + 2 * HOUR_NS));
    assert_eq!(
        entries[0].believed(),
        Some((grant.returned, grant.release_called.unwrap()))
    );
    assert!(start <= entries[0].called && entries[0].called <= grant.returned);
    assert_eq!(entries[1].ending, Some(Ending::Refused("busy".to_owned())));
    assert_eq!(entries[2].ending, Some(Ending::Dropped));
    assert_eq!(entries[3].ending, None);
    assert_eq!(
        entries[4].believed().unwrap().1,
        entries[4].grant().unwrap().lost.unwrap()
    );
    assert!(matches!(history.faults().as_slice(), [Fault::StillWaiting(entry)] if entry.number == 3));
    waiting.refused("timed out");
    History::read(&files).unwrap().assert_sound();
}

#[test]
fn events_that_cannot_be_are_refused_and_a_line_cut_short_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let recorder = Recorder::open(&file, "a").unwrap();
    recorder.call("job", Sharing::Exclusive).refused("busy");
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(r#"{"process":"a","number":2,"at":1,"ev"#);
    assert_eq!(History::read([&file]).unwrap().entries().len(), 1);
    append("\n");
    assert!(History::read([&file]).unwrap_err().to_string().contains("line 3"));

    let twice = folder.path().join("twice");
    Recorder::open(&twice, "same")
        .unwrap()
        .call("job", Sharing::Exclusive)
        .refused("busy");
    Recorder::open(&twice, "same")
        .unwrap()
        .call("job", Sharing::Exclusive)
        .refused("busy");
    assert!(
        History::read([&twice])
            .unwrap_err()
            .to_string()
            .contains("begun before")
    );
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "run as a process by another test"]
fn worker_that_records() {
    let file = std::env::var_os("HISTORY_FILE").expect("the file is named");
    let recorder = Recorder::open(file, "victim").unwrap();
    let _held = recorder
        .call("job", Sharing::Exclusive)
        .granted("victim:1", Some(1), Some(boot_time_ns() + HOUR_NS));
    let _waiting = recorder.call("other", Sharing::Exclusive);
    println!("\nrecorded");
    loop {
        std::thread::park();
    }
}

#[tokio::test]
async fn a_history_survives_the_kill_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("victim");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "worker_that_records", "--ignored", "--nocapture"])
        .env("HISTORY_FILE", &file);
    let mut worker = Process::from_command(command).unwrap();
    worker.line_starting_with("recorded", SOON).await.unwrap();
    worker.kill().unwrap();
    let ended = boot_time_ns();

    let mut history = History::read([&file]).unwrap();
    assert_eq!(history.grants(), 1);
    assert!(history.entries()[0].believed().unwrap().1 > ended);
    assert_eq!(history.endless_waits().len(), 1);
    history.process_ended("victim", ended);
    assert_eq!(history.entries()[0].believed().unwrap().1, ended);
    assert_eq!(history.entries()[1].ending, Some(Ending::ProcessEnded));
    history.assert_sound();
}

#[test]
fn a_hold_is_believed_until_the_earliest_of_its_ends() {
    let with = |change: fn(&mut Grant)| {
        let mut entry = hold("a", 100, 200, 1);
        let Some(Ending::Granted(grant)) = &mut entry.ending else {
            unreachable!()
        };
        change(grant);
        entry.believed()
    };
    assert_eq!(with(|_| {}), Some((100, 200)));
    assert_eq!(with(|grant| grant.release_called = Some(150)), Some((100, 150)));
    assert_eq!(with(|grant| grant.release_called = Some(250)), Some((100, 200)));
    assert_eq!(with(|grant| grant.lost = Some(120)), Some((100, 120)));
    assert_eq!(with(|grant| grant.process_ended = Some(110)), Some((100, 110)));
    assert_eq!(with(|grant| grant.deadline = None), Some((100, u64::MAX)));
    assert_eq!(with(|grant| grant.deadline = Some(100)), None);
}

#[test]
fn turns_without_overlap_and_with_rising_tokens_are_sound() {
    let history = of([
        hold("a", 100, 200, 1),
        hold("b", 200, 300, 2),
        shared(hold("c", 300, 400, 5)),
        shared(hold("d", 310, 500, 4)),
        hold("e", 500, 600, 6),
    ]);
    assert_eq!(history.faults(), []);
    history.assert_sound();
}

#[test]
fn two_holders_at_once_are_found_also_far_apart_and_across_kinds() {
    let overlap = of([hold("a", 100, 200, 1), hold("b", 199, 300, 2)]).faults();
    assert!(matches!(overlap.as_slice(), [Fault::Overlap(pair)] if pair.0.process == "a" && pair.1.process == "b"));
    let far = of([
        hold("a", 100, 900, 1),
        shared(hold("b", 950, 960, 3)),
        hold("c", 955, 970, 4),
    ])
    .overlaps();
    assert!(matches!(far.as_slice(), [Fault::Overlap(pair)] if pair.1.process == "c"));
    let reader = of([
        hold("a", 100, 900, 1),
        shared(hold("b", 200, 300, 2)),
        shared(hold("c", 250, 300, 3)),
    ]);
    assert_eq!(reader.overlaps().len(), 2);
    let mut elsewhere = hold("b", 150, 300, 2);
    elsewhere.object = "another".to_owned();
    assert_eq!(of([hold("a", 100, 200, 1), elsewhere]).faults(), []);
}

#[test]
fn more_holds_than_permits_are_found() {
    let three = of([
        shared(hold("a", 100, 200, 1)),
        shared(hold("b", 110, 150, 2)),
        shared(hold("c", 150, 300, 3)),
        shared(hold("d", 199, 300, 4)),
    ]);
    assert_eq!(three.more_than(3, "job"), []);
    let found = three.more_than(2, "job");
    assert!(matches!(found.as_slice(), [Fault::TooMany { entry, holds: 3 }] if entry.process == "d"));
    assert_eq!(three.more_than(1, "unheard of"), []);
}

#[test]
fn repeated_and_falling_tokens_are_found() {
    let repeated = of([hold("a", 100, 200, 7), hold("b", 300, 300, 7)]).faults();
    assert!(matches!(repeated.as_slice(), [Fault::TokenRepeated(_)]), "{repeated:?}");
    let falling = of([hold("a", 100, 200, 9), hold("b", 200, 300, 5), hold("c", 300, 400, 10)]).faults();
    assert!(
        matches!(falling.as_slice(), [Fault::TokenNotRisen(pair)] if pair.0.process == "a"),
        "{falling:?}"
    );
    let far = of([hold("a", 100, 200, 9), hold("b", 200, 300, 10), hold("c", 300, 400, 8)]).falling_tokens();
    assert!(matches!(far.as_slice(), [Fault::TokenNotRisen(pair)] if pair.0.process == "b" && pair.1.process == "c"));
}

#[test]
fn tokens_of_readers_need_not_rise_while_their_calls_overlap() {
    let mut late = shared(hold("b", 300, 400, 1));
    late.called = 150;
    assert_eq!(of([shared(hold("a", 100, 200, 2)), late.clone()]).faults(), []);
    late.called = 200;
    assert_eq!(of([shared(hold("a", 100, 200, 2)), late]).falling_tokens().len(), 1);
}

#[test]
#[should_panic(expected = "1 faults among 2 grants:\n  two holds at once: a#100 on job as a:100 with token 1")]
fn a_fault_is_told_in_words() {
    of([hold("a", 100, 200, 1), hold("b", 150, 300, 2)]).assert_sound();
}

#[test]
#[should_panic(expected = "proves nothing")]
fn an_empty_history_proves_nothing() {
    History::default().assert_sound();
}
