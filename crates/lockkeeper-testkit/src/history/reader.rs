//! Reading the files of all processes back as one history.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::line::{Event, Line};
use super::{Ending, Entry, Grant};

/// All attempts of all processes, in the order of their calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// Reads the files of several recorders.
    ///
    /// A last line that is not whole is left out: its process was killed while writing it.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, a line is no event, or events do not follow from one another (two processes of one
    /// name, for one).
    pub fn read<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> io::Result<Self> {
        let mut attempts: BTreeMap<(String, u64), Entry> = BTreeMap::new();
        for file in files {
            let file = file.as_ref();
            let text = fs::read_to_string(file)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for (index, json) in whole.lines().enumerate() {
                let broken = |why: &dyn std::fmt::Display| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{} line {}: {why}", file.display(), index + 1),
                    )
                };
                let line: Line = serde_json::from_str(json).map_err(|error| broken(&error))?;
                apply(&mut attempts, line).map_err(|why| broken(&why))?;
            }
        }
        Ok(Self::from_entries(attempts.into_values()))
    }

    /// A history made of given entries.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort_by_key(|entry| entry.called);
        Self { entries }
    }

    /// All attempts, in the order of their calls.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Number of grants.
    #[must_use]
    pub fn grants(&self) -> usize {
        self.entries.iter().filter(|entry| entry.grant().is_some()).count()
    }

    /// Notes that a process ended at `at` (nanoseconds of the boot clock, taken after its end was seen): its
    /// attempts under way wait no longer and its holds are believed by nobody.
    pub fn process_ended(&mut self, process: &str, at: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.process == process) {
            match &mut entry.ending {
                Some(Ending::Granted(grant)) => grant.process_ended = Some(at),
                None => entry.ending = Some(Ending::ProcessEnded),
                Some(_) => {}
            }
        }
    }
}

fn apply(attempts: &mut BTreeMap<(String, u64), Entry>, line: Line) -> Result<(), &'static str> {
    let key = (line.process.clone(), line.number);
    if let Event::Called { object, sharing } = line.event {
        let entry = Entry {
            process: line.process,
            number: line.number,
            object,
            sharing,
            called: line.at,
            ending: None,
        };
        return match attempts.insert(key, entry) {
            None => Ok(()),
            Some(_) => Err("this attempt has begun before"),
        };
    }
    let entry = attempts.get_mut(&key).ok_or("this attempt has not begun")?;
    let ending = match line.event {
        Event::Granted { owner, token, deadline } => Ending::Granted(Grant {
            owner,
            token,
            returned: line.at,
            deadline,
            release_called: None,
            lost: None,
            process_ended: None,
        }),
        Event::Refused { reason } => Ending::Refused(reason),
        Event::Dropped => Ending::Dropped,
        later => {
            let Some(Ending::Granted(grant)) = &mut entry.ending else {
                return Err("there is no hold");
            };
            match later {
                Event::Renewed { deadline } => grant.deadline = Some(deadline),
                // Only the first counts: a hold that was given up is not believed again.
                Event::ReleaseCalled => {
                    grant.release_called = grant.release_called.or(Some(line.at));
                }
                _ => grant.lost = grant.lost.or(Some(line.at)),
            }
            return Ok(());
        }
    };
    match entry.ending.replace(ending) {
        None => Ok(()),
        Some(_) => Err("this attempt has ended before"),
    }
}
