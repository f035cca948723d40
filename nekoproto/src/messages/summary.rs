//! What an indexer tells a neighbor that it trusts about names: its own Bloom filter, what was added to it, and whom else it
//! trusts. Nothing is said of others.

use serde::{Deserialize, Serialize};

pub use crate::values::filter::{Assembly, Filter, FilterPart, NameKey, Word};
use crate::{
    limits::{COVERED_MAX, SUMMARY_CHANGES_MAX, SUMMARY_KEYS_MAX},
    values::{List, NodeTag},
};

/// One message of the stream that an indexer sends to a neighbor over one connection. Messages with changes are
/// numbered; without changes it is a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryNews {
    /// The latest [`SummaryReply::clock_ms`] that the sender got from the receiver over this connection; 0: none.
    pub echo_ms: u64,
    /// Number of the latest message with changes, this one included. Counts from 1 over one connection.
    pub number: u64,
    /// The receiver forgets all that it was told over this connection before it takes this in.
    pub begins: bool,
    /// With these changes, all that the receiver was told is up to date. Otherwise more follows.
    pub is_all: bool,
    /// What changed, in order.
    pub changes: List<Change, SUMMARY_CHANGES_MAX>,
}

/// A change of the sender's summary. Wire: append variants, never reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// These names were added, one step of the summary's position each.
    Added(#[serde(with = "crate::values::fixed_list")] List<NameKey, SUMMARY_KEYS_MAX>),
    /// A part of the whole filter.
    Filter {
        /// Changes when the sender restarts and when it starts a new filter.
        epoch: u64,
        /// Names added in this epoch before the filter was copied.
        count: u64,
        /// The part. The filter is used once all parts were received.
        part: FilterPart,
    },
    /// The neighbors that the sender trusts are these, all of them.
    Neighbors(#[serde(with = "crate::values::fixed_list")] List<NodeTag, COVERED_MAX>),
    /// They are more than a list holds, or one is away, of whom only the sender can say so: the sender may ask anybody.
    ManyNeighbors,
}

/// The answer to [`SummaryNews`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryReply {
    /// When the receiver answered, by a clock of its own: milliseconds, at least 1.
    pub clock_ms: u64,
    /// Whether the message was taken in. If not, the sender begins anew.
    pub is_taken: bool,
    /// Number of the last message with changes that the receiver sent itself, if all that it told up to there is
    /// up to date; 0 if not.
    pub confirms: u64,
}
