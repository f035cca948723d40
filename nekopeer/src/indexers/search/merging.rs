//! What several indexers answered, as one: who holds each file, and where.

use nekoindexer::state::holders::{Listed, Sender, heard};
use nekoproto::{FileName, Holder, QueryReply, Verifier, Via, limits::HOLDERS_MAX, transport::Endpoint};

use super::Answer;
use crate::state::choice::{Candidate, add_holder};

/// Merges one reply of `sender`. A record that its origin did not sign is dropped: it says nothing of any file. A record of
/// another name is dropped and makes the answer incomplete.
pub(super) fn absorb(
    endpoint: &Endpoint,
    verifier: &Verifier,
    merged: &mut Answer,
    name: &FileName,
    (sender, reply): (Sender, QueryReply),
) {
    merged.complete &= reply.complete;
    merged.guests_unheard |= reply.guests_unheard;
    for hit in reply.hits {
        if hit.record.unverified().name != *name {
            merged.complete = false;
            continue;
        }
        let Ok(record) = verifier.verify(hit.record) else { continue };
        let listed = heard(hit.holders, HOLDERS_MAX, &[], sender);
        add(&mut merged.candidates, Candidate { record, holders: addresses(endpoint, &listed) });
    }
}

/// These holders, each at the first of its addresses; the others are tried when that is dialled.
pub(in crate::indexers) fn addresses(endpoint: &Endpoint, listed: &[Listed]) -> Vec<Holder> {
    for holder in listed {
        let via = match holder.via {
            Via::Indexer(indexer) => Some(indexer),
            Via::Nobody | Via::Sender => None,
        };
        endpoint.learn(&holder.at, via, holder.unreachable);
    }
    listed.iter().filter_map(|holder| holder.holders().next()).collect()
}

/// Merges one candidate. A node counts as a complete holder if one indexer lists it as such. Of two files under one
/// number both are kept.
fn add(candidates: &mut Vec<Candidate>, fresh: Candidate) {
    candidates.retain(|known| !fresh.record.replaces(&known.record));
    if let Some(known) = candidates.iter_mut().find(|known| known.record == fresh.record) {
        fresh.holders.into_iter().for_each(|holder| add_holder(&mut known.holders, holder));
        known.holders.sort_by_key(|holder| holder.partial);
        return;
    }
    let may_stand_beside =
        |known: &Candidate| !known.record.same_file(&fresh.record) || fresh.record.contradicts(&known.record);
    if candidates.iter().all(may_stand_beside) {
        candidates.push(fresh);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use nekoproto::ContentHash;
    use testkit::{goods::record, values::identity};

    use super::*;

    fn holder(n: u16) -> Holder {
        Holder::new(identity(n).id(), SocketAddr::from(([127, 0, 0, 1], 1000)))
    }

    fn partial(n: u16) -> Holder {
        Holder { partial: true, ..holder(n) }
    }

    fn candidate(version: u64, holders: &[Holder]) -> Candidate {
        Candidate { record: record(1, "a", version, |_| {}), holders: holders.to_vec() }
    }

    #[test]
    fn holder_of_all_in_one_answer_and_of_a_part_in_another_is_one_that_holds_all() {
        let answers = [
            candidate(2, &[holder(2), partial(3), partial(4)]),
            candidate(2, &[partial(2), holder(3), holder(5)]),
        ];
        for order in [[0, 1], [1, 0]] {
            let mut candidates = Vec::new();
            order.iter().for_each(|n| add(&mut candidates, answers[*n].clone()));
            add(&mut candidates, candidate(1, &[holder(6)]));
            assert_eq!(candidates.len(), 1);
            let holders = &candidates[0].holders;
            assert_eq!((holders.len(), holders[3]), (4, partial(4)), "{holders:?}");
            assert!([2, 3, 5].iter().all(|n| holders.contains(&holder(*n))), "{holders:?}");
        }
    }

    #[test]
    fn of_two_files_under_one_number_both_are_found_until_a_later_version_is() {
        let (one, later) = (candidate(2, &[holder(1)]), candidate(3, &[holder(3)]));
        let record = record(1, "a", 2, |record| record.content = ContentHash::from_bytes([9; 32]));
        let other = Candidate { record, holders: vec![holder(2)] };
        let mut candidates = Vec::new();
        for fresh in [&one, &other, &one, &candidate(1, &[]), &other] {
            add(&mut candidates, fresh.clone());
        }
        assert_eq!(candidates, [one.clone(), other.clone()]);
        for fresh in [&later, &other, &one] {
            add(&mut candidates, fresh.clone());
        }
        assert_eq!(candidates, [later]);
    }
}
