//! The decisions of a peer about one file, without sockets, disk and clock: for simulations in virtual time.
//!
//! All of them are those of `state`, of `library::subscribers` and of `storage::catalogue::numbering`. What is here is
//! how the rest of the crate calls them, with the disk as fields that survive a restart. It is simplified in that
//! - a peer has one file, one indexer, and at most one question and one download under way;
//! - writes to the catalogue do not fail, and a download takes the version that its source has.

mod folder;
mod reader;

use std::time::Instant;

use nekoproto::{Held, VerifiedRecord};

pub use self::{
    folder::{Disk, Folder},
    reader::Reader,
};

/// A question to the origin: whether a version is still the newest.
#[derive(Clone, Debug)]
pub struct Question {
    /// The newest version that the reader knows.
    pub copy: VerifiedRecord,
    /// When it was sent.
    pub asked_at: Instant,
}

impl Question {
    /// As it is sent.
    #[must_use]
    pub fn held(&self) -> Held {
        let copy = &self.copy;
        Held { name: copy.name.clone(), version: copy.version, content: copy.content }
    }
}

/// What a peer is to do.
#[derive(Clone, Debug)]
pub enum Act {
    /// Ask the origin.
    Ask(Question),
    /// Download the newest version.
    Fetch,
    /// Send the origin a version that it does not know.
    Remind(VerifiedRecord),
    /// Register this version with the own indexer, as a new one where `news` is set.
    Offer {
        /// What to register.
        record: VerifiedRecord,
        /// Whether it was published here and the indexer has not listed it yet.
        is_new: bool,
        /// Whether the indexers tell each other of it.
        announce: bool,
    },
    /// Tell the subscribers of this version, once the indexer has answered, or does not.
    Announce(VerifiedRecord),
}
