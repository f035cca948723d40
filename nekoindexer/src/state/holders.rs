//! The holders of one version as several sources name them: each in its own words, none twice, and none of the sources
//! in the way of another.

use nekoproto::{
    Holder, List, ListedHolder, NodeId, NodeTag, ReachError, SignedReach, VerifiedReach, all_addrs,
    limits::{HOLDERS_MAX, HOLDERS_WHOLE_MIN},
    seen_addrs,
};

/// A holder whose own word of where it can be reached is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its word.
    pub reach: VerifiedReach,
    /// Which of these addresses its indexer has seen it at: bit n for the n-th.
    pub addrs: u8,
    /// It has a part of the version.
    pub partial: bool,
    /// Its place among the holders that one source named; 0 for those of the own index. Where there are too many, the
    /// first of each source come before the second of any.
    rank: u8,
}

impl Listed {
    /// A holder that is listed here.
    #[must_use]
    pub const fn here(reach: VerifiedReach, addrs: u8, partial: bool) -> Self {
        Self { reach, addrs, partial, rank: 0 }
    }

    /// Its id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.reach.node
    }

    /// It at each of its addresses.
    pub fn at(&self) -> impl Iterator<Item = Holder> {
        let (node, partial) = (self.reach.node, self.partial);
        seen_addrs(&self.reach.addrs, self.addrs).map(move |addr| Holder { node, addr, partial })
    }

    /// As it is sent.
    #[must_use]
    pub fn into_sent(self) -> ListedHolder {
        ListedHolder { reach: self.reach.into_signed(), addrs: self.addrs, partial: self.partial }
    }

    /// Whether both are one node at the same addresses.
    pub(super) fn is_same_source(&self, other: &Self) -> bool {
        self.node() == other.node()
            && (self.reach == other.reach || self.at().map(|at| at.addr).eq(other.at().map(|at| at.addr)))
    }
}

/// What is believed of the holders that another node names, at most `max` of them: those whose own words hold. An honest
/// node has checked them, so behind a forged one nothing counts. Nodes of `without` are left out.
#[must_use]
pub fn heard(
    holders: impl IntoIterator<Item = ListedHolder>,
    max: usize,
    without: &[NodeTag],
    mut verify: impl FnMut(SignedReach) -> Result<VerifiedReach, ReachError>,
) -> Vec<Listed> {
    let wanted =
        holders.into_iter().filter(|holder| !without.contains(&holder.reach.unverified().node.tag()));
    let listed = |(ListedHolder { reach, addrs, partial }, rank): (ListedHolder, u8)| match verify(reach) {
        Ok(reach) => Some(Some(Listed { addrs: addrs & all_addrs(&reach.addrs), reach, partial, rank })),
        Err(ReachError::Expired) => Some(None),
        Err(ReachError::Forged) => None,
    };
    let believed = wanted.take(max).zip(1..).map_while(listed).flatten();
    believed.filter(|holder| holder.addrs != 0).collect()
}

/// As they are sent.
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
                known.rank = known.rank.min(holder.rank);
                if known.reach == holder.reach {
                    known.addrs |= holder.addrs;
                } else if known.reach.expires_ms < holder.reach.expires_ms {
                    (known.reach, known.addrs) = (holder.reach, holder.addrs);
                }
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
