//! Which neighbors a message goes to: those to which no copy with as many hops has been sent.

use nekoproto::{Covered, NodeTag, WhyUnasked};

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

/// A neighbor by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Among those that are connected.
    Reachable(usize),
    /// Among those out of reach.
    Away(usize),
}

/// Chooses among `reachable`; `away` are neighbors out of reach, `None` where it was never known
/// who they are.
///
/// Why skipping the covered is safe: whoever is in `covered` was sent a copy by somebody at least
/// as near to the asker as we are, so with at least as many hops as ours would have.
#[must_use]
pub fn route(me: NodeTag, reachable: &[NodeTag], away: &[Option<NodeTag>], covered: &Covered) -> Route {
    route_and_tell(me, reachable, away, covered, |_, _| {})
}

/// As [`route`]; also calls `unasked` with each neighbor that is left out, and the reason.
#[must_use]
pub fn route_and_tell(
    me: NodeTag,
    reachable: &[NodeTag],
    away: &[Option<NodeTag>],
    covered: &Covered,
    mut unasked: impl FnMut(Place, WhyUnasked),
) -> Route {
    let is_covered = |tag: &NodeTag| *tag == me || covered.contains(tag);
    let mut ask: Vec<usize> = (0..reachable.len()).collect();
    ask.retain(|index| {
        let is_asked = !is_covered(&reachable[*index]);
        if !is_asked {
            unasked(Place::Reachable(*index), WhyUnasked::Covered);
        }
        is_asked
    });
    let mut gap = false;
    for (index, tag) in away.iter().enumerate() {
        let is_gap = tag.as_ref().is_none_or(|tag| !is_covered(tag));
        gap |= is_gap;
        unasked(Place::Away(index), if is_gap { WhyUnasked::Away } else { WhyUnasked::Covered });
    }
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

    #[test]
    fn who_is_left_out_has_the_reason_that_decided_it() {
        let (near, covered) = ([tag(1), tag(2), tag(3)], Covered::first_of([tag(2), tag(5)]));
        let away = [Some(tag(4)), Some(tag(5)), None];
        let mut told = Vec::new();
        let route = route_and_tell(tag(0), &near, &away, &covered, |place, why| told.push((place, why)));
        use WhyUnasked::{Away, Covered as IsCovered};
        assert_eq!(
            told,
            [
                (Place::Reachable(1), IsCovered),
                (Place::Away(0), Away),
                (Place::Away(1), IsCovered),
                (Place::Away(2), Away),
            ]
        );
        assert_eq!((&route.ask, route.gap), (&vec![0, 2], true));
        assert_eq!(route, super::route(tag(0), &near, &away, &covered), "the plan is the same");
    }
}
