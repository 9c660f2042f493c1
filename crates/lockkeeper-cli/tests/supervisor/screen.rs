//! A terminal session on a pseudo-terminal.

use crate::processes::{PATIENCE, session_members};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::setsid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const PART: &str = "__session";
const PROMPT: &str = "prompt> ";

/// `PART TERMINAL COMMAND...`: becomes the command, as the leader of a session on the terminal.
pub(crate) fn open_session(words: &[OsString]) -> ExitCode {
    let [terminal, program, arguments @ ..] = words else {
        return ExitCode::from(2);
    };
    setsid().expect("a new session");
    // A session leader without a terminal gets the first one that it opens.
    let terminal = File::options()
        .read(true)
        .write(true)
        .open(terminal)
        .expect("the terminal");
    let copy = || Stdio::from(terminal.try_clone().expect("a copy"));
    let problem = Command::new(program)
        .args(arguments)
        .stdin(copy())
        .stdout(copy())
        .stderr(copy())
        .exec();
    panic!("{problem}");
}

pub(crate) struct Screen {
    keyboard: File,
    shown: Arc<Mutex<String>>,
    session: Child,
    /// How much of what was shown has been looked at.
    read: usize,
}

impl Screen {
    pub(crate) fn open(command: &[&str]) -> Self {
        let device = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&device).expect("granted");
        unlockpt(&device).expect("unlocked");
        let name = ptsname(&device, Vec::new()).expect("a name");
        let session = Command::new(std::env::current_exe().expect("our path"))
            .args([PART, name.to_str().expect("text")])
            .args(command)
            .env("PS1", PROMPT)
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a session");
        let keyboard = File::from(device);
        let mut display = keyboard.try_clone().expect("a copy");
        let shown = Arc::new(Mutex::new(String::new()));
        let text = Arc::clone(&shown);
        // Ends with the session, when the terminal gives an error.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = display.read(&mut bytes) {
                text.lock()
                    .expect("no panic")
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self {
            keyboard,
            shown,
            session,
            read: 0,
        }
    }

    /// A shell with job control.
    pub(crate) fn shell() -> Self {
        Self::open(&["bash", "--norc", "--noprofile", "-i"])
    }

    /// Gives the shell a command, once it asks for one: what is typed while a job ends may be lost.
    pub(crate) fn command(&mut self, line: &str) {
        self.expect(PROMPT);
        self.type_line(line);
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        self.type_keys(&format!("{line}\n"));
    }

    /// Waits until this is shown, after what was expected before.
    pub(crate) fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            {
                let shown = self.shown.lock().expect("no panic");
                if let Some(place) = shown[self.read..].find(text) {
                    self.read += place + text.len();
                    return;
                }
                assert!(
                    start.elapsed() < PATIENCE,
                    "not shown: {text:?} in\n{}",
                    &shown[self.read..]
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The code of the last command, asked of the shell.
    pub(crate) fn expect_code(&mut self, code: i32) {
        self.command("echo code-$?-");
        self.expect(&format!("code-{code}-"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a failure there may be stopped jobs, which would stay when their shell is gone.
        for process in session_members(self.session.id()) {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        let _ = self.session.wait();
    }
}
