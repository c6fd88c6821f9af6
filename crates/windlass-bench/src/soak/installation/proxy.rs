//! The network between one process and Postgres: a TCP proxy that can cut it, delay it, or stop delivering in one direction.
//!
//! How it stops: its tasks end when it is dropped.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Healthy,
    /// Every connection is closed, and new ones are closed immediately.
    Cut,
    /// Everything in this direction arrives later by this time.
    Delay(Direction, Duration),
    /// Nothing arrives in this direction until the fault ends. Then it arrives late, even if its sender has closed the connection.
    BlackHole(Direction),
    /// What was sent in this direction is lost, and neither side is notified: the connection stays open and is never usable again.
    HalfOpen(Direction),
}

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    network: Arc<watch::Sender<Network>>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    pub(crate) async fn start(server_port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let network = Arc::new(watch::Sender::new(Network::Healthy));
        let changes = network.clone();
        let accepting = tokio::spawn(async move {
            loop {
                // The system may be out of descriptors for a moment, as during a storm of connections.
                let Ok((client, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                tokio::spawn(connect(client, server_port, changes.subscribe()));
            }
        });
        Ok(Self { port, network, accepting })
    }

    pub(crate) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn connect(client: TcpStream, server_port: u16, network: watch::Receiver<Network>) {
    if *network.borrow() == Network::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).await else { return };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = deliver(from_client, to_server, Direction::ToServer, network.clone());
    let responses = deliver(from_server, to_client, Direction::ToClient, network.clone());
    let mut changes = network;
    tokio::select! {
        _ = async { tokio::join!(requests, responses) } => {}
        // Dropping both sides closes them.
        _ = changes.wait_for(|network| *network == Network::Cut) => {}
    }
}

/// Ends when its sender has closed the connection and everything before that was delivered.
async fn deliver(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut network: watch::Receiver<Network>,
) {
    let mut bytes = vec![0; 1 << 16];
    let mut is_lost = false;
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        let now = *network.borrow();
        match now {
            Network::Delay(delayed, by) if delayed == direction => tokio::time::sleep(by).await,
            Network::BlackHole(silent) if silent == direction => {
                let ends = network.wait_for(|now| *now != Network::BlackHole(direction));
                if ends.await.is_err() {
                    return;
                }
            }
            Network::HalfOpen(silent) if silent == direction => is_lost = true,
            _ => {}
        }
        if is_lost {
            if read == 0 {
                // Not even the end of the connection arrives before the fault has ended; then its sender repeats it.
                let ends = network.wait_for(|now| *now != Network::HalfOpen(direction));
                if ends.await.is_ok() {
                    let _ = to.shutdown().await;
                }
                return;
            }
        } else if read == 0 {
            // A failure means that the receiver has closed it too.
            let _ = to.shutdown().await;
            return;
        } else if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::{Direction, Network, Proxy};

    /// A server that echoes, behind a proxy, and a client with an open connection.
    async fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let proxy = Proxy::start(port).await.unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        assert_eq!(answer(&mut client).await, Some(1));
        (proxy, client)
    }

    /// How many bytes come back for one, or nothing if none do in a while.
    async fn answer(client: &mut TcpStream) -> Option<usize> {
        client.write_all(b"x").await.ok()?;
        let mut byte = [0; 16];
        tokio::time::timeout(Duration::from_millis(200), client.read(&mut byte)).await.ok()?.ok()
    }

    #[tokio::test]
    async fn a_cut_closes_open_connections_and_rejects_new_ones() {
        let (proxy, mut client) = echo().await;
        proxy.set(Network::Cut);
        assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let mut other = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        assert_eq!(other.read(&mut [0; 1]).await.unwrap_or(0), 0);
        proxy.set(Network::Healthy);
        let mut third = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        assert_eq!(answer(&mut third).await, Some(1));
    }

    #[tokio::test]
    async fn a_black_hole_delivers_late_and_a_half_open_connection_never() {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (proxy, mut client) = echo().await;
            proxy.set(Network::BlackHole(direction));
            assert_eq!(answer(&mut client).await, None);
            proxy.set(Network::Healthy);
            assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 1);

            proxy.set(Network::HalfOpen(direction));
            assert_eq!(answer(&mut client).await, None);
            proxy.set(Network::Healthy);
            assert_eq!(answer(&mut client).await, None);
        }
    }
}
