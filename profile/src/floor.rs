//! The floor: round trips that no query can be faster than, on the same threads as the queries.

pub(crate) mod echo;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::echo::MESSAGE_BYTES;
use crate::cluster::deployment::Deployment;
use crate::cluster::layout::{keep_on_core, on_own_thread};
use crate::prelude::*;
use crate::report::{Row, amount, count, figures::Figures};
use crate::{cluster::layout::Layout, node::Role};

const TRIPS: usize = amount(4400);
/// The first of them, which do not count.
const WARM_UP: usize = amount(400);
const CALLS: usize = amount(100_000);

/// The times of a round trip that is made again and again; the first of them do not count.
macro_rules! trips {
    ($trip:block) => {{
        let mut took = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let began = Instant::now();
            $trip
            took.push(began.elapsed());
        }
        Figures::of(took.into_iter().skip(WARM_UP))
    }};
}

/// What a query is set beside.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    /// A raw TCP round trip of [`MESSAGE_BYTES`].
    pub(crate) raw: Figures,
    /// An echo call through our own transport, with the security of the run.
    pub(crate) call: Figures,
}

impl Floor {
    pub(crate) async fn measure(deployment: &Deployment) -> Result<Self> {
        let raw = raw(deployment).await.context("cannot measure a round trip of raw TCP")?;
        let call = call(deployment, deployment.security).await.context("cannot measure an echo call")?;
        Ok(Self { raw, call })
    }

    /// Both in words, where they are of two processes.
    pub(crate) fn in_words(&self) -> String {
        let (raw, call) = (self.raw.p50, self.call.p50);
        format!("Floor between two processes: raw TCP p50 {raw:.1} us, echo call p50 {call:.1} us.")
    }

    pub(crate) fn facts(&self) -> Row {
        Row::default().with("floor_us", self.raw.p50).with("floor_call_us", self.call.p50)
    }
}

/// Raw TCP: the bytes go to where the indexers run, and back.
pub(crate) async fn raw(deployment: &Deployment) -> Result<Figures> {
    let ask = |addr: SocketAddr| async move {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let mut message = [7; MESSAGE_BYTES];
        let figures = trips!({
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
        });
        ensure!(message == [7; MESSAGE_BYTES], "the echo returned other bytes");
        Ok(figures)
    };
    with_echo(deployment, None, ask).await
}

/// An echo where the indexers run, raw or by calls with this security, and a client of it here that does `work`, in a task
/// of its own as the clients are.
async fn with_echo<T, F>(
    deployment: &Deployment,
    calls: Option<Security>,
    work: impl FnOnce(SocketAddr) -> F,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    if deployment.layout == Layout::Processes {
        let security = calls.unwrap_or(deployment.security);
        let deployment = Deployment { security, ..deployment.clone() };
        let mut process = deployment.process("the echo", Role::Echo { raw: calls.is_none() }).await?;
        let done = tokio::spawn(work(process.addr)).await?;
        process.kill().await;
        return done;
    }
    // A socket belongs to the runtime it was made on.
    let server = deployment.runtime(0).spawn(echo::Server::start(calls)).await??;
    tokio::spawn(work(server.addr)).await?
}

pub(crate) async fn call(deployment: &Deployment, security: Security) -> Result<Figures> {
    let ask = move |addr| async move {
        let client = echo::Pinger::connect(addr, security).await?;
        Ok(trips!({ client.echo().await? }))
    };
    with_echo(deployment, Some(security), ask).await
}

/// Echo calls a second over one connection, with `depth` of them in flight.
pub(crate) async fn calls_per_s(deployment: &Deployment, security: Security, depth: usize) -> Result<f64> {
    let ask = move |addr| async move {
        let client = echo::Pinger::connect(addr, security).await?;
        let began = Instant::now();
        let calls = stream::iter(0..CALLS).map(|_| client.echo());
        calls.buffer_unordered(depth).try_collect::<()>().await?;
        Ok(count(CALLS) / began.elapsed().as_secs_f64())
    };
    with_echo(deployment, Some(security), ask).await
}

/// The raw round trip between two threads that block, without any runtime, on these cores: what the
/// system alone costs.
pub(crate) fn blocking([here, there]: [usize; 2]) -> Result<Figures> {
    on_own_thread(|| {
        let listener = std::net::TcpListener::bind(ANY_PORT)?;
        let addr = listener.local_addr()?;
        let echo = std::thread::spawn(move || {
            keep_on_core(there);
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&message)?;
            }
            std::io::Result::Ok(())
        });
        keep_on_core(here);
        let mut stream = std::net::TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        let mut message = [7; MESSAGE_BYTES];
        let figures = trips!({
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
        });
        drop(stream);
        echo.join().map_err(|_| anyhow!("the echo panicked"))??;
        Ok(figures)
    })?
}
