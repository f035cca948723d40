//! Hits: a version of a file and its holders, each with its own word of where it can be reached.
//!
//! On the wire the statements of all holders of a reply come first, each once, and a holder is the number of its
//! statement: whoever holds many of the files of a page is described once.

use std::{
    collections::{HashMap, hash_map},
    net::SocketAddr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    limits::{HOLDERS_MAX, REACHES_MAX},
    values::{List, NodeId, SignedReach, SignedRecord, VerifiedReach},
};

/// A version of a file and its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The origin's statement.
    pub record: SignedRecord,
    /// Nodes that can serve exactly this version, complete holders first.
    pub holders: List<ListedHolder, HOLDERS_MAX>,
}

impl Hit {
    /// Where its holders say that they can be reached, none of it verified.
    #[must_use]
    pub fn at(&self) -> Vec<Holder> {
        self.holders.iter().flat_map(ListedHolder::at).collect()
    }
}

/// A holder as an indexer lists it, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHolder {
    /// Where it can be reached, as it states itself.
    pub reach: SignedReach,
    /// Which of these addresses its indexer has seen it at: bit n for the n-th.
    pub addrs: u8,
    /// It is still downloading the version and serves the chunks it has.
    pub partial: bool,
}

impl ListedHolder {
    /// A holder of a complete version, at all of the addresses that it states.
    #[must_use]
    pub fn new(reach: VerifiedReach) -> Self {
        Self { addrs: all_addrs(&reach.addrs), reach: reach.into_signed(), partial: false }
    }

    /// It at each of its addresses, none of it verified.
    pub fn at(&self) -> impl Iterator<Item = Holder> {
        let reach = self.reach.unverified();
        let (node, partial) = (reach.node, self.partial);
        seen_addrs(&reach.addrs, self.addrs).map(move |addr| Holder { node, addr, partial })
    }
}

/// The bits of all of `addrs`.
#[must_use]
pub fn all_addrs(addrs: &[SocketAddr]) -> u8 {
    addrs.iter().fold(0, |mask, _| mask << 1 | 1)
}

/// The addresses whose bit is set in `mask`.
pub fn seen_addrs(addrs: &[SocketAddr], mask: u8) -> impl Iterator<Item = SocketAddr> {
    addrs.iter().enumerate().filter(move |(n, _)| mask >> n & 1 == 1).map(|(_, addr)| *addr)
}

/// A node that can serve a version or a part of it, at one of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Its id; a connection to it must prove this key.
    pub node: NodeId,
    /// Where it listens.
    pub addr: SocketAddr,
    /// It is still downloading the version and serves the chunks it has.
    pub partial: bool,
}

impl Holder {
    /// A holder of a complete version.
    #[must_use]
    pub const fn new(node: NodeId, addr: SocketAddr) -> Self {
        Self { node, addr, partial: false }
    }

    /// Whether both are one node at one address, partial or not.
    #[must_use]
    pub fn is_same_source(&self, other: &Self) -> bool {
        self.node == other.node && self.addr == other.addr
    }
}

/// A holder on the wire.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Numbered {
    reach: u16,
    addrs: u8,
    partial: bool,
}

/// A hit on the wire.
#[derive(Serialize, Deserialize)]
struct Plain<R, H> {
    record: R,
    holders: H,
}

/// Hits with the statements of their holders before them.
pub(super) fn serialize<S: Serializer, const MAX: usize>(
    hits: &List<Hit, MAX>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let table = Table::of(hits);
    (&table.reaches, Each(|| hits.iter().map(|hit| table.plain(hit)))).serialize(serializer)
}

/// The statements of the holders of some hits, at most [`REACHES_MAX`]: those of the first holder of each hit come first.
/// Each comes once, as its clones are one piece of memory.
#[derive(Default)]
struct Table<'a> {
    reaches: Vec<&'a SignedReach>,
    places: HashMap<usize, u16>,
}

impl<'a> Table<'a> {
    fn of(hits: &'a [Hit]) -> Self {
        let mut table = Self::default();
        let longest = hits.iter().map(|hit| hit.holders.len()).max().unwrap_or(0);
        for rank in 0..longest {
            hits.iter().filter_map(|hit| hit.holders.get(rank)).for_each(|holder| table.add(&holder.reach));
        }
        table
    }

    fn add(&mut self, reach: &'a SignedReach) {
        let Ok(place) = u16::try_from(self.reaches.len()) else { return };
        if self.reaches.len() < REACHES_MAX
            && let hash_map::Entry::Vacant(free) = self.places.entry(reach.place_in_memory())
        {
            free.insert(place);
            self.reaches.push(reach);
        }
    }

    /// `hit` with its holders as numbers.
    fn plain(&self, hit: &'a Hit) -> Plain<&'a SignedRecord, Vec<Numbered>> {
        let number = |holder: &ListedHolder| {
            let reach = *self.places.get(&holder.reach.place_in_memory())?;
            Some(Numbered { reach, addrs: holder.addrs, partial: holder.partial })
        };
        Plain { record: &hit.record, holders: hit.holders.iter().filter_map(number).collect() }
    }
}

/// Items that are made while they are written.
struct Each<F>(F);

impl<T: Serialize, I: Iterator<Item = T>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// See [`serialize`].
pub(super) fn deserialize<'de, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<List<Hit, MAX>, D::Error> {
    type Wire<const MAX: usize> =
        (List<SignedReach, REACHES_MAX>, List<Plain<SignedRecord, List<Numbered, HOLDERS_MAX>>, MAX>);
    let (reaches, hits) = Wire::<MAX>::deserialize(deserializer)?;
    let mut read = Vec::with_capacity(hits.len());
    for Plain { record, holders } in hits {
        let listed = |Numbered { reach, addrs, partial }: &Numbered| {
            let reach = reaches.get(usize::from(*reach))?.clone();
            Some(ListedHolder { reach, addrs: *addrs, partial: *partial })
        };
        let holders: Option<Vec<_>> = holders.iter().map(listed).collect();
        let holders = holders.ok_or_else(|| de::Error::custom("a holder without a statement"))?;
        read.push(Hit { record, holders: List::first_of(holders) });
    }
    Ok(List::first_of(read))
}
