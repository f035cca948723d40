//! The addresses of this machine at which others reach it.

use std::net::IpAddr;

/// Maximum number of addresses returned.
const ADDRESSES_MAX: usize = 16;

/// The addresses of all interfaces but loopback ones, IPv4 first; none on a machine without a network. Addresses
/// that are valid on one link only (`169.254.0.0/16`, `fe80::/10`) need more than an address to be reached.
#[must_use]
pub fn addresses() -> Vec<IpAddr> {
    let found = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::debug!(%error, "the interfaces of this machine cannot be listed");
        Vec::new()
    });
    let mut found: Vec<IpAddr> = found
        .iter()
        .filter(|one| one.is_oper_up())
        .map(if_addrs::Interface::ip)
        .filter(is_of_network)
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found.truncate(ADDRESSES_MAX);
    found
}

/// Whether other machines may have a route to this address.
#[must_use]
pub fn is_of_network(ip: &IpAddr) -> bool {
    let of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || of_link)
}
