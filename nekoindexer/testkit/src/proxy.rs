//! A TCP proxy in front of an indexer, which a test can cut and restore.

use crate::prelude::*;

use nekoproto::transport::stop_listening;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

/// Forwards connections from one address to another. Dropping it cuts them all.
pub struct Proxy {
    listener: Arc<TcpListener>,
    forwarding: JoinHandle<()>,
}

impl Proxy {
    pub fn begin(from: SocketAddr, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(from).unwrap();
        let listener = Arc::new(socket.listen(16).unwrap());
        let accepting = Arc::clone(&listener);
        let forwarding = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut near, _)) = accepting.accept().await {
                open.spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    drop(copy_bidirectional(&mut near, &mut far).await); // either end may close it
                });
            }
        });
        Self { listener, forwarding }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        stop_listening(&*self.listener);
        self.forwarding.abort();
    }
}
