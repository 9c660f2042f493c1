//! A stand-in for `lockkeeper run`: the real supervisor under a hold that lives in this process.
//!
//! `PART FOLDER LEASE_MS MARGIN_MS (renewed|fixed) COMMAND...`. In the folder, the file `busy` keeps the lock from
//! being acquired, `waiting` appears when the wait has begun, `lose` loses the hold, and `pause` holds the number of
//! milliseconds to wait after the command's end.

use lockkeeper_cli::exit::Exit;
use lockkeeper_cli::supervisor::{Hold, HoldEnvironment, Moment, Standing, Supervisor, Waited, Waker};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(crate) const PART: &str = "__rehearse";
pub(crate) const TOKEN: u64 = 1_790_000_000_000_001;
pub(crate) const OWNER: &str = "6a1f:77";
const TICK: Duration = Duration::from_millis(5);

struct Rehearsed {
    standing: Mutex<Standing>,
    lease: Duration,
    margin: Duration,
}

struct Shared(Arc<Rehearsed>);

impl Hold for Shared {
    fn standing(&self) -> Standing {
        self.0.now()
    }
}

impl Rehearsed {
    fn now(&self) -> Standing {
        *self.standing.lock().expect("no panic")
    }

    fn granted(&self, now: Moment) -> Standing {
        let stop_at = now.after(self.lease);
        Standing::Held {
            stop_at,
            kill_at: stop_at.after(self.margin),
        }
    }

    /// What a renewal service does: raises the deadline, unless it has passed. One reading of the clock for both, as
    /// the program may be stopped in between.
    fn renew(&self) {
        let mut standing = self.standing.lock().expect("no panic");
        let now = Moment::now();
        if matches!(*standing, Standing::Held { stop_at, .. } if now < stop_at) {
            *standing = self.granted(now);
        }
    }

    fn lose(&self) {
        *self.standing.lock().expect("no panic") = Standing::Lost {
            kill_at: Moment::now().after(self.margin),
        };
    }
}

pub(crate) fn play(words: &[OsString]) -> ExitCode {
    let [folder, lease, margin, mode, command @ ..] = words else {
        return ExitCode::from(2);
    };
    let milliseconds = |word: &OsString| Duration::from_millis(word.to_str().expect("text").parse().expect("number"));
    let (folder, renewed) = (PathBuf::from(folder), mode == "renewed");
    let mut supervisor = Supervisor::prepare().expect("prepared");

    let (promise, outcome) = supervisor.promise();
    let (lease, margin, waker) = (milliseconds(lease), milliseconds(margin), supervisor.waker());
    let pause = std::fs::read_to_string(folder.join("pause"))
        .ok()
        .map(|text| milliseconds(&text.into()));
    thread::spawn(move || {
        acquire(&folder);
        let hold = Rehearsed {
            standing: Mutex::new(Standing::Lost { kill_at: Moment::now() }),
            lease,
            margin,
        };
        *hold.standing.lock().expect("no panic") = hold.granted(Moment::now());
        let hold = Arc::new(hold);
        if promise.keep(Arc::clone(&hold)).is_ok() {
            mind(&hold, &folder, renewed, &waker);
        }
    });
    let hold = match supervisor.wait_for(&outcome).expect("waited") {
        Waited::Done(hold) => Shared(hold),
        Waited::Interrupted(signal) => return Exit::Signalled(signal).into(),
        Waited::Gone => return Exit::Failure.into(),
    };

    let deadline = Moment::now().after(hold.0.lease);
    let environment = HoldEnvironment {
        name: "jobs:nightly".into(),
        token: Some(TOKEN),
        owner: OWNER.into(),
        deadline,
    };
    let ended = supervisor
        .run(command, &environment.variables(), &hold)
        .expect("supervised");
    let Some(pause) = pause else {
        return ended.exit().into();
    };
    match supervisor.pause_until(Moment::now().after(pause)).expect("paused") {
        Waited::Done(()) => ended.exit().into(),
        Waited::Interrupted(signal) => Exit::Signalled(signal).into(),
        Waited::Gone => Exit::Lost.into(),
    }
}

fn acquire(folder: &Path) {
    while folder.join("busy").exists() {
        std::fs::write(folder.join("waiting"), "").expect("written");
        thread::sleep(TICK);
    }
}

fn mind(hold: &Rehearsed, folder: &Path, renewed: bool, waker: &Waker) {
    while !folder.join("lose").exists() {
        if renewed {
            hold.renew();
        }
        thread::sleep(TICK);
    }
    hold.lose();
    waker.wake();
}
