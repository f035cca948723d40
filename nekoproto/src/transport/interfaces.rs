//! The addresses of this machine at which others reach it.

use std::net::IpAddr;

/// Maximum number of addresses returned.
const ADDRESSES_MAX: usize = 16;

/// The addresses of all interfaces but loopback ones, IPv4 first; none on a machine without a network. Those of
/// `169.254.0.0/16`, which are valid on one link only, count on a machine that has no others: two machines on one cable.
#[must_use]
pub fn addresses() -> Vec<IpAddr> {
    let found = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::debug!(%error, "the interfaces of this machine cannot be listed");
        Vec::new()
    });
    let mut found = reachable(found.iter().filter(|one| one.is_oper_up()).map(if_addrs::Interface::ip));
    found.truncate(ADDRESSES_MAX);
    found
}

/// Those of the addresses of one machine at which others reach it, IPv4 first; see [`addresses`].
#[must_use]
pub fn reachable(of_machine: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = of_machine.filter(is_of_network).collect();
    let is_of_link = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
    if !found.iter().all(is_of_link) {
        found.retain(|ip| !is_of_link(ip));
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Whether other machines may have a route to this address. One of `fe80::/10` has a route only with the name of a link.
#[must_use]
pub fn is_of_network(ip: &IpAddr) -> bool {
    let needs_link = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || needs_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_link_count_where_there_are_no_others() {
        let of = |ips: &[&str]| reachable(ips.iter().map(|ip| ip.parse().unwrap()));
        let shown = |ips: &[&str]| of(ips).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&["127.0.0.1", "169.254.7.1", "fe80::1"]), ["169.254.7.1"]);
        assert_eq!(shown(&["169.254.7.1", "2001:db8::1", "10.0.0.1"]), ["10.0.0.1", "2001:db8::1"]);
    }
}
