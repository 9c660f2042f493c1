//! A network that misbehaves on purpose, at an exact request or reply.
//!
//! A [`Proxy`] stands between clients and one server. It reads both directions as whole requests and whole replies
//! (RESP2 and RESP3, messages and pushes told from replies), so "lose the reply to the second `EVALSHA`" means
//! just that. It runs on a thread and runtime of its own: neither a paused clock nor a blocked runtime of the test
//! stops it. Streams that are not requests and replies (replication, `MONITOR`) pass through and can be delayed,
//! held and swallowed; clients that switch replies off (`CLIENT REPLY`) are not supported.
//!
//! ```no_run
//! # async fn example() {
//! use lockkeeper_testkit::{Matcher, Proxy, RedisServer};
//! let server = RedisServer::start();
//! let proxy = Proxy::start(server.address());
//! let lost = proxy.on(Matcher::command("EVALSHA")).nth(2).swallow_reply_then_reset();
//! // .. the client under test works through proxy.url() ..
//! lost.fired().await;
//! # }
//! ```

mod faults;
mod gate;
mod journal;
mod ledger;
mod link;
mod matcher;
mod rule;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

pub use faults::Faults;
pub use journal::Request;
pub use matcher::Matcher;
pub use rule::Rule;

use gate::Order;
use journal::Journal;
use link::Link;
use rule::RuleBook;

/// How long the proxy's thread may take to do what it is told.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// What the handle and the proxy's thread have in common.
#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    book: Arc<RuleBook>,
    journal: Mutex<Journal>,
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
}

impl Shared {
    fn upstream(&self) -> SocketAddr {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number_connection(&self) -> u64 {
        let mut journal = self.journal();
        journal.connections += 1;
        journal.connections
    }
}

/// A proxy on a free loopback port. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to `upstream`, with no faults.
    ///
    /// # Panics
    ///
    /// If the system gives no port or no thread.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            book: Arc::default(),
            journal: Mutex::default(),
            links: Mutex::default(),
        });
        let (orders, order_queue) = mpsc::unbounded_channel();
        let (tell_address, address) = std_mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for the proxy");
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("testkit-proxy".to_owned())
            .spawn(move || runtime.block_on(gate::run(for_thread, order_queue, tell_address)))
            .expect("a thread for the proxy");
        let address = address
            .recv()
            .expect("the proxy's thread runs")
            .expect("a loopback port for the proxy");
        Self {
            address,
            shared,
            orders: Some(orders),
            thread: Some(thread),
        }
    }

    /// The proxy's own loopback address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for clients: `redis://127.0.0.1:port/`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// As [`url`](Self::url), for the database with this number.
    #[must_use]
    pub fn url_for_db(&self, database: u32) -> String {
        format!("{}{database}", self.url())
    }

    /// Begins a fault for the traffic that `matcher` chooses; it is in force when a fault is named.
    pub fn on(&self, matcher: Matcher) -> Faults {
        Faults {
            book: Arc::clone(&self.shared.book),
            matcher,
            turns: None,
        }
    }

    /// Ends all rules and lets go what they hold.
    pub fn clear(&self) {
        self.shared.book.remove_all();
    }

    /// Sends new connections to another server; open ones stay where they are.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }

    /// Resets all open connections (the clients see a reset, not an end). Returns how many.
    ///
    /// # Panics
    ///
    /// If they are not closed after ten seconds.
    #[allow(clippy::must_use_candidate, reason = "the count is a by-product")]
    pub fn reset_all(&self) -> usize {
        self.reset(&Matcher::any())
    }

    /// Resets the open connections that `matcher` chooses by its conditions on connections. Returns how many.
    ///
    /// # Panics
    ///
    /// If they are not closed after ten seconds.
    #[allow(clippy::must_use_candidate, reason = "the count is a by-product")]
    pub fn reset(&self, matcher: &Matcher) -> usize {
        let mut chosen = Vec::new();
        for (number, link) in self.shared.links().iter() {
            if matcher.chooses_connection(link.sight()) {
                link.reset();
                chosen.push(*number);
            }
        }
        let start = Instant::now();
        while chosen.iter().any(|number| self.shared.links().contains_key(number)) {
            assert!(
                start.elapsed() < ORDER_LIMIT,
                "connections are not closed after {ORDER_LIMIT:?}"
            );
            thread::sleep(Duration::from_millis(1));
        }
        chosen.len()
    }

    /// Refuses new connections, as a port without a server does. Open ones live on.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn refuse_connections(&self) {
        self.turn_door(false);
    }

    /// Takes connections again after [`refuse_connections`](Self::refuse_connections), on the same port.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn accept_connections(&self) {
        self.turn_door(true);
    }

    fn turn_door(&self, open: bool) {
        let (done, result) = std_mpsc::channel();
        let orders = self.orders.as_ref().expect("the proxy runs until it is dropped");
        orders.send(Order { open, done }).expect("the proxy's thread runs");
        result
            .recv_timeout(ORDER_LIMIT)
            .expect("the proxy's thread answers")
            .expect("the system lets a port be opened and shut");
    }

    /// Number of connections taken so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.journal().connections
    }

    /// Number of connections open now, those in a black hole included.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.links().len()
    }

    /// Number of requests read from clients so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.journal().requests
    }

    /// Number of requests of this command read from clients so far, in any case.
    #[must_use]
    pub fn requests_of(&self, command: &str) -> u64 {
        let command = command.to_ascii_uppercase();
        self.shared.journal().by_command.get(&command).copied().unwrap_or(0)
    }

    /// Numbers of requests by command, in capitals.
    #[must_use]
    pub fn request_counts(&self) -> BTreeMap<String, u64> {
        self.shared.journal().by_command.clone()
    }

    /// The last 10,000 requests, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<Arc<Request>> {
        self.shared.journal().recent.iter().cloned().collect()
    }

    /// Forgets the requests of the [`log`](Self::log); the counters go on.
    pub fn clear_log(&self) {
        self.shared.journal().recent.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Without anybody to give orders the thread ends, and with its runtime all connections.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
