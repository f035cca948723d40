//! The plans that the state gives out, for others to carry out.

use std::collections::HashMap;

use nekoproto::{FileName, ListedRecord};

use super::{index::SessionId, summary::Position};

/// What an indexer does for a message that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whether it answers with what it itself finds. Otherwise a copy was answered before.
    pub answers: bool,
    /// Whether there is room to remember the message. One that is not remembered must not be forwarded, and its
    /// answer is incomplete.
    pub is_remembered: bool,
    /// Hops left for the neighbors; `None`: they are not asked.
    pub ttl_hops: Option<u8>,
}

/// Whom to tell of newer versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Holders of older versions, each with the records that concern it.
    pub holders: HashMap<SessionId, Vec<ListedRecord>>,
    /// What neighbors are told.
    pub neighbors: Vec<ListedRecord>,
}

/// The result of a registration, and what is left to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RegisterPlan {
    /// Newer versions to tell the caller.
    pub newer: Vec<ListedRecord>,
    /// Names whose records a limit kept from being listed.
    pub unlisted: Vec<FileName>,
    /// Whom to tell.
    pub announcement: Announcement,
    /// Whether our summary has changed.
    pub is_news_to_neighbors: bool,
    /// What neighbors must have acknowledged before the caller is answered.
    pub neighbors_need: Position,
}

impl Announcement {
    pub(super) fn tell(&mut self, sessions: &[SessionId], record: &ListedRecord) {
        for session in sessions {
            self.holders.entry(*session).or_default().push(record.clone());
        }
    }

    /// Whether there is nobody to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.neighbors.is_empty()
    }
}
