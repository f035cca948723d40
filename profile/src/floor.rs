//! The floor: round trips that no query can be faster than, on the same threads as the queries.

pub mod echo;
pub mod layouts;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    ContentHash,
    transport::{Security, call_until},
};
use tarpc::context::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use self::echo::MESSAGE_BYTES;
use crate::{
    cluster::{
        affinity::{keep_on_core, on_own_thread},
        layout::Layout,
        node::{Kind, Place},
    },
    report::figures::Figures,
};

/// Measured round trips of one floor.
const ROUNDS: usize = 4000;
/// Round trips before those.
const WARM_UP: usize = 400;
/// Calls for a throughput.
const CALLS: usize = 100_000;

/// What a query is set beside.
#[derive(Clone, Debug)]
pub struct Floor {
    /// A raw TCP round trip of [`MESSAGE_BYTES`].
    pub raw: Figures,
    /// An echo call through our own transport, with the security of the run.
    pub call: Figures,
}

impl Floor {
    /// Measures both.
    ///
    /// # Errors
    /// The sockets failed.
    pub async fn measure(place: &Place) -> anyhow::Result<Self> {
        Ok(Self { raw: raw(place).await?, call: call(place, place.security).await? })
    }
}

/// Raw TCP: the bytes go to where the indexers run, and back.
///
/// # Errors
/// The sockets failed.
pub async fn raw(place: &Place) -> anyhow::Result<Figures> {
    if place.layout == Layout::Processes {
        let node = place.process(Kind::RawEcho, Vec::new()).await?;
        let took = ask_raw(node.addr()).await;
        node.stop().await;
        return Ok(Figures::of(took?));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.into_std()?;
    let addr = listener.local_addr()?;
    // Taken up again there: a socket belongs to the runtime it was made on.
    let echo = place.runtime(0).spawn(async { echo::serve_raw(TcpListener::from_std(listener)?).await });
    let took = ask_raw(addr).await?;
    echo.await??;
    Ok(Figures::of(took))
}

async fn ask_raw(addr: SocketAddr) -> anyhow::Result<Vec<Duration>> {
    // In a task of its own, as the clients are.
    let asking = tokio::spawn(async move {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let mut took = Vec::with_capacity(ROUNDS);
        let mut message = [7; MESSAGE_BYTES];
        for round in 0..WARM_UP + ROUNDS {
            let began = Instant::now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
            if round >= WARM_UP {
                took.push(began.elapsed());
            }
        }
        anyhow::ensure!(message == [7; MESSAGE_BYTES], "the echo returned other bytes");
        Ok(took)
    });
    asking.await?
}

/// An echo server where the indexers run, and a client here.
async fn with_echo<T, F: Future<Output = anyhow::Result<T>>>(
    place: &Place,
    security: Security,
    work: impl FnOnce(echo::Client) -> F,
) -> anyhow::Result<T> {
    if place.layout == Layout::Processes {
        let place = Place { security, ..place.clone() };
        let node = place.process(Kind::Echo, Vec::new()).await?;
        let done = work(echo::Client::connect(node.addr(), security).await?).await;
        node.stop().await;
        return done;
    }
    let server = place.runtime(0).spawn(async move { echo::Server::start(security) }).await??;
    work(echo::Client::connect(server.addr(), security).await?).await
}

/// Longer than any echo takes.
fn patient() -> Context {
    call_until(Instant::now() + Duration::from_secs(10))
}

const PAYLOAD: echo::Payload = (ContentHash::from_bytes([3; 32]), ContentHash::from_bytes([4; 32]));

/// An echo call through our own transport, one at a time.
///
/// # Errors
/// The connection failed.
pub async fn call(place: &Place, security: Security) -> anyhow::Result<Figures> {
    let ask = |client: echo::Client| async move {
        let asking = tokio::spawn(async move {
            let mut took = Vec::with_capacity(ROUNDS);
            for round in 0..WARM_UP + ROUNDS {
                let began = Instant::now();
                let returned = client.calls.echo(patient(), PAYLOAD).await?;
                if round >= WARM_UP {
                    took.push(began.elapsed());
                }
                anyhow::ensure!(returned == PAYLOAD, "the echo returned other bytes");
            }
            Ok(Figures::of(took))
        });
        asking.await?
    };
    with_echo(place, security, ask).await
}

/// Echo calls a second over one connection, with `depth` of them in flight.
///
/// # Errors
/// The connection failed.
pub async fn calls_per_s(place: &Place, security: Security, depth: usize) -> anyhow::Result<f64> {
    let ask = |client: echo::Client| async move {
        let asking = tokio::spawn(async move {
            let one = || client.calls.echo(patient(), PAYLOAD);
            let began = Instant::now();
            let mut in_flight: FuturesUnordered<_> = (0..depth.min(CALLS)).map(|_| one()).collect();
            let mut left = CALLS - in_flight.len();
            while let Some(returned) = in_flight.next().await {
                anyhow::ensure!(returned? == PAYLOAD, "the echo returned other bytes");
                if left > 0 {
                    left -= 1;
                    in_flight.push(one());
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
            Ok(CALLS as f64 / began.elapsed().as_secs_f64())
        });
        asking.await?
    };
    with_echo(place, security, ask).await
}

/// The raw round trip between two threads that block, without any runtime, on these cores: what the
/// system alone costs.
///
/// # Errors
/// The sockets failed.
pub fn blocking(cores: [usize; 2]) -> anyhow::Result<Figures> {
    Ok(Figures::of(on_own_thread(|| ask_blocking(cores))??))
}

fn ask_blocking([here, there]: [usize; 2]) -> anyhow::Result<Vec<Duration>> {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
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
    let mut took = Vec::with_capacity(ROUNDS);
    let mut message = [7; MESSAGE_BYTES];
    for round in 0..WARM_UP + ROUNDS {
        let began = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if round >= WARM_UP {
            took.push(began.elapsed());
        }
    }
    drop(stream);
    echo.join().map_err(|_| anyhow::anyhow!("the echo panicked"))??;
    Ok(took)
}
