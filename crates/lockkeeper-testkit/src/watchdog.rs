//! Ends a child when the test process dies, however it dies.
//!
//! A test that is killed cannot clean up. So a small shell waits on a pipe from us: a line means that all is well
//! and it just leaves; the end of the pipe without a line means that we are gone, and it kills the child and
//! removes its folder. The pipe is closed in all other children, so nobody else keeps it open.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
if ! read -r word; then
  kill -9 "$1" 2>/dev/null
  if [ -n "$2" ]; then rm -rf -- "$2"; fi
fi
"#;

/// One shell that watches over one child.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Watches over `child`; `folder` is removed too if we die.
    pub(crate) fn over(child: &Child, folder: Option<&Path>) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "lockkeeper-testkit-watchdog"])
            .arg(child.id().to_string())
            .arg(folder.unwrap_or_else(|| Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell })
    }
}

impl Drop for Watchdog {
    /// Sends the shell home. Must come before the child is reaped, while its pid is still its own.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take()
            && pipe.write_all(b"done\n").is_err()
        {
            // The shell is gone: nothing to send home.
            return;
        }
        let _ = self.shell.wait();
    }
}
