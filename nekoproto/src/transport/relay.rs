//! [`Relay`]: joins two connections of nodes that cannot connect to each other. It sees TLS, which it cannot read.

use std::{io, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;

use super::io::prepare;

/// Pairs of connections joined at once.
const PAIRS_MAX: usize = 64;
/// Bytes read, paid for and written at once; so many are kept for each direction of each pair.
const PIECE_BYTES: usize = 32 * 1024;
/// Time in which the receiving end takes a piece; otherwise the pair ends.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// Time without a byte in either direction after which a pair ends.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// Bytes that are relayed at once after a pause are those of this time.
const BURST: Duration = Duration::from_millis(50);

/// What a node relays for others, all pairs together.
#[derive(Debug)]
pub struct Relay {
    pairs: Semaphore,
    rate: Mutex<Rate>,
}

#[derive(Debug)]
struct Rate {
    /// 0: nothing is relayed.
    bytes_per_s: u64,
    /// When the next piece is due.
    next: Instant,
}

impl Default for Relay {
    fn default() -> Self {
        let rate = Mutex::new(Rate { bytes_per_s: 0, next: Instant::now() });
        Self { pairs: Semaphore::new(PAIRS_MAX), rate }
    }
}

impl Relay {
    /// From now on so many bytes are relayed in a second, in all; 0: none.
    pub fn set_rate(&self, bytes_per_s: u64) {
        self.rate.lock().bytes_per_s = bytes_per_s;
    }

    /// Whether a pair would be joined now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.rate.lock().bytes_per_s > 0 && self.pairs.available_permits() > 0
    }

    /// Relays until one of the two ends.
    pub(super) async fn join(&self, pair: [TcpStream; 2]) {
        let Ok(_place) = self.pairs.try_acquire() else { return };
        if self.rate.lock().bytes_per_s == 0 {
            return;
        }
        let prepared = pair.iter().try_for_each(prepare);
        let [one, other] = pair.map(TcpStream::into_split);
        let there = self.pump(one.0, other.1);
        let back = self.pump(other.0, one.1);
        let ended = match prepared {
            Ok(()) => tokio::try_join!(there, back).map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            debug!(%error, "a relay ended");
        }
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = timeout(IDLE_MAX, from.read(&mut piece)).await??;
            if read == 0 {
                return to.shutdown().await;
            }
            sleep_until(self.reserve(read)).await;
            timeout(TAKEN_WITHIN, to.write_all(&piece[..read])).await??;
        }
    }

    /// When `bytes` may be passed on. Each direction of each pair waits for one piece at a time: all have the same share.
    fn reserve(&self, bytes: usize) -> Instant {
        let mut rate = self.rate.lock();
        let now = Instant::now();
        let due = rate.next.max(now.checked_sub(BURST).unwrap_or(now));
        rate.next = due + Duration::from_secs_f64(bytes as f64 / rate.bytes_per_s.max(1) as f64);
        due
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{duplex, empty, sink},
        spawn,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_pairs_together_keep_the_rate_and_share_it() {
        let relay = Relay::default();
        relay.set_rate(1_000_000);
        let began = Instant::now();
        let pump = || async {
            let (mut here, there) = duplex(64 * 1024);
            let writing = spawn(async move { here.write_all(&vec![7; 2_000_000]).await.unwrap() });
            relay.pump(there, sink()).await.unwrap();
            writing.await.unwrap();
            began.elapsed().as_secs_f64()
        };
        let (one, other) = tokio::join!(pump(), pump());
        assert!((3.8..4.1).contains(&one) && (3.8..4.1).contains(&other), "{one} {other}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_takes_nothing_ends_the_relay() {
        let relay = Relay::default();
        relay.set_rate(1_000_000);
        let (mut here, there) = duplex(1024);
        let (full, _kept) = duplex(16);
        let writing = spawn(async move { here.write_all(&[7; 100_000]).await });
        let ended = relay.pump(there, full).await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        drop(writing);
        relay.pump(empty(), sink()).await.unwrap();
    }
}
