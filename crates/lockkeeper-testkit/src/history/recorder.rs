//! Writing a history, so that it survives a kill.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Sharing;
use super::line::{Event, Line};
use crate::boot_time_ns;

#[derive(Debug)]
struct Sink {
    process: String,
    file: Mutex<File>,
    attempts: AtomicU64,
}

impl Sink {
    /// Writes one whole line in one call: the system keeps it even if we are killed right after.
    fn write(&self, number: u64, at: u64, event: Event) {
        let line = Line {
            process: self.process.clone(),
            number,
            at,
            event,
        };
        let mut text = serde_json::to_vec(&line).expect("an event has a JSON form");
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text).expect("the history can be written");
    }
}

/// Records what one process believes, as JSON lines appended to a file. Cheap to clone.
///
/// ```
/// # use lockkeeper_testkit::history::{History, Recorder, Sharing};
/// # use lockkeeper_testkit::boot_time_ns;
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("history.jsonl");
/// let recorder = Recorder::open(&file, "worker-1").unwrap();
/// let attempt = recorder.call("order:1001", Sharing::Exclusive);
/// // .. the lock is acquired ..
/// let hold = attempt.granted("uuid:1", Some(7), Some(boot_time_ns() + 30_000_000_000));
/// // .. work ..
/// hold.release_called();
/// // .. the lock is released ..
/// let history = History::read([&file]).unwrap();
/// history.assert_sound();
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    sink: Arc<Sink>,
}

impl Recorder {
    /// Appends to `file` under the name of this process, which must be its own among all files read together.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(file: impl AsRef<Path>, process: impl Into<String>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        let sink = Sink {
            process: process.into(),
            file: Mutex::new(file),
            attempts: AtomicU64::new(0),
        };
        Ok(Self { sink: Arc::new(sink) })
    }

    /// Records that an attempt begins. Call it just before the lock is asked for.
    ///
    /// # Panics
    ///
    /// If the file cannot be written, as all methods of the recorder.
    #[must_use = "an attempt that is dropped counts as cancelled"]
    pub fn call(&self, object: impl Into<String>, sharing: Sharing) -> Attempt {
        let number = self.sink.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event::Called {
            object: object.into(),
            sharing,
        };
        self.sink.write(number, boot_time_ns(), event);
        Attempt {
            sink: Some(Arc::clone(&self.sink)),
            number,
        }
    }
}

/// An attempt that is under way. Dropping it records that its future was dropped.
#[derive(Debug)]
#[must_use = "an attempt that is dropped counts as cancelled"]
pub struct Attempt {
    sink: Option<Arc<Sink>>,
    number: u64,
}

impl Attempt {
    /// Records the grant. Call it as soon as the caller has the hold; `deadline` is in nanoseconds of the boot
    /// clock.
    pub fn granted(mut self, owner: impl Into<String>, token: Option<u64>, deadline: Option<u64>) -> RecordedHold {
        let at = boot_time_ns();
        let sink = self.sink.take().expect("an attempt ends once");
        sink.write(
            self.number,
            at,
            Event::Granted {
                owner: owner.into(),
                token,
                deadline,
            },
        );
        RecordedHold {
            sink,
            number: self.number,
        }
    }

    /// Records that it ended without a hold (busy, timed out, unreachable, ..).
    pub fn refused(mut self, reason: impl Into<String>) {
        let sink = self.sink.take().expect("an attempt ends once");
        sink.write(self.number, boot_time_ns(), Event::Refused { reason: reason.into() });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink.write(self.number, boot_time_ns(), Event::Dropped);
        }
    }
}

/// A hold that was granted. Dropping it records nothing: say what happened.
#[derive(Debug)]
#[must_use = "a hold without an end is believed until its deadline"]
pub struct RecordedHold {
    sink: Arc<Sink>,
    number: u64,
}

impl RecordedHold {
    /// Records a new deadline, in nanoseconds of the boot clock.
    pub fn renewed(&self, deadline: u64) {
        self.sink
            .write(self.number, boot_time_ns(), Event::Renewed { deadline });
    }

    /// Records that the hold is given up. Call it just *before* releasing: from the call on nobody may rely on it.
    pub fn release_called(&self) {
        self.sink.write(self.number, boot_time_ns(), Event::ReleaseCalled);
    }

    /// Records that the holder learned of the loss.
    pub fn lost(&self) {
        self.sink.write(self.number, boot_time_ns(), Event::Lost);
    }
}
