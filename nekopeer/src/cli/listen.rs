//! Where a peer serves unless told otherwise.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A free port of the address from which the first indexer that is not on this machine is reached; of
/// 127.0.0.1 if there is none, or no way to it.
pub(super) fn listen_towards(indexers: &[SocketAddr]) -> SocketAddr {
    let any = |far: &SocketAddr| match far {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Connecting a UDP socket sends nothing; it asks the system for the route.
    let source = |far: &SocketAddr| {
        let socket = UdpSocket::bind(any(far))?;
        socket.connect(far)?;
        socket.local_addr()
    };
    let far = indexers.iter().find(|addr| !addr.ip().is_loopback());
    let ip = far.and_then(|far| source(far).ok()).map_or(Ipv4Addr::LOCALHOST.into(), |addr| addr.ip());
    SocketAddr::new(ip, 0)
}
