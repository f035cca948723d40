//! [`Rendezvous`]: TCP connections that somebody waits for, told apart by a token in their first bytes.
//!
//! A node that cannot be dialled dials itself: the one that wants to reach it, or an indexer that joins the two
//! connections. Then the handshake follows as on any other connection, the other way round: who was dialled begins it.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};

use super::io::prepare;
use crate::values::{IndexerAddr, NodeId};

/// First bytes of such a connection; those of a handshake differ in the first one.
pub(super) const MAGIC: &[u8; 4] = b"BACK";
/// Connections waited for at once.
const WAITING_MAX: usize = 1024;
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for the token to arrive.
const TOKEN_WITHIN: Duration = Duration::from_secs(2);

/// Has nodes connect here that cannot be connected to.
pub trait CallsBack: Send + Sync {
    /// The connection that `node` opened because `indexer` told it to, before its handshake.
    fn call_back(
        &self,
        indexer: IndexerAddr,
        node: NodeId,
    ) -> Pin<Box<dyn Future<Output = Option<TcpStream>> + Send + '_>>;
}

/// Tells a connection apart that is waited for. Whoever knows it may take that place, and still has to prove its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token(#[serde(with = "serde_bytes")] [u8; 16]);

impl Token {
    /// A new one, which nobody guesses.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// With these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// What becomes of a connection with a token.
#[derive(Debug)]
enum Waiting {
    /// Somebody waits for it.
    Here(oneshot::Sender<TcpStream>),
    /// Two with this token are to be joined, of which none or one has come.
    Pair(Option<TcpStream>),
}

/// Connections that are waited for.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous(Arc<Mutex<HashMap<Token, Waiting>>>);

/// A place in a [`Rendezvous`], until dropped.
#[derive(Debug)]
pub struct Expected {
    all: Rendezvous,
    token: Token,
    arriving: Option<oneshot::Receiver<TcpStream>>,
}

impl Rendezvous {
    /// Waits for a connection with `token`; `None` if too many are waited for.
    #[must_use]
    pub fn expect(&self, token: Token) -> Option<Expected> {
        let (sender, receiver) = oneshot::channel();
        self.add(token, Waiting::Here(sender), Some(receiver))
    }

    /// Has two connections with `token` joined.
    #[must_use]
    pub fn expect_pair(&self, token: Token) -> Option<Expected> {
        self.add(token, Waiting::Pair(None), None)
    }

    fn add(
        &self,
        token: Token,
        waiting: Waiting,
        arriving: Option<oneshot::Receiver<TcpStream>>,
    ) -> Option<Expected> {
        let mut all = self.0.lock();
        if all.len() >= WAITING_MAX || all.contains_key(&token) {
            return None;
        }
        all.insert(token, waiting);
        Some(Expected { all: self.clone(), token, arriving })
    }

    /// Listens on a free port of all addresses, and takes what is waited for; the future never ends.
    ///
    /// # Errors
    /// The system has no port.
    pub async fn listen(&self) -> io::Result<(u16, impl Future<Output = ()> + Send + '_)> {
        let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?, // a system without IPv6
            Ok(listener) => listener,
        };
        let port = listener.local_addr()?.port();
        let accepting = async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(self.arrived(stream).await),
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                }
            }
        };
        Ok((port, accepting))
    }

    /// Takes a connection that begins with [`MAGIC`]. Returns the two that are to be joined, if it is the second one.
    ///
    /// # Errors
    /// Its token does not come, or nobody waits for it; it is closed.
    pub(super) async fn arrived(&self, mut stream: TcpStream) -> io::Result<Option<[TcpStream; 2]>> {
        let mut first = [0; 20];
        timeout(TOKEN_WITHIN, stream.read_exact(&mut first)).await??;
        if !first.starts_with(MAGIC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut token = [0; 16];
        token.copy_from_slice(&first[MAGIC.len()..]);
        let (token, mut all) = (Token(token), self.0.lock());
        match all.remove(&token) {
            Some(Waiting::Here(waiting)) => drop(waiting.send(stream)), // or it is not waited for any more
            Some(Waiting::Pair(None)) => drop(all.insert(token, Waiting::Pair(Some(stream)))),
            Some(Waiting::Pair(Some(other))) => return Ok(Some([other, stream])),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(None)
    }
}

impl Expected {
    /// Its token.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The connection, when it comes. Never, if it is one of a pair.
    ///
    /// # Cancel safety
    /// Safe: the place is free again.
    pub async fn stream(mut self) -> Option<TcpStream> {
        self.arriving.take()?.await.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.token);
    }
}

/// Sends what tells `stream` apart as the one that is waited for with `token`.
pub(super) async fn present(stream: &mut TcpStream, token: Token) -> io::Result<()> {
    prepare(stream)?;
    stream.write_all(&[&MAGIC[..], &token.0].concat()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn presented(token: Token) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        present(&mut stream, token).await.unwrap();
        stream.write_all(b"rest").await.unwrap();
        listener.accept().await.unwrap().0
    }

    #[tokio::test]
    async fn a_connection_comes_to_who_waits_for_its_token_alone() {
        let (all, token) = (Rendezvous::default(), Token::random());
        let expected = all.expect(token).unwrap();
        assert!(all.expect(token).is_none(), "it is waited for already");
        assert!(all.arrived(presented(Token::random()).await).await.is_err());
        assert!(all.arrived(presented(token).await).await.unwrap().is_none());
        let mut rest = [0; 4];
        expected.stream().await.unwrap().read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"rest");
        assert!(all.arrived(presented(token).await).await.is_err(), "it came before");
    }

    #[tokio::test]
    async fn the_second_of_a_pair_brings_both() {
        let (all, token) = (Rendezvous::default(), Token::random());
        let pair = all.expect_pair(token).unwrap();
        assert!(all.arrived(presented(token).await).await.unwrap().is_none());
        assert!(all.arrived(presented(token).await).await.unwrap().is_some());
        drop(pair);
        drop(all.expect_pair(token).unwrap());
        assert!(all.arrived(presented(token).await).await.is_err(), "nobody waits any more");
        let many: Vec<_> = (0..2 * WAITING_MAX).map_while(|_| all.expect(Token::random())).collect();
        assert_eq!(many.len(), WAITING_MAX);
    }
}
