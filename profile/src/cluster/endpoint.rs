//! One end of measured connections, and the indexers that all measurements run.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use nekoindexer::{Config, Routing};
use nekoproto::transport::{Endpoint, EndpointConfig, Security};
use nekoproto::{Identity, Role};

/// How long a peer of a measured cluster stays listed without a renewal: no renewal shows in a measurement.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);
const _: () = assert!(LEASE.as_secs() <= nekoindexer::config::LEASE_SECS_MAX as u64);

pub(crate) fn indexer_config(
    listen: SocketAddr,
    neighbors: Vec<SocketAddr>,
    security: Security,
    routing: Routing,
    by_default: bool,
) -> Config {
    let config = Config { listen, neighbors, security, routing, ..Config::default() };
    // Room for a million names of one peer, which may take a third of it.
    if by_default { config } else { Config { lease: LEASE, memory: 2 << 30, carries_probes: true, ..config } }
}

/// One end of measured connections.
pub(crate) fn endpoint(identity: Identity, role: Role, security: Security) -> anyhow::Result<Arc<Endpoint>> {
    let (network, access) = Default::default();
    Ok(Endpoint::new(EndpointConfig { identity, role, network, security, access })?)
}

pub(crate) const fn security(insecure: bool) -> Security {
    if insecure { Security::Insecure } else { Security::Tls }
}
