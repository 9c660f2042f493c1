//! Judges a history: exclusion, tokens, and that every wait ended.
//!
//! Each check sorts and sweeps once, so a history of a million holds is judged in seconds. Each fault found names
//! the hold that should not have been, and one that proves it.

use std::collections::BTreeMap;
use std::fmt;

use super::{Entry, History, Sharing};

/// Something that must not happen. The pair is in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The second hold was believed before the first was given up.
    Overlap(Box<(Entry, Entry)>),
    /// More holds were believed at once than the object has permits; the entry is the one too many.
    TooMany {
        /// The hold that was one too many.
        entry: Box<Entry>,
        /// How many there were with it.
        holds: usize,
    },
    /// Two grants of one object have the same token.
    TokenRepeated(Box<(Entry, Entry)>),
    /// The second hold began after the first had ended, and its token is not higher.
    TokenNotRisen(Box<(Entry, Entry)>),
    /// An attempt never ended.
    StillWaiting(Box<Entry>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(pair) => write!(f, "two holds at once: {} and {}", pair.0, pair.1),
            Self::TooMany { entry, holds } => write!(f, "{holds} holds at once with {entry}"),
            Self::TokenRepeated(pair) => write!(f, "one token twice: {} and {}", pair.0, pair.1),
            Self::TokenNotRisen(pair) => write!(f, "a token that did not rise: {} and then {}", pair.0, pair.1),
            Self::StillWaiting(entry) => write!(f, "a wait without end: {entry}"),
        }
    }
}

/// A hold that was believed, with its interval.
#[derive(Debug, Clone, Copy)]
struct Believed<'a> {
    entry: &'a Entry,
    from: u64,
    until: u64,
}

fn pair(first: &Entry, second: &Entry) -> Box<(Entry, Entry)> {
    Box::new((first.clone(), second.clone()))
}

/// The believed holds of each object, in the order of their beginnings.
fn by_object(history: &History) -> BTreeMap<&str, Vec<Believed<'_>>> {
    let mut objects: BTreeMap<&str, Vec<Believed<'_>>> = BTreeMap::new();
    for entry in history.entries() {
        if let Some((from, until)) = entry.believed() {
            objects
                .entry(&entry.object)
                .or_default()
                .push(Believed { entry, from, until });
        }
    }
    for holds in objects.values_mut() {
        holds.sort_by_key(|hold| hold.from);
    }
    objects
}

impl History {
    /// Finds holds that were believed while they excluded each other. At most one fault per later hold.
    #[must_use]
    pub fn overlaps(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for holds in by_object(self).into_values() {
            // Of each kind only the hold that lasts longest so far can reach a later one.
            let mut longest: [Option<Believed<'_>>; 2] = [None, None];
            for hold in holds {
                let own = usize::from(hold.entry.sharing == Sharing::Shared);
                let excluded = match hold.entry.sharing {
                    Sharing::Exclusive => &longest[..],
                    Sharing::Shared => &longest[..1],
                };
                let clash = excluded.iter().flatten().find(|other| other.until > hold.from);
                if let Some(other) = clash {
                    faults.push(Fault::Overlap(pair(other.entry, hold.entry)));
                }
                if longest[own].is_none_or(|other| other.until < hold.until) {
                    longest[own] = Some(hold);
                }
            }
        }
        faults
    }

    /// Finds moments at which more than `permits` holds of `object` were believed.
    #[must_use]
    pub fn more_than(&self, permits: usize, object: &str) -> Vec<Fault> {
        let mut objects = by_object(self);
        let holds = objects.remove(object).unwrap_or_default();
        let mut ends: Vec<u64> = holds.iter().map(|hold| hold.until).collect();
        ends.sort_unstable();
        let mut faults = Vec::new();
        let mut ended = 0;
        for (begun, hold) in holds.iter().enumerate() {
            while ends[ended] <= hold.from {
                ended += 1;
            }
            let together = begun + 1 - ended;
            if together > permits {
                faults.push(Fault::TooMany {
                    entry: Box::new(hold.entry.clone()),
                    holds: together,
                });
            }
        }
        faults
    }

    /// Finds tokens that were given out twice for one object. Holds that were never believed count too.
    #[must_use]
    pub fn repeated_tokens(&self) -> Vec<Fault> {
        let mut tokens: Vec<(&str, u64, &Entry)> = self
            .entries()
            .iter()
            .filter_map(|entry| Some((entry.object.as_str(), entry.grant()?.token?, entry)))
            .collect();
        // Stable, so that entries of one token keep the order of their calls.
        tokens.sort_by_key(|(object, token, _)| (*object, *token));
        tokens
            .windows(2)
            .filter(|two| (two[0].0, two[0].1) == (two[1].0, two[1].1))
            .map(|two| Fault::TokenRepeated(pair(two[0].2, two[1].2)))
            .collect()
    }

    /// Finds holds whose token is not higher than that of a hold which had ended before. At most one per later
    /// hold.
    ///
    /// Two sharing holds may be granted in one order and believed in the other while both are on the server, so for
    /// them the earlier must have ended before the later was even asked for.
    #[must_use]
    pub fn falling_tokens(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for holds in by_object(self).into_values() {
            let exclusive = HighestToken::of(&holds, Sharing::Exclusive);
            let shared = HighestToken::of(&holds, Sharing::Shared);
            for hold in &holds {
                let Some(token) = token_of(hold.entry) else {
                    continue;
                };
                let shared_ended_by = match hold.entry.sharing {
                    Sharing::Exclusive => hold.from,
                    Sharing::Shared => hold.entry.called.min(hold.from),
                };
                let before = [exclusive.ended_by(hold.from), shared.ended_by(shared_ended_by)];
                let highest = before.into_iter().flatten().max_by_key(|(token, _)| *token);
                if let Some((_, earlier)) = highest.filter(|(highest, _)| *highest >= token) {
                    faults.push(Fault::TokenNotRisen(pair(earlier, hold.entry)));
                }
            }
        }
        faults
    }

    /// Finds attempts that neither got a hold nor ended without one.
    #[must_use]
    pub fn endless_waits(&self) -> Vec<Fault> {
        let waiting = self.entries().iter().filter(|entry| entry.ending.is_none());
        waiting
            .map(|entry| Fault::StillWaiting(Box::new(entry.clone())))
            .collect()
    }

    /// All faults that need no number of permits: overlaps, tokens, waits.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let checks = [
            self.overlaps(),
            self.repeated_tokens(),
            self.falling_tokens(),
            self.endless_waits(),
        ];
        checks.into_iter().flatten().collect()
    }

    /// Asserts that the history has grants and no [`faults`](Self::faults).
    ///
    /// # Panics
    ///
    /// With the number of faults and the first ten, or if nothing was granted: such a history proves nothing.
    #[track_caller]
    pub fn assert_sound(&self) {
        assert!(
            self.grants() > 0,
            "a history of {} attempts and no grant proves nothing",
            self.entries().len()
        );
        let faults = self.faults();
        let first: Vec<String> = faults.iter().take(10).map(|fault| format!("\n  {fault}")).collect();
        assert!(
            faults.is_empty(),
            "{} faults among {} grants:{}",
            faults.len(),
            self.grants(),
            first.concat()
        );
    }
}

fn token_of(entry: &Entry) -> Option<u64> {
    entry.grant()?.token
}

/// For each end of a hold, the highest token among all that ended by then.
struct HighestToken<'a> {
    steps: Vec<(u64, u64, &'a Entry)>,
}

impl<'a> HighestToken<'a> {
    fn of(holds: &[Believed<'a>], sharing: Sharing) -> Self {
        let mut steps: Vec<(u64, u64, &Entry)> = holds
            .iter()
            .filter(|hold| hold.entry.sharing == sharing)
            .filter_map(|hold| Some((hold.until, token_of(hold.entry)?, hold.entry)))
            .collect();
        steps.sort_by_key(|(until, ..)| *until);
        for index in 1..steps.len() {
            if steps[index - 1].1 > steps[index].1 {
                steps[index] = (steps[index].0, steps[index - 1].1, steps[index - 1].2);
            }
        }
        Self { steps }
    }

    fn ended_by(&self, moment: u64) -> Option<(u64, &'a Entry)> {
        let count = self.steps.partition_point(|(until, ..)| *until <= moment);
        let (_, token, entry) = self.steps.get(count.checked_sub(1)?)?;
        Some((*token, entry))
    }
}
