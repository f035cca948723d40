//! What a running peer finds in the network: searches, traces, and the indexers that it asks.

use nekoproto::{FileName, IndexerAddr, List, Position, Search, TraceReply, limits::TICKET_INDEXERS_MAX};

use super::PeerHandle;
use crate::{
    indexers::{Answer, Found, Probed, Scope, SearchError, via::Via},
    storage::remembered::Home,
};

impl PeerHandle {
    /// Searches the own indexers only.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search(&self, name: &FileName) -> Result<Answer, SearchError> {
        self.peers.search(name, Scope::Own, &Via::default()).await
    }

    /// Searches the network, up to `ttl_hops` hops beyond the own indexers.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query(&self, name: &FileName, ttl_hops: u8) -> Result<Answer, SearchError> {
        self.peers.search(name, Scope::Network { ttl_hops }, &Via::default()).await
    }

    /// Searches the own indexers only for many names; returns answers in the order of `names`.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search_all(&self, names: &[FileName]) -> Result<Vec<Answer>, SearchError> {
        self.peers.search_all(names, Scope::Own, &Via::default()).await
    }

    /// Searches the network for many names, up to `ttl_hops` hops beyond the own indexers; returns answers in
    /// the order of `names`.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query_all(&self, names: &[FileName], ttl_hops: u8) -> Result<Vec<Answer>, SearchError> {
        self.peers.search_all(names, Scope::Network { ttl_hops }, &Via::default()).await
    }

    /// Follows a query for `name`: one tree of hops for each own indexer. Nothing in it is signed.
    ///
    /// # Errors
    /// No indexer is given.
    pub async fn trace(&self, name: &FileName, ttl_hops: u8) -> Result<Vec<TraceReply>, SearchError> {
        self.indexers.trace(name, ttl_hops).await
    }

    /// Sends a route probe with this number of hops through each own indexer: which way it went, and how long each
    /// indexer had it. Nothing in it is signed.
    ///
    /// # Errors
    /// No indexer is given.
    pub async fn probe(&self, hops: u8) -> Result<Vec<Probed>, SearchError> {
        self.indexers.probe(hops).await
    }

    /// One page of the files that match: the first `limit` behind `after`, by name and origin, known to the own indexers
    /// and those within `ttl_hops` of them.
    ///
    /// # Errors
    /// No indexer answered, or a glob cannot be read.
    pub async fn find(
        &self,
        search: &Search,
        after: Option<&Position>,
        limit: usize,
        ttl_hops: u8,
    ) -> Result<Found, SearchError> {
        self.indexers.find(search, after, limit, ttl_hops).await
    }

    /// Waits until the first attempt to connect to each indexer has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn indexers_tried(&self) {
        self.indexers.tried().await;
    }

    /// What it belongs to.
    pub(crate) fn home(&self) -> &Home {
        &self.indexers.home
    }

    /// Connects to indexers for one command. See [`Indexers::connect`].
    pub(crate) async fn connect(&self, wanted: &[IndexerAddr]) -> Via {
        self.indexers.connect(wanted).await
    }

    /// Keeps the indexers that answered for later commands on this data folder.
    pub(crate) async fn remember(&self, via: &Via) {
        self.indexers.remember(via).await;
    }

    /// The indexers that a ticket made here names, the best first. See [`Indexers::known`].
    pub(crate) async fn known_indexers(&self) -> List<IndexerAddr, TICKET_INDEXERS_MAX> {
        self.indexers.known().await
    }
}
