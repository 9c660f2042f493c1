//! One client's connection and its twin to the server.
//!
//! Four steps run side by side: read requests, write requests, read replies, write replies. The readers cut the
//! stream into whole values and stamp when each may go on; the writers apply the faults in order. When the client
//! leaves, what it sent still goes to the server.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Shared;
use super::journal::Request;
use super::ledger::{Ledger, Origin, subscribes};
use super::matcher::Sight;
use super::rule::{Fault, RuleState, Way};
use crate::resp::{self, Malformed};

/// How long the server gets to answer what a cut connection has sent.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Link {
    number: u64,
    shared: Arc<Shared>,
    subscriber: AtomicBool,
    /// Not requests and replies any more, but a stream that is passed on as it comes.
    opaque: AtomicBool,
    /// In a black hole.
    lost: AtomicBool,
    ledger: Mutex<Ledger>,
    reset: Notify,
}

struct Piece {
    bytes: Vec<u8>,
    due: Instant,
    request: Option<Arc<Request>>,
    copy: bool,
}

/// How a connection ends.
enum End {
    Closed,
    Reset(Vec<Arc<RuleState>>),
    Cut(Vec<Arc<RuleState>>),
}

/// Takes the link out of the list of open ones, also if its task is dropped.
struct Registration(Arc<Link>);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.shared.links().remove(&self.0.number);
    }
}

/// Serves one accepted connection until it ends.
pub(super) async fn serve(shared: Arc<Shared>, number: u64, mut client: TcpStream) {
    let link = Arc::new(Link {
        number,
        shared: Arc::clone(&shared),
        subscriber: AtomicBool::new(false),
        opaque: AtomicBool::new(false),
        lost: AtomicBool::new(false),
        ledger: Mutex::default(),
        reset: Notify::new(),
    });
    shared.links().insert(number, Arc::clone(&link));
    let registration = Registration(Arc::clone(&link));
    let connected = tokio::select! {
        biased;
        () = link.reset.notified() => None,
        connected = TcpStream::connect(shared.upstream()) => connected.ok(),
    };
    let Some(mut server) = connected else {
        // Nobody there: the client is told by a reset, the nearest thing to a closed port.
        let _ = client.set_zero_linger();
        drop(client);
        return;
    };
    let _ = server.set_nodelay(true);
    let _ = client.set_nodelay(true);
    let end = tokio::select! {
        biased;
        () = link.reset.notified() => End::Reset(Vec::new()),
        end = link.run(&mut client, &mut server) => end,
    };
    if !matches!(end, End::Closed) {
        let _ = client.set_zero_linger();
    }
    drop(client);
    drop(registration);
    match end {
        End::Closed => {}
        End::Reset(rules) => note_fired(&rules),
        End::Cut(rules) => {
            note_fired(&rules);
            drain(server).await;
        }
    }
}

fn note_fired(rules: &[Arc<RuleState>]) {
    for rule in rules {
        rule.note_fired();
    }
}

/// Lets the server finish: closing at once, with replies unread, could destroy requests it has not read.
async fn drain(mut server: TcpStream) {
    let _ = server.shutdown().await;
    let mut sink = tokio::io::sink();
    let _ = timeout(DRAIN_LIMIT, tokio::io::copy(&mut server, &mut sink)).await;
}

impl Link {
    pub(super) fn sight(&self) -> Sight {
        Sight {
            connection: self.number,
            subscriber: self.subscriber.load(Ordering::Relaxed),
        }
    }

    pub(super) fn reset(&self) {
        self.reset.notify_one();
    }

    async fn run(&self, client: &mut TcpStream, server: &mut TcpStream) -> End {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (request_in, request_out) = mpsc::unbounded_channel();
        let (reply_in, reply_out) = mpsc::unbounded_channel();
        let traffic = async {
            tokio::try_join!(
                self.read_requests(from_client, request_in),
                self.write_requests(request_out, to_server),
                self.read_replies(from_server, reply_in),
                self.write_replies(reply_out, to_client),
            )
        };
        traffic.await.map_or_else(|end| end, |_| End::Closed)
    }

    async fn read_requests(&self, mut client: ReadHalf<'_>, queue: mpsc::UnboundedSender<Piece>) -> Result<(), End> {
        let mut buffer = Vec::new();
        while read_more(&mut client, &mut buffer).await {
            while let Some(bytes) = self.cut(&mut buffer, resp::request_length) {
                let request = if self.opaque.load(Ordering::Relaxed) {
                    None
                } else {
                    self.note(&bytes)
                };
                let due = self.due(Way::Requests, request.as_deref());
                let _ = queue.send(Piece {
                    bytes,
                    due,
                    request,
                    copy: false,
                });
            }
        }
        Ok(())
    }

    /// Notes a request in the journal. An empty line is none: the server does not answer it.
    fn note(&self, bytes: &[u8]) -> Option<Arc<Request>> {
        let words = resp::arguments(bytes);
        if words.is_empty() {
            return None;
        }
        let request = self.shared.journal().note(self.number, words);
        if subscribes(&request.command) {
            self.subscriber.store(true, Ordering::Relaxed);
        }
        // What follows these is not one reply per request.
        if matches!(request.command.as_str(), "PSYNC" | "SYNC" | "MONITOR") {
            self.opaque.store(true, Ordering::Relaxed);
        }
        Some(request)
    }

    async fn write_requests(
        &self,
        mut queue: mpsc::UnboundedReceiver<Piece>,
        mut server: WriteHalf<'_>,
    ) -> Result<(), End> {
        while let Some(piece) = queue.recv().await {
            sleep_until(piece.due).await;
            let request = piece.request.as_ref();
            if !self.may_pass(Way::Requests, request.map(Arc::as_ref)).await {
                continue;
            }
            let due = |wanted: fn(Fault) -> bool| {
                let request = request.map(Arc::as_ref);
                self.shared.book.due(Way::Requests, self.sight(), request, wanted)
            };
            let repeats = due(|fault| matches!(fault, Fault::RepeatRequest));
            let cuts = due(|fault| matches!(fault, Fault::CutAfterRequest));
            let copies = if repeats.is_empty() { 1 } else { 2 };
            if let Some(request) = request {
                let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
                ledger.expect(request, false);
                if copies == 2 {
                    ledger.expect(request, true);
                }
            }
            for _ in 0..copies {
                if !self.write(&mut server, &piece, Way::Requests).await {
                    // The server has gone; its closed side ends this connection.
                    return Ok(());
                }
            }
            note_fired(&repeats);
            if !cuts.is_empty() {
                return Err(End::Cut(cuts));
            }
        }
        self.stay_if_lost().await;
        let _ = server.shutdown().await;
        Ok(())
    }

    async fn read_replies(&self, mut server: ReadHalf<'_>, queue: mpsc::UnboundedSender<Piece>) -> Result<(), End> {
        let mut buffer = Vec::new();
        while read_more(&mut server, &mut buffer).await {
            while let Some(bytes) = self.cut(&mut buffer, resp::value_length) {
                let origin = if self.opaque.load(Ordering::Relaxed) {
                    Origin::Message
                } else {
                    self.ledger
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .origin(&bytes)
                };
                let (request, copy) = match origin {
                    Origin::Reply(request) => (Some(request), false),
                    Origin::Copy => (None, true),
                    Origin::Message => (None, false),
                };
                let due = if copy {
                    Instant::now()
                } else {
                    self.due(Way::Replies, request.as_deref())
                };
                let _ = queue.send(Piece {
                    bytes,
                    due,
                    request,
                    copy,
                });
            }
        }
        Ok(())
    }

    async fn write_replies(
        &self,
        mut queue: mpsc::UnboundedReceiver<Piece>,
        mut client: WriteHalf<'_>,
    ) -> Result<(), End> {
        let mut gone = false;
        while let Some(piece) = queue.recv().await {
            if piece.copy {
                continue;
            }
            sleep_until(piece.due).await;
            let request = piece.request.as_deref();
            if !self.may_pass(Way::Replies, request).await {
                continue;
            }
            let swallow = |fault| matches!(fault, Fault::SwallowReplyThenReset);
            let swallows = self.shared.book.due(Way::Replies, self.sight(), request, swallow);
            if !swallows.is_empty() {
                return Err(End::Reset(swallows));
            }
            // Replies to a client that has left are thrown away: the server must be able to finish.
            gone = gone || !self.write(&mut client, &piece, Way::Replies).await;
        }
        self.stay_if_lost().await;
        Err(End::Closed)
    }

    /// When this piece may go on, by the delays in force now.
    fn due(&self, way: Way, request: Option<&Request>) -> Instant {
        let mut due = Instant::now();
        for rule in self
            .shared
            .book
            .due(way, self.sight(), request, |fault| matches!(fault, Fault::Delay { .. }))
        {
            if let Fault::Delay { by, jitter, .. } = rule.fault {
                due += by + jitter.mul_f64(fastrand::f64());
            }
            rule.note_fired();
        }
        due
    }

    /// Waits out the holds; `false` if the piece is swallowed.
    async fn may_pass(&self, way: Way, request: Option<&Request>) -> bool {
        let book = &self.shared.book;
        while !self.lost.load(Ordering::Relaxed) {
            let holds = book.due(way, self.sight(), request, |fault| matches!(fault, Fault::Hold { .. }));
            if holds.is_empty() {
                break;
            }
            for rule in holds {
                rule.note_fired();
                rule.ended().await;
            }
        }
        if !self.lost.load(Ordering::Relaxed) {
            let holes = book.due(way, self.sight(), request, |fault| matches!(fault, Fault::BlackHole));
            for rule in holes {
                self.lost.store(true, Ordering::Relaxed);
                rule.note_fired();
            }
        }
        !self.lost.load(Ordering::Relaxed)
    }

    /// A connection in a black hole is never closed: neither side learns of the other's end.
    async fn stay_if_lost(&self) {
        if self.lost.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }

    /// Writes a piece, in drips if a rule says so. `false` if the other side is gone.
    async fn write(&self, to: &mut WriteHalf<'_>, piece: &Piece, way: Way) -> bool {
        let drips = self
            .shared
            .book
            .due(way, self.sight(), piece.request.as_deref(), |fault| {
                matches!(fault, Fault::Drip { .. })
            });
        note_fired(&drips);
        if let Some(Fault::Drip { bytes, pause, .. }) = drips.first().map(|rule| rule.fault) {
            for drop in piece.bytes.chunks(bytes) {
                if to.write_all(drop).await.is_err() {
                    return false;
                }
                sleep(pause).await;
            }
            return true;
        }
        to.write_all(&piece.bytes).await.is_ok()
    }

    /// Takes the next whole value out of the buffer, or all of it once the stream is opaque.
    fn cut(&self, buffer: &mut Vec<u8>, measure: fn(&[u8]) -> Result<Option<usize>, Malformed>) -> Option<Vec<u8>> {
        if buffer.is_empty() {
            return None;
        }
        let length = if self.opaque.load(Ordering::Relaxed) {
            Ok(Some(buffer.len()))
        } else {
            measure(buffer)
        };
        let length = length.unwrap_or_else(|Malformed| {
            self.opaque.store(true, Ordering::Relaxed);
            Some(buffer.len())
        })?;
        Some(buffer.drain(..length).collect())
    }
}

/// Reads what there is; `false` at the end, whether in good order or not.
async fn read_more(from: &mut ReadHalf<'_>, buffer: &mut Vec<u8>) -> bool {
    buffer.reserve(16 * 1024);
    from.read_buf(buffer).await.is_ok_and(|count| count > 0)
}
