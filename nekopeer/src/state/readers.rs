//! Remembers for 7 days which readers confirmed a copy at this origin, with the version that each held and when: its user
//! asks who is behind. Which copies count as fresh is decided by leases, in
//! [`library::subscribers`](crate::library::subscribers).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem::take,
    net::SocketAddr,
    ops::RangeInclusive,
};

use nekoproto::{FileName, Holder, Label, NodeId, Version};
use serde::{Deserialize, Serialize};

/// Maximum number of readers of one name, of those at one address, and of all names, some 150 bytes each in memory and on
/// disk.
const OF_NAME_MAX: usize = 1024;
const OF_ADDRESS_MAX: usize = 512;
const ALL_MAX: usize = 1 << 15;
/// Readers that are compared where there is no room for a further one of any name.
const COMPARED_MAX: usize = 64;
/// How long a reader is remembered after it was heard last, in milliseconds.
const REMEMBERED_MS: u64 = 7 * 24 * 3600 * 1000;
/// At a limit, a reader that was heard over a shorter time makes room: new keys displace each other, and no reader of
/// yesterday.
const STANDING_MS: u64 = 10 * 60 * 1000;

/// A name and a reader -> what that said last.
pub(crate) type Heard = BTreeMap<(FileName, NodeId), LastHeard>;

pub(crate) type Labels = BTreeMap<NodeId, Label>;

/// What a reader said last. The stored form too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastHeard {
    pub(crate) addr: SocketAddr,
    pub(crate) holds: Version,
    /// When it was heard first and last, in milliseconds since 1970.
    first_ms: u64,
    pub(crate) heard_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Readers {
    heard: Heard,
    /// Of readers that are known, and until they are stored of some that are not any more.
    labels: Labels,
    /// Not all of it is stored.
    is_changed: bool,
    /// Nor a reader or a version that is new.
    has_new: bool,
}

fn of_name(name: &FileName) -> RangeInclusive<(FileName, NodeId)> {
    (name.clone(), NodeId::from_bytes([0; 32]))..=(name.clone(), NodeId::from_bytes([u8::MAX; 32]))
}

impl Readers {
    pub(crate) const fn new(heard: Heard, labels: Labels) -> Self {
        Self { heard, labels, is_changed: false, has_new: false }
    }

    /// `holder` says that it holds this version. At a limit one that was heard over a short time makes room for it, or it is
    /// not noted. Returns whether that is news.
    pub(crate) fn heard(
        &mut self,
        (name, holds): (&FileName, Version),
        holder: Holder,
        label: Option<&Label>,
        now_ms: u64,
    ) -> bool {
        let (key, addr) = ((name.clone(), holder.node), holder.addr);
        let before = self.heard.get(&key).copied();
        if before.is_none() && !self.makes_room(&key, addr, now_ms) {
            return false;
        }
        let first_ms = before.map_or(now_ms, |before| before.first_ms);
        let is_new = before.is_none_or(|before| before.holds != holds);
        if let Some(label) = label.filter(|label| self.labels.get(&holder.node) != Some(label)) {
            self.labels.insert(holder.node, label.clone());
            self.has_new = true;
        }
        self.has_new |= is_new;
        self.is_changed = true;
        self.heard.insert(key, LastHeard { addr, holds, first_ms, heard_ms: now_ms });
        is_new
    }

    /// The same of a node that listens nowhere now, if it is known as a reader.
    pub(crate) fn heard_again(&mut self, known: (&FileName, Version), node: NodeId, now_ms: u64) -> bool {
        let before = self.heard.get(&(known.0.clone(), node)).copied();
        before.is_some_and(|before| self.heard(known, Holder::new(node, before.addr), None, now_ms))
    }

    fn makes_room(&mut self, key: &(FileName, NodeId), addr: SocketAddr, now_ms: u64) -> bool {
        let of_name = || self.heard.range(of_name(&key.0));
        let at_address = || of_name().filter(|(_, known)| known.addr.ip() == addr.ip());
        let standing = |known: &LastHeard| match known.is_over(now_ms) {
            true => 0,
            false => known.heard_ms.saturating_sub(known.first_ms),
        };
        let others: Vec<_> = match () {
            () if at_address().count() >= OF_ADDRESS_MAX => at_address().collect(),
            () if of_name().count() >= OF_NAME_MAX => of_name().collect(),
            () if self.heard.len() < ALL_MAX => return true,
            () => self.heard.range(key..).chain(&self.heard).take(COMPARED_MAX).collect(),
        };
        let weakest = others.into_iter().min_by_key(|(_, known)| standing(known));
        let weakest = weakest.filter(|(_, known)| standing(known) < STANDING_MS).map(|(key, _)| key.clone());
        weakest.is_some_and(|weakest| self.heard.remove(&weakest).is_some())
    }

    pub(crate) fn of(&self, name: &FileName, now_ms: u64) -> Vec<(NodeId, LastHeard)> {
        let known = self.heard.range(of_name(name)).filter(|(_, known)| !known.is_over(now_ms));
        known.map(|((_, node), known)| (*node, *known)).collect()
    }

    pub(crate) fn label(&self, node: &NodeId) -> Option<Label> {
        self.labels.get(node).cloned()
    }

    /// Forgets the readers that `is_it` is true of; returns the id of each.
    pub(crate) fn forget(&mut self, is_it: impl Fn(&NodeId) -> bool) -> BTreeSet<NodeId> {
        let forgotten = self.heard.extract_if(.., |(_, node), _| is_it(node)).map(|((_, node), _)| node);
        (self.is_changed, self.has_new) = (true, true);
        forgotten.collect()
    }

    /// All, to be stored, if that is not done; later times of what is known otherwise only if it is their turn.
    pub(crate) fn take_changed(&mut self, now_ms: u64, with_times: bool) -> Option<(Heard, Labels)> {
        let is_due = take(&mut self.has_new) | (with_times && self.is_changed);
        is_due.then(|| {
            self.is_changed = false;
            self.heard.retain(|_, known| !known.is_over(now_ms));
            let nodes: HashSet<NodeId> = self.heard.keys().map(|(_, node)| *node).collect();
            self.labels.retain(|node, _| nodes.contains(node));
            (self.heard.clone(), self.labels.clone())
        })
    }
}

impl LastHeard {
    const fn is_over(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.heard_ms) > REMEMBERED_MS
    }
}

#[cfg(test)]
mod tests {
    use testkit::values::name;

    use super::*;

    const HOUR_MS: u64 = 3600 * 1000;

    fn holder(n: usize, host: u8) -> Holder {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&n.to_le_bytes());
        Holder::new(NodeId::from_bytes(id), SocketAddr::from(([10, 0, 0, host], 1)))
    }

    #[test]
    fn strangers_with_many_keys_take_bounded_room_and_displace_no_reader_of_an_hour() {
        let (mut readers, a, old) = (Readers::default(), name("a"), holder(0, 0));
        let mut heard = |name: &FileName, holder: Holder, now_ms| {
            readers.heard((name, Version::FIRST), holder, None, now_ms);
            (
                readers.of(name, now_ms).len(),
                readers.of(name, now_ms).iter().any(|(node, _)| *node == old.node),
            )
        };
        heard(&a, old, 0);
        for n in 1..2 * OF_NAME_MAX {
            heard(&a, holder(n, 1), HOUR_MS);
        }
        assert_eq!(heard(&a, old, HOUR_MS), (OF_ADDRESS_MAX + 1, true), "of one address");
        for n in 1..2 * OF_NAME_MAX {
            heard(&a, holder(n, u8::try_from(n % 100).unwrap()), HOUR_MS);
        }
        assert_eq!(heard(&a, old, HOUR_MS), (OF_NAME_MAX, true));
        for n in 1..2 * ALL_MAX {
            readers.heard((&name(&format!("{n}")), Version::FIRST), holder(n, 1), None, HOUR_MS);
        }
        assert_eq!(readers.heard.len(), ALL_MAX);
        assert!(readers.heard.contains_key(&(a, old.node)));
    }

    #[test]
    fn reader_is_remembered_for_days_and_stored_once_after_a_change() {
        let (mut readers, a, reader) = (Readers::default(), name("a"), holder(1, 1));
        let desk = Label::try_from("desk-3".to_owned()).unwrap();
        assert!(readers.heard((&a, Version::FIRST), reader, Some(&desk), 0));
        assert!(!readers.heard((&a, Version::FIRST), reader, None, 1), "the same again");
        assert!(readers.heard_again((&a, Version::new(2).unwrap()), reader.node, 5));
        assert!(!readers.heard_again((&a, Version::FIRST), holder(2, 1).node, 5));
        let (stored, labels) = readers.take_changed(5, false).unwrap();
        assert!(readers.take_changed(5, true).is_none(), "nothing is new");
        let mut readers = Readers::new(stored, labels);
        assert_eq!(readers.label(&reader.node), Some(desk));
        assert_eq!(readers.of(&a, 5 + REMEMBERED_MS)[0].1.holds.get(), 2);
        assert!(readers.of(&a, 6 + REMEMBERED_MS).is_empty());
        assert_eq!(readers.forget(|node| *node == reader.node), BTreeSet::from([reader.node]));
        let (heard, labels) = readers.take_changed(5, false).unwrap();
        assert!(heard.is_empty() && labels.is_empty(), "what a reader is called goes with it");
    }
}
