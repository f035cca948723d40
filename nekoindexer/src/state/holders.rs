//! Merges the holders of one version from several indexers: no duplicates, and a bounded share for each indexer.

use nekoproto::{
    Holder, IndexerAddr, List, ListedHolder, NodeAddrs, NodeId, NodeTag, Via,
    limits::{HOLDERS_MAX, HOLDERS_WHOLE_MIN},
};

/// A holder of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Who it is, and where.
    pub at: NodeAddrs,
    /// Who has it connect to those who cannot connect to it.
    pub via: Via,
    /// Its indexer could not connect to it.
    pub unreachable: bool,
    /// It has a part of the version.
    pub partial: bool,
    /// Its place among the holders that one source named; 0 for those of the own index. Where there are too many, the
    /// first of each source come before the second of any.
    rank: u8,
}

impl Listed {
    /// A holder that is listed here.
    #[must_use]
    pub const fn here(at: NodeAddrs, via: Via, unreachable: bool, partial: bool) -> Self {
        Self { at, via, unreachable, partial, rank: 0 }
    }

    /// Its id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.at.node()
    }

    /// It at each of its addresses.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        let (node, partial) = (self.node(), self.partial);
        self.at.addrs().iter().map(move |addr| Holder { node, addr: *addr, partial })
    }

    /// As it is sent.
    #[must_use]
    pub fn into_sent(self) -> ListedHolder {
        let Self { at: node, via, unreachable, partial, .. } = self;
        ListedHolder { node, via, unreachable, partial }
    }

    /// Whether both are one node at the same addresses. Where they differ, one of them may be made up.
    pub(super) fn is_same_source(&self, other: &Self) -> bool {
        self.at == other.at && self.via == other.via
    }
}

/// Who names holders.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Where it was reached.
    pub at: IndexerAddr,
    /// Whether it runs on this machine.
    pub is_local: bool,
}

/// What may be dialled of the holders that another node names, at most `max` of them. Nodes of `without` are left out.
#[must_use]
pub fn heard(
    holders: impl IntoIterator<Item = ListedHolder>,
    max: usize,
    without: &[NodeTag],
    sender: Sender,
) -> Vec<Listed> {
    let wanted = holders.into_iter().filter(|holder| !without.contains(&holder.node.node().tag()));
    let listed = |(ListedHolder { node, via, unreachable, partial }, rank)| Listed {
        at: node.named_by(sender.is_local),
        via: via.named_by(sender.at),
        unreachable,
        partial,
        rank,
    };
    wanted.take(max).zip(1..).map(listed).filter(|holder| !holder.at.addrs().is_empty()).collect()
}

pub(crate) fn sent(holders: Vec<Listed>) -> List<ListedHolder, HOLDERS_MAX> {
    List::first_of(holders.into_iter().map(Listed::into_sent))
}

/// Adds `more` to the holders of a version, as [`distinct`] does.
pub(super) fn add_holders(holders: &mut Vec<Listed>, more: Vec<Listed>) {
    *holders = distinct(std::mem::take(holders), more);
}

/// Both, within the limit, by rank. A node that somebody says to hold all of the version does.
pub(super) fn distinct(mut holders: Vec<Listed>, more: Vec<Listed>) -> Vec<Listed> {
    let is_mixed = !holders.is_empty() && !more.is_empty();
    let mut has_parts = holders.last().is_some_and(|last| last.partial);
    for holder in more {
        match holders.iter_mut().find(|known| known.is_same_source(&holder)) {
            Some(known) => {
                known.partial &= holder.partial;
                known.unreachable &= holder.unreachable;
                known.rank = known.rank.min(holder.rank);
            }
            None => {
                has_parts |= holder.partial;
                holders.push(holder);
            }
        }
    }
    if is_mixed || has_parts || holders.len() > HOLDERS_MAX {
        order(&mut holders);
    }
    holders
}

/// Puts those that hold all of the version before the others, each by rank, and leaves at most [`HOLDERS_MAX`]. Where
/// there are too many of both, the others relieve them: down to [`HOLDERS_WHOLE_MIN`] they make room.
#[inline(never)] // it is seldom needed, and large
pub(super) fn order(holders: &mut Vec<Listed>) {
    holders.sort_by_key(|holder| (holder.partial, holder.rank));
    let whole = holders.partition_point(|holder| !holder.partial);
    let too_many = holders.len().saturating_sub(HOLDERS_MAX);
    let kept = whole - too_many.min(whole.saturating_sub(HOLDERS_WHOLE_MIN));
    holders.drain(kept..whole);
    holders.truncate(HOLDERS_MAX);
}
