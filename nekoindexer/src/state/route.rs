//! Which neighbors a message goes to: those to which no copy with as many hops has been sent.

use nekoproto::{Covered, NodeTag};

/// Where a message goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Indices of the neighbors to ask, all at once.
    pub ask: Vec<usize>,
    /// The covered set they are given; empty if nobody is asked.
    pub covered: Covered,
    /// Whether a neighbor out of reach leaves a gap that nobody else is known to fill.
    pub gap: bool,
}

/// Chooses among `reachable`; `away` are neighbors out of reach, `None` where it was never known
/// who they are.
///
/// Why skipping the covered is safe: whoever is in `covered` was sent a copy by somebody at least
/// as near to the asker as we are, so with at least as many hops as ours would have.
#[must_use]
pub fn route(me: NodeTag, reachable: &[NodeTag], away: &[Option<NodeTag>], covered: &Covered) -> Route {
    let is_covered = |tag: &NodeTag| *tag == me || covered.contains(tag);
    let mut ask: Vec<usize> = (0..reachable.len()).collect();
    ask.retain(|index| !is_covered(&reachable[*index]));
    let gap = away.iter().any(|tag| tag.as_ref().is_none_or(|tag| !is_covered(tag)));
    if ask.is_empty() {
        return Route { ask, covered: Covered::new(), gap };
    }
    let asked = ask.iter().map(|index| reachable[*index]);
    let mine = (!covered.contains(&me)).then_some(me);
    let covered = Covered::first_of(covered.iter().copied().chain(mine).chain(asked));
    Route { ask, covered, gap }
}

impl Route {
    /// The same to those of the neighbors for which `is_concerned`. Those left out are not covered: whoever knows better
    /// may ask them.
    #[must_use]
    pub fn narrowed(
        mut self,
        me: NodeTag,
        reachable: &[NodeTag],
        covered: &Covered,
        is_concerned: impl Fn(usize) -> bool,
    ) -> Self {
        self.ask.retain(|index| is_concerned(*index));
        let asked = self.ask.iter().map(|index| reachable[*index]);
        let mine = (!covered.contains(&me)).then_some(me);
        self.covered = Covered::first_of(covered.iter().copied().chain(mine).chain(asked));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::tag;

    #[test]
    fn a_neighbor_away_is_a_gap_unless_someone_else_covers_it() {
        let covered = Covered::first_of([tag(1)]);
        assert!(!route(tag(0), &[], &[Some(tag(1))], &covered).gap);
        assert!(route(tag(0), &[], &[Some(tag(2))], &covered).gap);
        assert!(route(tag(0), &[], &[None], &covered).gap);
    }
}
