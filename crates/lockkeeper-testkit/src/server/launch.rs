//! Starting a server process on a port of its own, and knowing when it answers.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::builder::{BINARY_VARIABLE, ServerBuilder};
use super::{RedisServer, Running, ServerVersion};
use crate::signal;
use crate::watchdog::Watchdog;

/// How many ports to try before giving up.
const PORTS: usize = 10;
/// How often to try the same port again on a restart.
const SAME_PORT: usize = 50;
/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Why a start failed.
enum Failure {
    /// Somebody else has the port.
    PortTaken,
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

pub(super) fn first_start(builder: ServerBuilder) -> io::Result<RedisServer> {
    let version = ServerVersion::of_binary(&builder.binary).map_err(|error| missing(&builder.binary, error))?;
    let folder = tempfile::Builder::new().prefix("lockkeeper-server-").tempdir()?;
    for _ in 0..PORTS {
        let address = free_address()?;
        let tls_address = builder.tls.is_some().then(free_address).transpose()?;
        write_configuration(&builder, version, folder.path(), address, tls_address)?;
        match launch(&builder, folder.path()) {
            Ok(running) => {
                return Ok(RedisServer {
                    builder,
                    version,
                    folder,
                    address,
                    tls_address,
                    running: Mutex::new(Some(running)),
                });
            }
            Err(Failure::PortTaken) => {}
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        ErrorKind::AddrInUse,
        format!("each of {PORTS} free ports was taken before the server had it"),
    ))
}

/// Starts again on the same port, which others may hold for a moment as the near end of a connection.
pub(super) fn start_again(builder: &ServerBuilder, folder: &TempDir) -> io::Result<Running> {
    for _ in 0..SAME_PORT {
        match launch(builder, folder.path()) {
            Ok(running) => return Ok(running),
            Err(Failure::PortTaken) => std::thread::sleep(Duration::from_millis(20)),
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        ErrorKind::AddrInUse,
        "the server's port was taken while the server was down",
    ))
}

fn missing(binary: &Path, error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    io::Error::new(
        ErrorKind::NotFound,
        format!(
            "no server program {}: install Redis 6.2 or newer (packages: redis-server, redis) or Valkey, \
             or name the program in {BINARY_VARIABLE}",
            binary.display()
        ),
    )
}

/// A loopback address that is free now. The server may still find it taken: then another one is tried.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

pub(super) fn socket_path(folder: &Path) -> PathBuf {
    folder.join("server.sock")
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn write_configuration(
    builder: &ServerBuilder,
    version: ServerVersion,
    folder: &Path,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
) -> io::Result<()> {
    let mut text = format!(
        "bind {}\nport {}\nunixsocket \"{}\"\ndir \"{}\"\nlogfile \"{}\"\n\
         daemonize no\nprotected-mode no\nsave \"\"\nappendonly {}\n\
         appendfsync everysec\naof-use-rdb-preamble no\n",
        address.ip(),
        address.port(),
        socket_path(folder).display(),
        folder.display(),
        log_path(folder).display(),
        if builder.append_only { "yes" } else { "no" },
    );
    if version.has_debug_option() {
        text.push_str("enable-debug-command yes\n");
    }
    if let Some(password) = &builder.password {
        text.push_str(&format!("requirepass \"{password}\"\n"));
    }
    if let (Some((identity, authority)), Some(address)) = (&builder.tls, tls_address) {
        text.push_str(&format!(
            "tls-port {}\ntls-cert-file \"{}\"\ntls-key-file \"{}\"\ntls-ca-cert-file \"{}\"\n",
            address.port(),
            identity.certificate().display(),
            identity.key().display(),
            authority.display(),
        ));
    }
    for line in &builder.lines {
        text.push_str(line);
        text.push('\n');
    }
    fs::write(folder.join("server.conf"), text)
}

/// Asks a program that will not start anyway which of two lines it does not like.
pub(super) fn supports_tls(binary: &Path) -> bool {
    Command::new(binary)
        .args(["--tls-port", "0", "--port", "none"])
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| {
            let told = [output.stdout, output.stderr].concat();
            !String::from_utf8_lossy(&told).contains("'tls-port")
        })
}

fn launch(builder: &ServerBuilder, folder: &Path) -> Result<Running, Failure> {
    // The log decides why a start failed, so each start has its own; an old socket would answer for nobody.
    for leftover in [log_path(folder), socket_path(folder)] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let child = Command::new(&builder.binary)
        .arg(folder.join("server.conf"))
        .args(&builder.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&builder.binary, error))?;
    let watchdog = Watchdog::over(&child, Some(folder));
    let mut running = Running { child, watchdog: None };
    running.watchdog = Some(watchdog?);
    wait_for_answer(&mut running.child, builder.password.as_deref(), folder)?;
    Ok(running)
}

/// Asks over the unix socket, which is surely this server's and opens only after the port is bound.
fn wait_for_answer(child: &mut Child, password: Option<&str>, folder: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < START_LIMIT {
        if signal::has_ended(child) {
            let log = fs::read_to_string(log_path(folder)).unwrap_or_default();
            if log.contains("Address already in use") {
                return Err(Failure::PortTaken);
            }
            let mut complaint = String::new();
            if let Some(stderr) = child.stderr.take() {
                complaint = io::read_to_string(stderr).unwrap_or_default();
            }
            return Err(io::Error::other(format!("the server did not start:\n{complaint}{log}")).into());
        }
        if answers(&socket_path(folder), password) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let log = fs::read_to_string(log_path(folder)).unwrap_or_default();
    Err(io::Error::new(
        ErrorKind::TimedOut,
        format!("no answer from the server in {START_LIMIT:?}:\n{log}"),
    )
    .into())
}

fn answers(socket: &Path, password: Option<&str>) -> bool {
    let ask = || -> io::Result<String> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut lines = BufReader::new(&stream).lines();
        let mut next = || lines.next().unwrap_or_else(|| Err(ErrorKind::UnexpectedEof.into()));
        if let Some(password) = password {
            let request = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
            (&stream).write_all(request.as_bytes())?;
            next()?;
        }
        (&stream).write_all(b"PING\r\n")?;
        next()
    };
    // A server whose default user may not say PING answers with a refusal: it is up all the same.
    ask().is_ok_and(|line| {
        ["+PONG", "-NOAUTH", "-NOPERM"]
            .iter()
            .any(|ready| line.starts_with(ready))
    })
}
