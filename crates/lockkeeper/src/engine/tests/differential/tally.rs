use std::collections::BTreeMap;
use std::fmt;

use crate::engine::{Acquired, Cause, Kind, Released, Renewed, Reply, Step, StepError};

/// Times left mostly agree up to this: milliseconds are rounded down here and up there.
const ROUNDING: u64 = 2;

/// What a walk met, since one that met too little proves nothing.
#[derive(Default)]
pub(super) struct Tally {
    /// How often which reply was seen.
    replies: BTreeMap<&'static str, u64>,
    times: u64,
    inexact_times: u64,
    pub(super) caught_up: u64,
    pub(super) started_over: u64,
}

impl Tally {
    pub(super) fn sum(tallies: Vec<Self>) -> Self {
        let mut sum = Self::default();
        for tally in tallies {
            for (reply, count) in tally.replies {
                *sum.replies.entry(reply).or_default() += count;
            }
            sum.times += tally.times;
            sum.inexact_times += tally.inexact_times;
            sum.caught_up += tally.caught_up;
            sum.started_over += tally.started_over;
        }
        sum
    }

    /// Two times left were compared, and differ by so many milliseconds.
    pub(super) fn note_time(&mut self, difference: u64) {
        self.times += 1;
        self.inexact_times += u64::from(difference > ROUNDING);
    }

    pub(super) fn count(&mut self, step: &Step, outcome: &Result<Reply, StepError>) {
        let rwlock = match (step, outcome) {
            (Step::Acquire(step), Ok(Reply::Acquired(acquired))) => match (step.target.kind, acquired) {
                (Kind::Read, Acquired::Granted { .. }) => Some("reading"),
                (Kind::Read, Acquired::Busy(_)) => Some("not reading"),
                (Kind::Write, Acquired::Granted { .. }) => Some("writing"),
                (Kind::Write, Acquired::Busy(_)) => Some("not writing"),
                _ => None,
            },
            (Step::Convert { acquire, .. }, Ok(Reply::Acquired(acquired))) => match (acquire.target.kind, acquired) {
                (Kind::Read, Acquired::Granted { .. }) => Some("downgraded"),
                (_, Acquired::Granted { .. }) => Some("upgraded"),
                (_, Acquired::Busy(_)) => Some("not upgraded"),
            },
            (Step::Release { target, .. }, Ok(Reply::Released(Released::Freed { .. }))) => match target.kind {
                Kind::Read => Some("read"),
                Kind::Write => Some("written"),
                _ => None,
            },
            _ => None,
        };
        if let Some(what) = rwlock {
            *self.replies.entry(what).or_default() += 1;
        }
        let mut count = |what| *self.replies.entry(what).or_default() += 1;
        match outcome {
            Ok(Reply::Acquired(Acquired::Granted { .. })) => count("granted"),
            Ok(Reply::Acquired(Acquired::Busy(_))) => count("busy"),
            Ok(Reply::Renewed(entries)) => entries.iter().for_each(|entry| match entry {
                Ok(Renewed::Held) => count("renewed"),
                Ok(Renewed::Gone) => count("gone"),
                Err(_) => count("renewal failed"),
            }),
            Ok(Reply::Released(Released::Freed { receivers: 0 })) => count("freed unheard"),
            Ok(Reply::Released(Released::Freed { .. })) => count("freed heard"),
            Ok(Reply::Released(Released::Resting { .. })) => count("resting"),
            Ok(Reply::Released(Released::NotThere)) => count("not there"),
            Ok(Reply::ForceReleased(true)) => count("forced"),
            Ok(Reply::ForceReleased(false)) => count("nothing to force"),
            Ok(Reply::Operated(_)) => count("operated"),
            Ok(Reply::Inspected(_)) => count("inspected"),
            Err(StepError {
                cause: Cause::WrongKind(_),
                ..
            }) => count("wrong kind"),
            Err(StepError {
                cause: Cause::Refused(..),
                ..
            }) => count("refused"),
            Err(StepError {
                cause: Cause::NotHeld, ..
            }) => count("not held"),
            Err(_) => count("no answer"),
        }
    }

    pub(super) fn assert_it_saw_everything(&self, steps: u64) {
        for reply in [
            "granted",
            "busy",
            "renewed",
            "gone",
            "not there",
            "inspected",
            "wrong kind",
        ] {
            assert!(self.seen(reply) * 50 >= steps, "too few of {reply}: {self}");
        }
        for reply in [
            "reading",
            "not reading",
            "writing",
            "not writing",
            "upgraded",
            "not upgraded",
            "downgraded",
            "not held",
            "read",
            "written",
            "resting",
        ] {
            assert!(self.seen(reply) * 5_000 >= steps, "too few of {reply}: {self}");
        }
        for reply in [
            "freed heard",
            "freed unheard",
            "resting",
            "forced",
            "nothing to force",
            "refused",
        ] {
            assert!(self.seen(reply) * 2_000 >= steps, "too few of {reply}: {self}");
        }
        assert!(self.started_over * 100 <= steps, "started over too often: {self}");
        assert!(self.inexact_times * 20 <= self.times, "times differ too often: {self}");
    }

    fn seen(&self, reply: &str) -> u64 {
        self.replies.get(reply).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}, of {} times left {} differed by more than {ROUNDING} ms, held up {} times, started over {} times",
            self.replies, self.times, self.inexact_times, self.caught_up, self.started_over
        )
    }
}
