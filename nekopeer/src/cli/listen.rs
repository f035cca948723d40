//! Where a peer serves unless told otherwise.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// A free port of all addresses of this machine if one of the peer's indexers `is_open`, reached by other machines;
/// otherwise of 127.0.0.1.
pub(super) fn listen_as(is_open: bool) -> SocketAddr {
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)); // takes IPv4 too
    match is_open {
        true if TcpListener::bind(all).is_ok() => all,
        true => (Ipv4Addr::UNSPECIFIED, 0).into(), // a system without IPv6
        false => (Ipv4Addr::LOCALHOST, 0).into(),
    }
}
