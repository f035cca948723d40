//! The floor: a raw TCP ping-pong on the same runtime, which no call can be faster than.

use std::{
    io,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const MESSAGE_BYTES: usize = 64;
const ROUNDS: usize = 5000;
const WARM_UP: usize = 500;

/// Median round trip of a 64-byte message over loopback TCP.
///
/// # Errors
/// The sockets failed.
pub async fn measure() -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut message = [0; MESSAGE_BYTES];
        while stream.read_exact(&mut message).await.is_ok() {
            stream.write_all(&message).await?;
        }
        io::Result::Ok(())
    });
    // In a task of its own, as the clients are.
    let asking = tokio::spawn(async move {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let mut took = Vec::with_capacity(ROUNDS);
        let mut message = [0; MESSAGE_BYTES];
        for round in 0..WARM_UP + ROUNDS {
            let began = Instant::now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
            if round >= WARM_UP {
                took.push(began.elapsed());
            }
        }
        io::Result::Ok(took)
    });
    let mut took = asking.await??;
    echo.await??;
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
