//! The addresses of this machine at which others reach it, and the links that it reaches others over.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
};

use futures::future::select_ok;
use tokio::net::TcpStream;

/// Maximum number of addresses returned.
const ADDRESSES_MAX: usize = 16;

/// The addresses of all interfaces but loopback ones, IPv4 first; none on a machine without a network. Those of
/// `169.254.0.0/16` and `fe80::/10`, which are valid on one link only, count on a machine that has no others: two machines on
/// one cable.
#[must_use]
pub fn addresses() -> Vec<IpAddr> {
    let mut found = reachable(interfaces().map(|one| one.ip()));
    found.truncate(ADDRESSES_MAX);
    found
}

fn interfaces() -> impl Iterator<Item = if_addrs::Interface> {
    let found = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::debug!(%error, "the interfaces of this machine cannot be listed");
        Vec::new()
    });
    found.into_iter().filter(if_addrs::Interface::is_oper_up)
}

/// Connects to `addr`. One of `fe80::/10` comes without the link that it is on, whose name is each machine's own: it is tried
/// on all links of this machine that have such addresses, at once.
///
/// # Errors
/// Those of the last attempt.
///
/// # Cancel safety
/// Safe: dropping the future closes the connection.
pub(super) async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    match addr {
        SocketAddr::V6(at) if at.ip().is_unicast_link_local() && at.scope_id() == 0 => {
            let mut links: Vec<u32> = interfaces()
                .filter(|one| matches!(one.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()))
                .filter_map(|one| one.index)
                .collect();
            links.dedup();
            let on = |link| SocketAddrV6::new(*at.ip(), at.port(), 0, link);
            let connecting: Vec<_> =
                links.into_iter().map(|link| Box::pin(TcpStream::connect(on(link)))).collect();
            if connecting.is_empty() {
                return Err(io::ErrorKind::NetworkUnreachable.into());
            }
            // Where nobody has the address, a link says so after seconds.
            select_ok(connecting).await.map(|(stream, _)| stream)
        }
        _ => TcpStream::connect(addr).await,
    }
}

/// Those of the addresses of one machine at which others reach it, IPv4 first; see [`addresses`].
#[must_use]
pub fn reachable(of_machine: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = of_machine.filter(is_of_network).collect();
    if !found.iter().all(is_of_link) {
        found.retain(|ip| !is_of_link(ip));
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Whether other machines may have a route to this address.
#[must_use]
pub fn is_of_network(ip: &IpAddr) -> bool {
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// Whether it is valid on one link only.
const fn is_of_link(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_link_count_where_there_are_no_others() {
        let of = |ips: &[&str]| reachable(ips.iter().map(|ip| ip.parse().unwrap()));
        let shown = |ips: &[&str]| of(ips).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&["127.0.0.1", "fe80::1", "169.254.7.1"]), ["169.254.7.1", "fe80::1"]);
        assert_eq!(shown(&["::1", "fe80::1", "10.0.0.1"]), ["10.0.0.1"]);
        assert_eq!(shown(&["169.254.7.1", "2001:db8::1", "10.0.0.1"]), ["10.0.0.1", "2001:db8::1"]);
    }
}
