//! Where a route probe goes next: to the neighbor that it has not been at for the longest time, so that it goes round in
//! a ring, and everywhere else sooner or later.

use std::time::Duration;

use nekoproto::{
    NodeTag,
    probe::{ProbeEnd, ProbeRequest, Visited},
};

/// What becomes of a probe.
#[derive(Debug)]
pub struct ProbePlan {
    /// It had been here before.
    pub again: bool,
    /// The place of the neighbor that it is passed on to, and what is; or why it ends here.
    pub next: Result<(usize, ProbeRequest), ProbeEnd>,
}

/// Takes a probe, which is within its limits, at the node `own` with these `neighbors`.
#[must_use]
pub fn plan(own: NodeTag, neighbors: &[NodeTag], request: ProbeRequest) -> ProbePlan {
    let again = request.visited.contains(&own);
    let next = request.hops_left.checked_sub(1).ok_or(ProbeEnd::Hops).and_then(|hops_left| {
        let visited = Visited::first_of(request.visited.into_iter().chain([own]));
        let place = next(neighbors, &visited).ok_or(ProbeEnd::Nowhere)?;
        Ok((place, ProbeRequest { hops_left, visited, ..request }))
    });
    ProbePlan { again, next }
}

/// The place in `neighbors` of the one that a probe is passed on to, which came by `visited`; of those where it never was,
/// the one with the smallest tag. `None` without neighbors.
fn next(neighbors: &[NodeTag], visited: &[NodeTag]) -> Option<usize> {
    let last_at = |tag: &NodeTag| visited.iter().rposition(|stop| stop == tag);
    (0..neighbors.len()).min_by_key(|place| (last_at(&neighbors[*place]), neighbors[*place]))
}

/// The part of the time `left` that the next has, who is given `hops_left`: each hop to come keeps as much for itself, so
/// that its answer still arrives when the one behind it does not.
pub(crate) fn budget(left: Duration, hops_left: u8) -> Duration {
    left.saturating_sub(left / (u32::from(hops_left) + 2))
}

#[cfg(test)]
mod tests {
    use nekoproto::NodeId;

    use super::*;

    fn tag(n: usize) -> NodeTag {
        NodeId::from_bytes([u8::try_from(n).unwrap(); 32]).tag()
    }

    /// The stops of a probe that begins at 0, where `neighbors` says who is whose neighbor.
    fn stops(neighbors: impl Fn(usize) -> Vec<usize>, hops: usize) -> Vec<usize> {
        let mut stops = vec![0];
        for _ in 0..hops {
            let beside = neighbors(*stops.last().unwrap());
            let tags: Vec<NodeTag> = beside.iter().map(|n| tag(*n)).collect();
            let visited: Vec<NodeTag> = stops.iter().map(|n| tag(*n)).collect();
            stops.push(beside[next(&tags, &visited).unwrap()]);
        }
        stops
    }

    #[test]
    fn probe_goes_round_in_a_ring_and_is_dropped_where_arithmetic_says() {
        for nodes in 3..9 {
            let ring = |n: usize| vec![(n + nodes - 1) % nodes, (n + 1) % nodes];
            for hops in 0..40 {
                let stops = stops(ring, hops);
                let second = stops.get(1).copied().unwrap_or(1);
                let step = if second == 1 { 1 } else { nodes - 1 };
                let round: Vec<usize> = (0..=hops).map(|hop| hop * step % nodes).collect();
                assert_eq!(stops, round, "{nodes} nodes, {hops} hops");
            }
        }
    }

    #[test]
    fn each_hop_of_a_probe_has_as_much_time_as_the_others() {
        let (mut left, mut kept) = (Duration::from_secs(2), Vec::new());
        for hops_left in (0..64).rev() {
            let next = budget(left, hops_left);
            kept.push(left - next);
            left = next;
        }
        kept.push(left);
        let [shortest, longest] =
            [kept.iter().min(), kept.iter().max()].map(|time| time.unwrap().as_micros());
        assert!(longest - shortest < 10, "{shortest} to {longest} us");
    }

    #[test]
    fn probe_turns_back_at_the_end_of_a_line_and_comes_to_all_of_a_mesh() {
        let line = |n: usize| {
            if n == 0 {
                vec![1]
            } else if n == 3 {
                vec![2]
            } else {
                vec![n - 1, n + 1]
            }
        };
        assert_eq!(stops(line, 6), [0, 1, 2, 3, 2, 1, 0]);
        let mut mesh = stops(|n| (0..6).filter(|other| *other != n).collect(), 5);
        mesh.sort_unstable();
        assert_eq!(mesh, [0, 1, 2, 3, 4, 5]);
        assert_eq!(next(&[], &[tag(1)]), None);
    }
}
