//! The worker's side of a register.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Stale;

/// How long the register may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// One connection to a [`RegisterServer`](super::RegisterServer). Its calls block for a loopback round trip.
#[derive(Debug)]
pub struct RegisterClient {
    stream: BufReader<TcpStream>,
}

impl RegisterClient {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If nobody answers there.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// The value now; the next [`write`](Self::write) is judged by it.
    ///
    /// # Errors
    ///
    /// If the server is gone or does not answer within ten seconds, as for all calls.
    pub fn read(&mut self) -> io::Result<i64> {
        let answer = self.ask("read")?;
        let value = answer.strip_prefix("value ").and_then(|value| value.parse().ok());
        value.ok_or_else(|| unexpected(&answer))
    }

    /// Writes blindly. `false` if others had written since the last [`read`](Self::read): their update is lost.
    ///
    /// # Errors
    ///
    /// Also if there was no `read` since the last `write`.
    pub fn write(&mut self, value: i64) -> io::Result<bool> {
        match self.ask(&format!("write {value}"))?.as_str() {
            "ok" => Ok(true),
            "lost" => Ok(false),
            answer => Err(unexpected(answer)),
        }
    }

    /// Writes if `token` is at least the highest seen; the inner error says that it is not.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn write_guarded(&mut self, token: u64, value: i64) -> io::Result<Result<(), Stale>> {
        let answer = self.ask(&format!("guarded {token} {value}"))?;
        if answer == "ok" {
            return Ok(Ok(()));
        }
        let highest = answer.strip_prefix("stale ").and_then(|highest| highest.parse().ok());
        let highest = highest.ok_or_else(|| unexpected(&answer))?;
        Ok(Err(Stale { highest }))
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        if self.stream.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the register is gone"));
        }
        Ok(answer.trim_end().to_owned())
    }
}

fn unexpected(answer: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the register answered {answer:?}"))
}
