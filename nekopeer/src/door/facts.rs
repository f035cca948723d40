//! [`Facts`]: what a running peer tells about itself to whoever knocks.

use std::{net::SocketAddr, num::NonZeroU64, time::Duration};

use nekoproto::{
    Label, NetworkName, NodeId,
    transport::{NetworkSecret, Security},
};
use serde::{Deserialize, Serialize};

use crate::{api::LocalPath, config::Config, peer::PeerHandle, state::freshness::OnStale};

pub(crate) const DOOR_VERSION: u32 = 18;

/// What a running peer is, and was told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) version: u32,
    pub(crate) process: u32,
    pub(crate) node: NodeId,
    /// Where it serves, with the real port.
    pub(crate) serves_on: Option<SocketAddr>,
    /// The address it was told to listen on.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) dir: LocalPath,
    /// Where it answers over HTTP, with the real port.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) indexers: Vec<SocketAddr>,
    pub(crate) label: Option<Label>,
    pub(crate) network: NetworkName,
    pub(crate) insecure: bool,
    /// The [mark](NetworkSecret::mark) of the network's secret: what tells it from others, and nothing else of it.
    pub(crate) secret: Option<[u8; 16]>,
    pub(crate) limit_up: Option<NonZeroU64>,
    pub(crate) limit_down: Option<NonZeroU64>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) on_stale: OnStale,
    pub(crate) memory: usize,
    pub(crate) keep_base: Option<u64>,
    pub(crate) discovers: bool,
    /// Of the command line: where an indexer was looked for, the list of allowed nodes, the names of the HTTP door.
    pub(crate) discover: Option<SocketAddr>,
    pub(crate) allow: Option<LocalPath>,
    pub(crate) http_hosts: Vec<String>,
}

impl Facts {
    /// Where it serves, as text; empty if it does not.
    pub(crate) fn addr(&self) -> String {
        self.serves_on.map(|addr| addr.to_string()).unwrap_or_default()
    }

    pub(crate) fn has(&self, secret: &NetworkSecret) -> bool {
        self.secret == Some(secret.mark(self.node.as_bytes()))
    }

    pub(crate) fn of(peer: &PeerHandle, config: &Config, http: Option<SocketAddr>) -> Self {
        Self {
            version: DOOR_VERSION,
            process: std::process::id(),
            node: peer.node(),
            serves_on: peer.local_addr(),
            listen: config.listen,
            dir: peer.dir().to_owned().into(),
            http,
            indexers: config.indexers.iter().map(|at| at.addr).collect(),
            label: config.label.clone(),
            network: config.network.clone(),
            insecure: config.security == Security::Insecure,
            secret: config.access.secret.as_ref().map(|secret| secret.mark(peer.node().as_bytes())),
            limit_up: config.limit_up,
            limit_down: config.limit_down,
            ttr: config.ttr,
            on_stale: config.on_stale,
            memory: config.memory,
            keep_base: config.keep_base,
            discovers: config.discovers,
            discover: None,
            allow: None,
            http_hosts: Vec::new(),
        }
    }
}

#[cfg(test)]
impl Facts {
    /// Those of a peer at loopback with two indexers and the files in `dir`.
    pub(crate) fn of_test(dir: &std::path::Path) -> Self {
        Self {
            version: 1,
            process: 7,
            node: nekoproto::Identity::from_seed(&[1; 32]).id(),
            serves_on: Some(([127, 0, 0, 1], 5).into()),
            listen: Some(([127, 0, 0, 1], 0).into()),
            dir: dir.to_owned().into(),
            http: None,
            indexers: vec![([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()],
            label: None,
            network: NetworkName::default(),
            insecure: false,
            secret: None,
            limit_up: None,
            limit_down: None,
            ttr: None,
            on_stale: OnStale::Keep,
            memory: nekoproto::budget::BUDGET_DEFAULT,
            keep_base: None,
            discovers: true,
            discover: None,
            allow: None,
            http_hosts: vec!["named".to_owned()],
        }
    }
}
