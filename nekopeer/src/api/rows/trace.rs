//! The way of a query.

use nekoproto::{FileName, TraceHop, TraceReply, WhyUnasked};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The way of a query. Nothing in it is signed: each indexer says what it wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Trace)]
pub(crate) struct TraceRow {
    /// Whether all indexers that were asked are here.
    pub(crate) complete: bool,
    /// Whether one of them lists the name.
    pub(crate) found: bool,
    /// The own indexers.
    pub(crate) indexers: Vec<HopRow>,
    pub(crate) name: String,
}

/// An indexer that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TraceHop)]
pub(crate) struct HopRow {
    pub(crate) addr: Option<String>,
    /// It had answered before, to another.
    pub(crate) again: bool,
    /// The neighbors that it asked.
    #[schema(no_recursion)]
    pub(crate) asked: Vec<HopRow>,
    /// Its summary rules the name out; it was asked because nobody else had it.
    pub(crate) despite_summary: bool,
    /// Why it did not answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) error: Option<String>,
    pub(crate) listed: Vec<Listed>,
    pub(crate) node: Option<String>,
    /// The neighbors that it did not ask.
    pub(crate) not_asked: Vec<Unasked>,
    /// The number of further ones.
    pub(crate) not_asked_more: u32,
    /// Milliseconds that it took, without waiting for its neighbors.
    pub(crate) own_ms: f64,
    /// Milliseconds that it took, as it says.
    pub(crate) took_ms: f64,
    /// Milliseconds that its asker waited for it.
    pub(crate) waited_ms: f64,
}

/// A version that an indexer lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TraceListed)]
pub(crate) struct Listed {
    pub(crate) holders: u32,
    /// The first digits of the origin's id.
    pub(crate) origin: String,
    pub(crate) version: u64,
}

/// A neighbor that was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TraceUnasked)]
pub(crate) struct Unasked {
    pub(crate) addr: Option<String>,
    pub(crate) kind: UnaskedKind,
    /// The first digits of its id.
    pub(crate) node: Option<String>,
    /// The same as `kind`, for people.
    pub(crate) why: String,
}

/// Why a neighbor was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TraceUnaskedKind)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnaskedKind {
    Away,
    NoRoom,
    Summary,
    NoHopsLeft,
    Covered,
    Silent,
    Guest,
}

impl TraceRow {
    pub(crate) fn of(name: &FileName, traces: &[TraceReply]) -> Self {
        Self {
            complete: traces.iter().all(|trace| trace.whole),
            found: traces.iter().any(TraceReply::has_found),
            indexers: traces.iter().filter_map(|trace| tree(&mut trace.hops.iter())).collect(),
            name: name.to_string(),
        }
    }
}

/// The next hop and, in it, those that it asked.
fn tree<'a>(hops: &mut (impl Iterator<Item = &'a TraceHop> + Clone)) -> Option<HopRow> {
    let hop = hops.next()?;
    let mut asked = Vec::new();
    while hops.clone().next().is_some_and(|next| next.depth > hop.depth) {
        asked.extend(tree(hops));
    }
    let (answer, error) = match &hop.answer {
        Ok(answer) => (answer.clone(), None),
        Err(why) => (<_>::default(), Some(why.to_string())),
    };
    let listed = answer.found.iter().map(|found| Listed {
        holders: found.holders,
        origin: found.origin.to_string(),
        version: found.version.get(),
    });
    let not_asked = answer.unasked.iter().map(|unasked| Unasked {
        addr: unasked.addr.map(|addr| addr.to_string()),
        kind: unasked.why.into(),
        node: unasked.node.map(|node| node.to_string()),
        why: unasked.why.to_string(),
    });
    Some(HopRow {
        addr: hop.addr.map(|addr| addr.to_string()),
        again: answer.again,
        asked,
        despite_summary: hop.despite_summary,
        error,
        listed: listed.collect(),
        node: hop.node.map(|node| node.to_string()),
        not_asked: not_asked.collect(),
        not_asked_more: answer.unasked_more,
        own_ms: millis(answer.own_us),
        took_ms: millis(answer.took_us),
        waited_ms: millis(hop.waited_us),
    })
}

fn millis(us: u32) -> f64 {
    f64::from(us) / 1e3
}

impl From<WhyUnasked> for UnaskedKind {
    fn from(why: WhyUnasked) -> Self {
        match why {
            WhyUnasked::Away => Self::Away,
            WhyUnasked::NoRoom => Self::NoRoom,
            WhyUnasked::RuledOut => Self::Summary,
            WhyUnasked::NoHopsLeft => Self::NoHopsLeft,
            WhyUnasked::Covered => Self::Covered,
            WhyUnasked::Silent => Self::Silent,
            WhyUnasked::Guest => Self::Guest,
        }
    }
}
