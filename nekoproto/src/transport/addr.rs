//! Addresses as people write them, and lookups of host names that block nobody.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs},
    str::FromStr,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index};
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};
use tracing::debug;

use super::error::ConnectError;

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
    if let Some(addr) = text.parse().ok().or_else(|| with_zone(text)) {
        return Ok(addr);
    }
    if !text.contains(':') {
        return Err(format!("'{text}' has no port: expected IP:PORT or HOST:PORT"));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("cannot look up '{text}': {error}"))?;
    found.into_iter().next().ok_or_else(|| format!("'{text}' has no address"))
}

/// Where a link connects: an address, or a host that may have another address later, or has none that is known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddr {
    /// As it was written, if that was `HOST:PORT`.
    host: Option<Arc<str>>,
    /// The address, or the one at which the host was found first. Of a host that was not found yet: one of 0.0.0.0/8, at which
    /// nobody can be, and which no other host is likely to have.
    pub addr: SocketAddr,
    is_found: bool,
}

impl HostAddr {
    /// `HOST:PORT`, which was found at `addr`.
    #[must_use]
    pub fn found(host: &str, addr: SocketAddr) -> Self {
        Self { host: Some(host.into()), addr, is_found: true }
    }

    /// Whether it is written like `other`, wherever its host is now.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.host == other.host && (self.host.is_some() || self.addr == other.addr)
    }

    /// `HOST:PORT`, which cannot be looked up now.
    fn not_found(host: &str, port: u16) -> Self {
        let [a, b, c, ..] = *blake3::hash(host.as_bytes()).as_bytes();
        Self { is_found: false, ..Self::found(host, ([0, a, b, c], port).into()) }
    }
}

impl From<SocketAddr> for HostAddr {
    fn from(addr: SocketAddr) -> Self {
        Self { host: None, addr, is_found: true }
    }
}

impl FromStr for HostAddr {
    type Err = String;

    /// As [`resolve`], but a host that cannot be looked up is no error: that may be so at the start of a machine, or of its
    /// network, and is tried again. Blocking.
    fn from_str(text: &str) -> Result<Self, String> {
        match (resolve(text), named(text)) {
            (Ok(addr), _) if text.starts_with('[') || text.parse::<SocketAddr>().is_ok() => Ok(addr.into()),
            (Ok(addr), _) => Ok(Self::found(text, addr)),
            (Err(_), Some(port)) => Ok(Self::not_found(text, port)),
            (Err(why), None) => Err(why),
        }
    }
}

/// `addr` for people; one that stands for a host that was not found yet says nothing to them.
#[must_use]
pub fn shown(addr: SocketAddr) -> String {
    if is_found(addr) { addr.to_string() } else { "of no known address".to_owned() }
}

/// Whether `addr` is one, and does not stand for a host that was not found yet.
#[must_use]
pub const fn is_found(addr: SocketAddr) -> bool {
    !matches!(addr.ip(), IpAddr::V4(ip) if ip.octets()[0] == 0 && !ip.is_unspecified())
}

/// The address in `[ADDRESS%INTERFACE]:PORT`: the system looks up zones that are numbers.
fn with_zone(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
    let (ip, interface) = host.split_once('%')?;
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None).ok()?;
    let zone = name_to_index(socket, interface).ok()?;
    Some(SocketAddrV6::new(ip.parse().ok()?, port.parse().ok()?, 0, zone).into())
}

/// The port of `HOST:PORT`, if that is the name of a host and a port.
fn named(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte) || !byte.is_ascii();
    let is_address = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'); // and a wrong one
    (host.bytes().all(is_of_names) && !is_address).then_some(port.parse().ok()?)
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
        let found = if at.is_found { vec![at.addr] } else { Vec::new() };
        Self { host: at.host, found, current: at.addr }
    }

    /// The one to connect to. A host that was not found yet is looked up.
    pub(super) async fn current(&mut self) -> Result<SocketAddr, ConnectError> {
        if let (true, Some(host)) = (self.found.is_empty(), &self.host) {
            let unknown = |source| ConnectError::UnknownHost { host: Arc::clone(host), source };
            self.found = look_up(Arc::clone(host)).await.map_err(unknown)?;
            self.advance(false);
        }
        Ok(self.current)
    }

    /// The one that was connected to last.
    pub(super) const fn last(&self) -> SocketAddr {
        self.current
    }

    /// Looks the host up again, if it was found before. The current address stays if the host still has it and it has not
    /// `failed`, or if there is no other.
    pub(super) async fn look_up_again(&mut self, failed: bool) {
        let Some(host) = self.host.as_ref().filter(|_| !self.found.is_empty()) else { return };
        match look_up(Arc::clone(host)).await {
            Ok(found) => self.found = found,
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
    let found: Vec<SocketAddr> = timeout(LOOKUP_WITHIN, looking).await??;
    if found.is_empty() { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 7707).into()
    }

    #[test]
    fn a_zone_is_a_number_or_the_name_of_an_interface() {
        let [number, name] = ["[fe80::1%1]:7707", "[fe80::1%lo]:7707"].map(|text| text.parse::<HostAddr>());
        assert_eq!(name.unwrap(), number.unwrap());
        assert!("[fe80::1%none-such]:7707".parse::<HostAddr>().is_err());
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
            assert_eq!(all.current, addr(next), "{found:?}, failed: {failed}");
        }
    }

    /// Goal: whatever hangs in the system, a link goes on with the addresses that it has. Method: all turns are taken.
    #[tokio::test(start_paused = true)]
    async fn lookups_that_hang_leave_the_last_addresses() {
        let _hanging = LOOKUPS.acquire_many(u32::try_from(LOOKUPS_MAX).unwrap()).await.unwrap();
        let mut all = Addresses::of(HostAddr::found("localhost:7707", addr(1)));
        let began = tokio::time::Instant::now();
        all.look_up_again(true).await;
        assert_eq!((all.current, began.elapsed()), (addr(1), LOOKUP_WITHIN));
    }

    #[test]
    fn an_address_is_no_host() {
        let addr = HostAddr::from(resolve("127.0.0.1:1").unwrap());
        assert_eq!("127.0.0.1:1".parse::<HostAddr>().unwrap(), addr);
        assert!("localhost:1".parse::<HostAddr>().unwrap().host.is_some());
        assert!("localhost".parse::<HostAddr>().unwrap_err().contains("no port"));
    }

    #[tokio::test]
    async fn host_that_cannot_be_looked_up_is_one_and_text_that_names_none_is_an_error() {
        let [one, other] =
            ["one.invalid:7707", "other.invalid:7707"].map(|text| text.parse::<HostAddr>().unwrap());
        assert_eq!(
            (shown(one.addr).as_str(), shown(addr(1)).as_str()),
            ("of no known address", "192.0.2.1:7707")
        );
        assert!(one.is_same(&HostAddr::found("one.invalid:7707", addr(1))) && !one.is_same(&other));
        assert!(!one.is_found && one.addr != other.addr && one.addr.port() == 7707);
        let mut all = Addresses::of(one);
        let error = all.current().await.unwrap_err().to_string();
        assert!(error.contains("cannot look up one.invalid:7707"), "{error}");
        all.host = Some("localhost:7707".into());
        assert!(all.current().await.unwrap().ip().is_loopback(), "it was found meanwhile");
        for wrong in ["a.invalid:x", "a.invalid:70000", "http://a.invalid:1", ":1", "999.2.3.4:1", "a b:1"] {
            assert!(wrong.parse::<HostAddr>().is_err(), "{wrong}");
        }
    }
}
