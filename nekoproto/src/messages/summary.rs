//! What an indexer tells its neighbors about its names: its Bloom filter, and what changed in it.

use serde::{Deserialize, Serialize};

pub use crate::values::filter::{Assembly, Filter, FilterPart, NameKey, Word};
use crate::{
    limits::{COVERED_MAX, SUMMARY_KEYS_MAX},
    values::{List, NodeTag},
};

/// What changed in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SummaryNews {
    /// These names were added; an empty list confirms the summary.
    Added(#[serde(with = "crate::values::fixed_list")] List<NameKey, SUMMARY_KEYS_MAX>),
    /// A part of the whole filter.
    Part(FilterPart),
}

/// One message about the summary of the sender or of a node behind it. The updates of one epoch are applied in
/// order, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryUpdate {
    /// Whose summary it is.
    pub of: NodeTag,
    /// Hops from the sender to that node: 0 is the sender itself.
    pub hops: u8,
    /// Milliseconds since that node confirmed this.
    pub age_ms: u32,
    /// Changes when that node restarts and when it starts a new filter.
    pub epoch: u64,
    /// Names added before this update; for a part, before the filter was copied.
    pub from: u64,
    /// Names added including this update.
    pub to: u64,
    /// What changed.
    pub news: SummaryNews,
    /// The neighbors of that node, which it asks itself.
    #[serde(with = "crate::values::fixed_list")]
    pub neighbors: List<NodeTag, COVERED_MAX>,
}
