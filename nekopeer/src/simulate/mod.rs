//! The decisions of a peer about one file, without sockets, disk and clock: for simulations in virtual time.
//!
//! All of them are those of `state`, of `library::subscribers` and of `storage::catalogue::numbering`. What is here is
//! how the rest of the crate calls them, with the disk as fields that survive a restart. It is simplified in that
//! - a peer has one file, one indexer, and at most one question and one download under way;
//! - writes to the catalogue do not fail, and a download takes the version that its source has.

mod folder;
mod reader;

pub use self::{
    folder::{Disk, Folder, OfferChange},
    reader::Reader,
};
