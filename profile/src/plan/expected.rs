//! What must come out of a query, and whether it did. Pure.

use std::sync::Arc;

use nekoproto::{Holder, QueryReply};
use serde::Serialize;

use crate::plan::topology::Graph;
use crate::plan::workload::{Ask, Workload};

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
                let found = in_order(hit.at().into_iter());
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
