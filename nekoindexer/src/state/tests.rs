//! Tests of what an indexer decides about queries, beside the simulations.

use nekoproto::{MsgId, NodeId};

use super::{caller::CallerRole, *};

#[tokio::test]
async fn only_the_indexer_where_a_query_began_is_answered_without_being_remembered() {
    let (now, deadline) = (Instant::now(), Duration::from_secs(2));
    let state = State::new(now);
    state.on_register(
        &testing::session(&state.index, 1, deadline, now),
        vec![testing::record(1, "a", 1)],
        true,
    );
    let [began_at, via] = [1, 2].map(|n| testing::identity(n).id());
    let last_hop = |id| {
        let request = QueryRequest::new(MsgId::from_u128(id), testing::name("a"), 0);
        QueryRequest { covered: Covered::first_of([began_at.tag(), via.tag(), testing::tag(3)]), ..request }
    };
    let caller = |from: Option<NodeId>| match from {
        Some(neighbor) => Caller::new((neighbor, CallerRole::Trusted), None),
        None => Caller::new((testing::identity(9).id(), CallerRole::Peer), None),
    };
    let answer = |request: &QueryRequest, from| {
        let (share, local) = state.on_query(request, &caller(from), deadline, now).unwrap();
        assert!(share.is_remembered);
        local.len()
    };
    for (id, from, answers) in [(1, Some(began_at), [1, 1]), (2, Some(via), [1, 0]), (3, None, [1, 0])] {
        assert_eq!([(); 2].map(|()| answer(&last_hop(id), from)), answers, "{id}");
    }
    let further = QueryRequest { ttl_hops: 1, ..last_hop(4) };
    let answers = [(); 2].map(|()| answer(&further, Some(began_at)));
    assert_eq!(answers, [1, 0], "what travels on is remembered");
}
