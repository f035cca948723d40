//! Where a probe goes in a ring, and what each node counts of it, by arithmetic. Pure.

use nekoindexer::ProbeCounts;

/// A ring of nodes, and the hops of a probe. Nodes are numbered from 0 in the order in which the probe comes to them.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Number of nodes, at least 2.
    pub nodes: usize,
    /// How often a probe is passed on.
    pub hops: u8,
}

impl Ring {
    /// The node of each stop.
    pub fn way(self) -> impl Iterator<Item = usize> {
        (0..=usize::from(self.hops)).map(move |hop| hop % self.nodes)
    }

    /// The node where a probe has no hops left.
    pub fn dropped_at(self) -> usize {
        usize::from(self.hops) % self.nodes
    }

    /// What `node` counts of this number of probes.
    pub fn counts(self, node: usize, probes: u64) -> ProbeCounts {
        let received = self.way().filter(|at| *at == node).count() as u64;
        let out_of_hops = u64::from(self.dropped_at() == node);
        ProbeCounts {
            received: received * probes,
            forwarded: (received - out_of_hops) * probes,
            circles: received.saturating_sub(1) * probes,
            out_of_hops: out_of_hops * probes,
            ..ProbeCounts::default()
        }
    }
}

/// By how much what was counted is off.
pub fn off(counted: &ProbeCounts, expected: &ProbeCounts) -> u64 {
    let all = |of: &ProbeCounts| {
        [of.received, of.forwarded, of.circles, of.out_of_hops, of.nowhere, of.lost, of.refused]
    };
    all(counted).into_iter().zip(all(expected)).map(|(one, other)| one.abs_diff(other)).sum()
}
