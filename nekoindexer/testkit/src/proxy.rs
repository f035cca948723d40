//! A TCP proxy in front of an indexer, which a test can cut and restore.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpSocket, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Forwards connections from one address to another. Dropping it cuts them all.
pub struct Proxy(JoinHandle<()>);

impl Proxy {
    /// Forwards what connects to `from` to `to`.
    pub fn begin(from: SocketAddr, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(from).unwrap();
        let listener = socket.listen(16).unwrap();
        Self(tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                open.spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    drop(copy_bidirectional(&mut near, &mut far).await); // either end may close it
                });
            }
        }))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}
