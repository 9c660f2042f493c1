//! The proxy's door: takes connections, or refuses them without giving up the port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc as std_mpsc};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::{Shared, link};

/// How many connections may wait to be taken.
const BACKLOG: u32 = 1024;

/// An order to the door, with somebody waiting for its result.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) open: bool,
    pub(super) done: std_mpsc::Sender<io::Result<()>>,
}

enum Door {
    Open(TcpListener),
    /// Bound but not listening: the port stays ours and connections are refused.
    Shut(TcpSocket),
}

impl Door {
    fn shut(port: u16) -> io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // Lets the shut door take the port while the open one still has it.
        socket.set_reuseport(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        Ok(socket)
    }

    fn turn(self, open: bool) -> (Option<Self>, io::Result<()>) {
        match (self, open) {
            (Self::Shut(socket), true) => match socket.listen(BACKLOG) {
                Ok(listener) => (Some(Self::Open(listener)), Ok(())),
                Err(error) => (None, Err(error)),
            },
            (Self::Open(listener), false) => {
                let shut = listener.local_addr().and_then(|address| Self::shut(address.port()));
                match shut {
                    Ok(socket) => (Some(Self::Shut(socket)), Ok(())),
                    Err(error) => (Some(Self::Open(listener)), Err(error)),
                }
            }
            (same, _) => (Some(same), Ok(())),
        }
    }

    async fn next(&self) -> Option<TcpStream> {
        match self {
            // A connection that was reset before it was taken is not worth a word.
            Self::Open(listener) => listener.accept().await.ok().map(|(client, _)| client),
            Self::Shut(_) => std::future::pending().await,
        }
    }
}

/// Runs the proxy until nobody can give orders any more. Tells its address first.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    address: std_mpsc::Sender<io::Result<SocketAddr>>,
) {
    let opened = Door::shut(0).and_then(|socket| socket.listen(BACKLOG));
    let listener = match opened.and_then(|listener| Ok((listener.local_addr()?, listener))) {
        Ok((bound, listener)) => {
            let _ = address.send(Ok(bound));
            listener
        }
        Err(error) => {
            let _ = address.send(Err(error));
            return;
        }
    };
    let mut door = Door::Open(listener);
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some(order) = order else { return };
                let (turned, result) = door.turn(order.open);
                let _ = order.done.send(result);
                let Some(turned) = turned else { return };
                door = turned;
            }
            client = door.next() => {
                if let Some(client) = client {
                    let number = shared.number_connection();
                    tokio::spawn(link::serve(Arc::clone(&shared), number, client));
                }
            }
        }
    }
}
