//! A register for several processes: a line protocol on a loopback port.
//!
//! `read` → `value V`. `write V` → `ok` or `lost`, judged against this connection's last `read`. `guarded T V` →
//! `ok` or `stale H`. Anything else → `error ..`.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::{Reading, Register};

#[derive(Debug)]
struct Shared {
    register: Register,
    closing: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// Offers one [`Register`] on a free loopback port. Dropping it closes all connections.
#[derive(Debug)]
pub struct RegisterServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl RegisterServer {
    /// Starts with the value 0.
    ///
    /// # Panics
    ///
    /// If the system gives no port or no thread.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port for the register");
        let address = listener.local_addr().expect("a bound port has an address");
        let shared = Arc::new(Shared {
            register: Register::new(),
            closing: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("testkit-register".to_owned())
            .spawn(move || take_connections(&listener, &for_thread))
            .expect("a thread for the register");
        Self {
            address,
            shared,
            thread: Some(thread),
        }
    }

    /// Its loopback address, for [`RegisterClient::connect`](super::RegisterClient::connect).
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The register itself, for the test that owns it.
    #[must_use]
    pub fn register(&self) -> &Register {
        &self.shared.register
    }
}

impl Drop for RegisterServer {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // Wakes the thread, which then sees that it is over and closes its connections.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take()
            && woken
        {
            let _ = thread.join();
        }
    }
}

fn take_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if shared.closing.load(Ordering::SeqCst) {
            break;
        }
        let _ = stream.set_nodelay(true);
        let Ok(handle) = stream.try_clone() else {
            continue;
        };
        shared
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handle);
        let shared = Arc::clone(shared);
        threads.push(thread::spawn(move || {
            // An error is the client's end.
            let _ = serve(&stream, &shared.register);
        }));
    }
    for stream in shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn serve(stream: &TcpStream, register: &Register) -> io::Result<()> {
    let mut out = stream;
    let mut seen: Option<Reading> = None;
    for line in BufReader::new(stream).lines() {
        let reply = answer(&line?, register, &mut seen);
        out.write_all(format!("{reply}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(line: &str, register: &Register, seen: &mut Option<Reading>) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["read"] => {
            let reading = register.read();
            *seen = Some(reading);
            format!("value {}", reading.value)
        }
        ["write", value] => {
            let Ok(value) = value.parse() else {
                return format!("error not a value: {line}");
            };
            // Each reading is good for one write: the next one would not know of the first.
            let Some(reading) = seen.take() else {
                return "error write without read".to_owned();
            };
            if register.write(reading, value) {
                "ok".to_owned()
            } else {
                "lost".to_owned()
            }
        }
        ["guarded", token, value] => {
            let (Ok(token), Ok(value)) = (token.parse(), value.parse()) else {
                return format!("error not a token and a value: {line}");
            };
            match register.write_guarded(token, value) {
                Ok(()) => "ok".to_owned(),
                Err(stale) => format!("stale {}", stale.highest),
            }
        }
        _ => format!("error not understood: {line}"),
    }
}
