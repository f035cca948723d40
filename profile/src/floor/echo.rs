//! The least that can be asked: bytes that come back, raw and as a call through our own transport.

use nekoproto::transport::{Calls, Connection, control};
use nekoproto::{ContentHash, Purpose, Role};
use testkit::{peer::endpoint, values::patient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use crate::prelude::*;

pub(crate) const MESSAGE_BYTES: usize = 64;
/// The seeds of the keys of both ends.
const SERVER: u16 = 1;
const CLIENT: u16 = 2;

/// The message of an echo call: 64 bytes.
type Payload = (ContentHash, ContentHash);
const PAYLOAD: Payload = (ContentHash::from_bytes([3; 32]), ContentHash::from_bytes([4; 32]));

/// A call that costs nothing but itself.
#[tarpc::service]
pub(crate) trait EchoService {
    async fn echo(payload: Payload) -> Payload;
}

#[derive(Clone)]
struct Handler;

impl EchoService for Handler {
    async fn echo(self, _: context::Context, payload: Payload) -> Payload {
        payload
    }
}

/// Sends back what comes over the first connection, until it ends.
async fn serve_raw(listener: TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).await.is_ok() {
        stream.write_all(&message).await?;
    }
    Ok(())
}

/// An echo; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    _stop: DropGuard,
}

impl Server {
    /// Begins to send back raw bytes, or to answer calls with this security, on the runtime that this is called on.
    pub(crate) async fn start(calls: Option<Security>) -> Result<Self> {
        let stop = CancellationToken::new();
        let Some(security) = calls else {
            let listener = TcpListener::bind(ANY_PORT).await?;
            let addr = listener.local_addr()?;
            tokio::spawn(stop.clone().run_until_cancelled_owned(serve_raw(listener)));
            return Ok(Self { addr, _stop: stop.drop_guard() });
        };
        let listener = endpoint(SERVER, Role::Indexer, security).bind(ANY_PORT)?;
        let addr = listener.local_addr();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), |connection: Connection| async {
            control::open(connection.io, Handler.serve(), EchoServiceClient::from).1.await;
        }));
        Ok(Self { addr, _stop: stop.drop_guard() })
    }
}

/// Calls a [`Server`]; dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Pinger {
    calls: EchoServiceClient<Calls<EchoServiceRequest, EchoServiceResponse>>,
    _driver: AbortOnDropHandle<()>,
}

impl Pinger {
    pub(crate) async fn connect(addr: SocketAddr, security: Security) -> Result<Self> {
        let connection = endpoint(CLIENT, Role::Peer, security).dial(addr, Purpose::Control, None).await?;
        let (calls, driver) = control::open(connection.io, Handler.serve(), EchoServiceClient::from);
        Ok(Self { calls, _driver: AbortOnDropHandle::new(tokio::spawn(driver)) })
    }

    /// One call; the same must come back.
    pub(crate) async fn echo(&self) -> Result<()> {
        let returned = self.calls.echo(patient(), PAYLOAD).await?;
        ensure!(returned == PAYLOAD, "the echo returned other bytes");
        Ok(())
    }
}
