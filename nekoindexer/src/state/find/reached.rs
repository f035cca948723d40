//! [`Reached`]: which indexers a search reached, each once however many asked it.

use std::collections::BTreeSet;

use nekoproto::{Covered, FindReply, NodeTag};

/// The indexers that were asked. One may be silent where it is asked, and answer another: it has answered then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    answered: BTreeSet<NodeTag>,
    silent: BTreeSet<NodeTag>,
}

impl Reached {
    /// This one's answer counts; `behind` is what it says of those that it asked, if they count too.
    pub fn answered(&mut self, node: NodeTag, behind: Option<(Covered, Covered)>) {
        let (answered, silent) = behind.unwrap_or_default();
        self.answered.extend(answered.into_iter().chain([node]));
        self.silent.extend(silent);
    }

    /// This one was to be asked, and no answer of it counts.
    pub fn silent(&mut self, node: NodeTag) {
        self.silent.insert(node);
    }

    /// How many answered, and how many were asked.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.answered.len(), self.answered.union(&self.silent).count())
    }

    /// Puts it into a reply, as far as there is room.
    #[must_use]
    pub fn told(self, reply: FindReply) -> FindReply {
        let silent = Covered::first_of(self.silent.difference(&self.answered).copied());
        FindReply { answered: Covered::first_of(self.answered), silent, ..reply }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::tag;

    #[test]
    fn each_indexer_counts_once_and_whoever_answered_somebody_is_not_silent() {
        let tags = |numbers: &[usize]| Covered::first_of(numbers.iter().copied().map(tag));
        let mut reached = Reached::default();
        reached.silent(tag(4));
        reached.answered(tag(1), Some((tags(&[2, 3]), tags(&[4, 5]))));
        reached.answered(tag(2), Some((tags(&[3, 5]), tags(&[4]))));
        reached.answered(tag(6), None);
        assert_eq!(reached.counts(), (5, 6));
        let reply = reached.told(FindReply::default());
        assert_eq!((reply.answered.len(), reply.silent), (5, tags(&[4])));
    }
}
