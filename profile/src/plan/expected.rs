//! What must come out of a query, and whether it did. Pure.

use std::sync::Arc;

use nekoproto::{Holder, QueryReply};
use serde::Serialize;

use crate::plan::{
    topology::Graph,
    workload::{Ask, Workload},
};

/// What the clients of one indexer must find.
#[derive(Debug)]
pub struct Expected {
    workload: Arc<Workload>,
    /// For each file those of its holders that are in reach, in order.
    holders: Vec<Vec<Holder>>,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has exactly the hits it must have.
    Right,
    /// It says itself that someone in reach did not answer.
    Incomplete,
    /// A hit or a holder in reach is not there.
    Missing,
    /// A hit or a holder is there that is nowhere in reach.
    Unexpected,
    /// A record is not the one that was registered.
    Altered,
}

impl Expected {
    /// What must be found by queries that begin at indexer `from` with `ttl_hops`; `holders[n]` is
    /// the peer of indexer n.
    pub fn new(
        workload: Arc<Workload>,
        graph: &Graph,
        from: usize,
        ttl_hops: u8,
        holders: &[Holder],
    ) -> Self {
        let reached = graph.reach(from, ttl_hops);
        let found = (0..workload.records().len()).map(|index| {
            let in_reach = workload.held_at(index).filter(|at| reached[*at]);
            in_order(in_reach.map(|at| holders[at]))
        });
        Self { holders: found.collect(), workload }
    }

    /// Whether something must be found.
    pub fn is_hit(&self, ask: Ask) -> bool {
        matches!(ask, Ask::File(index) if !self.holders[index].is_empty())
    }

    /// Judges the answer to `ask`: every hit, holder, address and byte of the record.
    pub fn judge(&self, ask: Ask, reply: &QueryReply) -> Verdict {
        let answer = match ask {
            Ask::File(index) if self.is_hit(ask) => {
                Some((&self.workload.records()[index], &self.holders[index]))
            }
            Ask::File(_) | Ask::Missing(_) => None,
        };
        match (answer, &reply.hits[..]) {
            _ if !reply.complete => Verdict::Incomplete,
            (None, []) => Verdict::Right,
            (Some(_), []) => Verdict::Missing,
            (None, _) | (Some(_), [_, _, ..]) => Verdict::Unexpected,
            (Some((record, _)), [hit]) if hit.record != *record => Verdict::Altered,
            (Some((_, holders)), [hit]) => {
                let found = in_order(hit.holders.iter().copied());
                match found == *holders {
                    true => Verdict::Right,
                    false if found.iter().all(|holder| holders.contains(holder)) => Verdict::Missing,
                    false => Verdict::Unexpected,
                }
            }
        }
    }
}

fn in_order(holders: impl Iterator<Item = Holder>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = holders.collect();
    holders.sort_unstable_by_key(|holder| (holder.node, holder.addr));
    holders
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use nekoproto::{Hit, Identity, List, SignedRecord};

    use super::*;
    use crate::plan::{
        scenario::Scenario,
        topology::Topology,
        workload::{Workload, sign_record},
    };

    /// A line of three indexers with two files each, held at two of them; asked from one end, one hop.
    fn expected() -> (Expected, Vec<Holder>, Vec<SignedRecord>) {
        let scenario =
            Scenario { indexers: 3, files: 2, holders: 2, topology: Topology::Line, ..Scenario::default() };
        let origins: Vec<Identity> = (0..3).map(|n| Identity::from_seed(&[n; 32])).collect();
        let holders: Vec<Holder> = origins
            .iter()
            .zip(1..)
            .map(|(origin, port)| Holder::new(origin.id(), SocketAddr::from(([127, 0, 0, 1], port))))
            .collect();
        let workload = Arc::new(Workload::new(&scenario, &origins));
        let expected = Expected::new(Arc::clone(&workload), &scenario.graph().unwrap(), 0, 1, &holders);
        (expected, holders, workload.records().to_vec())
    }

    fn reply(hits: &[(&SignedRecord, &[Holder])]) -> QueryReply {
        let hits = hits.iter().map(|(record, holders)| Hit {
            record: (*record).clone(),
            holders: List::first_of(holders.iter().copied()),
        });
        QueryReply { hits: List::first_of(hits), complete: true, messages: 1 }
    }

    #[test]
    fn exactly_what_is_in_reach_is_right() {
        let (expected, holders, records) = expected();
        let judge = |file: usize, reply: &QueryReply| expected.judge(Ask::File(file), reply);
        // File 0 is held at indexers 0 and 1, file 2 at 1 and 2, file 4 at 2 and 0; 2 is out of reach.
        assert_eq!(judge(0, &reply(&[(&records[0], &[holders[1], holders[0]])])), Verdict::Right);
        assert_eq!(judge(2, &reply(&[(&records[2], &holders[1..2])])), Verdict::Right);
        assert_eq!(judge(4, &reply(&[(&records[4], &holders[..1])])), Verdict::Right);
        assert_eq!(expected.judge(Ask::Missing(0), &reply(&[])), Verdict::Right);
        assert!(expected.is_hit(Ask::File(5)) && !expected.is_hit(Ask::Missing(5)));
    }

    #[test]
    fn anything_else_is_wrong_and_said_how() {
        let (expected, holders, records) = expected();
        let judge = |reply: &QueryReply| expected.judge(Ask::File(0), reply);
        assert_eq!(judge(&reply(&[])), Verdict::Missing);
        assert_eq!(judge(&reply(&[(&records[0], &holders[..1])])), Verdict::Missing);
        assert_eq!(judge(&reply(&[(&records[0], &holders)])), Verdict::Unexpected);
        let twice = (&records[0], &holders[..2]);
        assert_eq!(judge(&reply(&[twice, twice])), Verdict::Unexpected);
        assert_eq!(judge(&reply(&[(&records[1], &holders[..2])])), Verdict::Altered);
        let resigned = sign_record(&Identity::from_seed(&[9; 32]), "indexer-0/file-0.bin").to_signed();
        assert_eq!(judge(&reply(&[(&resigned, &holders[..2])])), Verdict::Altered);
        let elsewhere = Holder { addr: SocketAddr::from(([127, 0, 0, 1], 99)), ..holders[1] };
        assert_eq!(judge(&reply(&[(&records[0], &[holders[0], elsewhere])])), Verdict::Unexpected);
        assert_eq!(
            expected.judge(Ask::Missing(0), &reply(&[(&records[0], &holders[..2])])),
            Verdict::Unexpected
        );
        let partly = QueryReply { complete: false, ..reply(&[(&records[0], &holders[..2])]) };
        assert_eq!(judge(&partly), Verdict::Incomplete);
    }
}
