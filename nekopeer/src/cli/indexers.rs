//! Which indexers to use: those given, one found, or one started here.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use nekoindexer::{Indexer, IndexerHandle, StartError};
use nekoproto::{
    Identity, Purpose, Role,
    transport::{Endpoint, EndpointConfig},
};
use tokio::time::timeout;

use super::{args::NodeArgs, output::Output};

/// Time limit for probing whether an indexer answers.
const PROBE_WITHIN: Duration = Duration::from_secs(1);

/// The indexers of this run. One started here is shut down with it.
#[derive(Debug, Default)]
pub(super) struct Indexers {
    pub(super) addrs: Vec<SocketAddr>,
    pub(super) embedded: Option<IndexerHandle>,
}

impl Indexers {
    /// The indexers given, or the one found. Finding none is not an error.
    pub(super) async fn find(args: &NodeArgs) -> anyhow::Result<Self> {
        if !args.indexer.is_empty() {
            return Ok(Self { addrs: args.indexer.clone(), embedded: None });
        }
        let there = args.discover.port() != 0 && is_there(args).await?;
        Ok(Self { addrs: there.then_some(args.discover).into_iter().collect(), embedded: None })
    }

    /// The indexers given, the one found, or one started here.
    pub(super) async fn find_or_start(args: &NodeArgs) -> anyhow::Result<Self> {
        let found = Self::find(args).await?;
        if !found.addrs.is_empty() {
            return Ok(found);
        }
        let embedded = start(args).await.context("cannot start an indexer here")?;
        Ok(Self { addrs: vec![embedded.local_addr()], embedded: Some(embedded) })
    }

    /// Tells of a peer that was started with these indexers what its user does not expect: that it has none (if
    /// that `is_missed`), that one was started here, or where it serves, if an indexer is remote.
    pub(super) fn note(
        &self,
        args: &NodeArgs,
        is_missed: bool,
        serves_on: Option<SocketAddr>,
        output: Output,
    ) {
        let discover = args.discover;
        if is_missed && self.addrs.is_empty() {
            output.note(&format!("no indexer found at {discover}: origins that moved are not found"));
        }
        if let Some(addr) = self.embedded.as_ref().map(IndexerHandle::local_addr) {
            output.note(&format!(
                "no indexer given and none found at {discover}: started one at {addr} (others use --indexer {addr})"
            ));
        }
        let far = self.addrs.iter().find(|addr| !addr.ip().is_loopback());
        let (Some(far), Some(ip)) = (far, serves_on.map(|addr| addr.ip())) else { return };
        if ip.is_loopback() {
            output.note(&format!(
                "note: serving on {ip} only, so {far} lists nothing for others; leave out --listen to serve them"
            ));
        } else if args.listen.is_none() {
            output.note(&format!(
                "note: serving on {ip}, which reaches {far}; --listen 127.0.0.1:0 serves this machine only"
            ));
        }
    }

    /// Shuts down the indexer that was started here.
    pub(super) async fn shutdown(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

async fn is_there(args: &NodeArgs) -> anyhow::Result<bool> {
    let endpoint = Endpoint::new(EndpointConfig {
        identity: Identity::generate(),
        role: Role::Peer,
        network: args.network.clone().unwrap_or_default(),
        security: args.security(),
    })?;
    let dialing = endpoint.dial(args.discover, Purpose::Control, None);
    let dialed = timeout(PROBE_WITHIN, dialing).await;
    Ok(matches!(dialed, Ok(Ok(connection)) if connection.remote.role == Role::Indexer))
}

async fn start(args: &NodeArgs) -> Result<IndexerHandle, StartError> {
    let config = nekoindexer::Config {
        listen: args.discover,
        network: args.network.clone().unwrap_or_default(),
        security: args.security(),
        ..nekoindexer::Config::default()
    };
    match Indexer::spawn(config.clone()).await {
        // Another program listens on that port.
        Err(StartError::Listen { addr, .. }) if addr.port() != 0 => {
            let listen = SocketAddr::new(addr.ip(), 0);
            Indexer::spawn(nekoindexer::Config { listen, ..config }).await
        }
        started => started,
    }
}
