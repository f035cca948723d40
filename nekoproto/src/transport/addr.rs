//! Addresses as people write them, and lookups of host names that block nobody.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    str::FromStr,
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};
use tracing::debug;

/// Lookups that this process has under way at most. One that hangs keeps its place, and its thread, until the system gives
/// it up.
const LOOKUPS_MAX: usize = 4;
/// Time for a lookup, its turn included.
const LOOKUP_WITHIN: Duration = Duration::from_secs(2);
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 16;

static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);

/// Parses `IP:PORT`, or looks up `HOST:PORT` and returns the first address found. Blocking.
///
/// # Errors
/// One line for people that says what is wrong.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    if !text.contains(':') {
        return Err(format!("'{text}' has no port: expected IP:PORT or HOST:PORT"));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("cannot look up '{text}': {error}"))?;
    found.into_iter().next().ok_or_else(|| format!("'{text}' has no address"))
}

/// Where a link connects: an address, or a host that may have another address later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddr {
    /// As it was written, if that was `HOST:PORT`.
    host: Option<Arc<str>>,
    /// The address, or the one at which the host was found first.
    pub addr: SocketAddr,
}

impl HostAddr {
    /// `HOST:PORT`, which was found at `addr`.
    #[must_use]
    pub fn found(host: &str, addr: SocketAddr) -> Self {
        Self { host: Some(host.into()), addr }
    }
}

impl From<SocketAddr> for HostAddr {
    fn from(addr: SocketAddr) -> Self {
        Self { host: None, addr }
    }
}

impl FromStr for HostAddr {
    type Err = String;

    /// As [`resolve`]. Blocking.
    fn from_str(text: &str) -> Result<Self, String> {
        let addr = resolve(text)?;
        Ok(if text.parse::<SocketAddr>().is_ok() { addr.into() } else { Self::found(text, addr) })
    }
}

/// The addresses of one [`HostAddr`] as they are tried, one after the other.
#[derive(Debug)]
pub(super) struct Addresses {
    host: Option<Arc<str>>,
    /// As of the last lookup that found some.
    found: Vec<SocketAddr>,
    current: SocketAddr,
}

impl Addresses {
    pub(super) fn of(at: HostAddr) -> Self {
        Self { host: at.host, found: vec![at.addr], current: at.addr }
    }

    /// The one to connect to.
    pub(super) const fn current(&self) -> SocketAddr {
        self.current
    }

    /// Looks the host up again. The current address stays if the host still has it and it has not `failed`, or if there is
    /// no other.
    pub(super) async fn look_up_again(&mut self, failed: bool) {
        let Some(host) = &self.host else { return };
        match look_up(Arc::clone(host)).await {
            Ok(found) if !found.is_empty() => self.found = found,
            Ok(_) => debug!(%host, "no address: the last ones are used"),
            Err(error) => debug!(%host, %error, "cannot look it up: the last addresses are used"),
        }
        self.advance(failed);
    }

    fn advance(&mut self, failed: bool) {
        let next = match self.found.iter().position(|addr| *addr == self.current) {
            Some(at) => (at + usize::from(failed)) % self.found.len(),
            None => 0,
        };
        self.current = self.found.get(next).copied().unwrap_or(self.current);
    }
}

/// All addresses of `HOST:PORT`, on a thread of its own: one that hangs keeps neither a runtime nor the end of the process
/// waiting.
async fn look_up(host: Arc<str>) -> io::Result<Vec<SocketAddr>> {
    let looking = async {
        let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let (tell, told) = oneshot::channel();
        thread::Builder::new().name("lookup".to_owned()).spawn(move || {
            let found = host.to_socket_addrs().map(|found| found.take(ADDRESSES_MAX).collect());
            drop(turn);
            let _ = tell.send(found); // too late for whoever asked
        })?;
        told.await.map_err(io::Error::other)?
    };
    timeout(LOOKUP_WITHIN, looking).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 7707).into()
    }

    #[test]
    fn addresses_are_tried_in_turn_and_one_that_works_is_kept() {
        let mut all = Addresses::of(HostAddr::found("host:7707", addr(1)));
        for (found, failed, next) in [
            (&[1, 2][..], false, 1),
            (&[1, 2], true, 2),
            (&[2, 1], false, 2),
            (&[2, 1], true, 1),
            (&[1], true, 1),
            (&[3, 4], false, 3), // it has moved
        ] {
            all.found = found.iter().copied().map(addr).collect();
            all.advance(failed);
            assert_eq!(all.current(), addr(next), "{found:?}, failed: {failed}");
        }
    }

    /// Goal: whatever hangs in the system, a link goes on with the addresses that it has. Method: all turns are taken.
    #[tokio::test(start_paused = true)]
    async fn lookups_that_hang_leave_the_last_addresses() {
        let _hanging = LOOKUPS.acquire_many(u32::try_from(LOOKUPS_MAX).unwrap()).await.unwrap();
        let mut all = Addresses::of(HostAddr::found("localhost:7707", addr(1)));
        let began = tokio::time::Instant::now();
        all.look_up_again(true).await;
        assert_eq!((all.current(), began.elapsed()), (addr(1), LOOKUP_WITHIN));
    }

    #[test]
    fn an_address_is_no_host() {
        let addr = HostAddr::from(resolve("127.0.0.1:1").unwrap());
        assert_eq!("127.0.0.1:1".parse::<HostAddr>().unwrap(), addr);
        assert!("localhost:1".parse::<HostAddr>().unwrap().host.is_some());
        assert!("localhost".parse::<HostAddr>().unwrap_err().contains("no port"));
    }
}
