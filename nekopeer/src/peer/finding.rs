//! What a running peer finds in the network: searches and traces.

use nekoproto::{FileName, Position, Search, TraceReply};

use super::PeerHandle;
use crate::{
    failure::Failure,
    indexers::{Answer, Found, Wishes, via::Via},
};

impl PeerHandle {
    /// Searches the own indexers, and those within `ttl_hops` hops of them.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query(&self, name: &FileName, ttl_hops: u8) -> Result<Answer, Failure> {
        self.indexers.search_one(name, ttl_hops, &Via::default(), &Wishes::default()).await
    }

    /// The same for many names; returns answers in the order of `names`.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query_all(&self, names: &[FileName], ttl_hops: u8) -> Result<Vec<Answer>, Failure> {
        self.indexers.search_all(names, ttl_hops, &Via::default()).await
    }

    /// Follows a query for `name`: one tree of hops for each own indexer. Nothing in it is signed.
    ///
    /// # Errors
    /// No indexer is given.
    pub async fn trace(&self, name: &FileName, ttl_hops: u8) -> Result<Vec<TraceReply>, Failure> {
        self.indexers.trace(name, ttl_hops).await
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
    ) -> Result<Found, Failure> {
        self.indexers.find(search, after, limit, ttl_hops, &Via::default()).await
    }

    /// Waits until the first attempt to connect to each indexer has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn indexers_tried(&self) {
        self.indexers.tried().await;
    }
}
