//! Tests of what an indexer decides about queries, registrations and invalidations.

use nekoproto::FileName;

use super::{testing::record, *};

fn query(id: u128, ttl_hops: u8) -> QueryRequest {
    let name = FileName::new("a").unwrap();
    QueryRequest::new(MsgId::from_u128(id), name, ttl_hops)
}

fn session(state: &State, n: u8, now: Instant) -> Arc<Session> {
    testing::session(&state.index, n, Duration::from_secs(9), now)
}

fn peer() -> Caller {
    Caller::new(None, None)
}

const DEADLINE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_ttl_past_the_limit_is_refused() {
    let now = Instant::now();
    let state = State::new(now);
    let refusal = state.on_query(&query(1, 255), &peer(), DEADLINE, now);
    assert_eq!(refusal, Err(Refusal::TtlTooLarge(255)));
    assert!(state.on_query(&query(1, TTL_MAX), &peer(), DEADLINE, now).is_ok());
}

#[tokio::test]
async fn a_deeper_copy_is_forwarded_and_not_answered_again() {
    let now = Instant::now();
    let state = State::new(now);
    state.on_register(&session(&state, 1, now), vec![record(1, "a", 1)], true);
    let QueryPlan::Forward { local, ttl_hops: 1, again: false } =
        state.on_query(&query(1, 2), &peer(), DEADLINE, now).unwrap()
    else {
        panic!("not forwarded")
    };
    assert_eq!(local.len(), 1);
    let duplicate = state.on_query(&query(1, 1), &peer(), DEADLINE, now).unwrap();
    assert_eq!(duplicate, QueryPlan::Duplicate);
    let deeper = state.on_query(&query(1, 3), &peer(), DEADLINE, now).unwrap();
    assert_eq!(deeper, QueryPlan::Forward { local: vec![], ttl_hops: 2, again: true });
}

#[tokio::test]
async fn only_the_indexer_where_a_query_began_is_answered_without_being_remembered() {
    let now = Instant::now();
    let state = State::new(now);
    state.on_register(&session(&state, 1, now), vec![record(1, "a", 1)], true);
    let covered = Covered::first_of([testing::tag(1), testing::tag(2), testing::tag(3)]);
    let last_hop = |id| QueryRequest { covered: covered.clone(), ..query(id, 0) };
    let answer =
        |request: &QueryRequest, from| match state.on_query(request, &Caller::new(from, None), DEADLINE, now)
        {
            Ok(QueryPlan::Answer(found)) => found.len(),
            Ok(QueryPlan::Duplicate) => 0,
            other => panic!("{other:?}"),
        };
    let began_at = Some(testing::tag(1));
    assert_eq!([(); 2].map(|()| answer(&last_hop(1), began_at)), [1, 1]);
    for (id, from) in [(2, Some(testing::tag(2))), (3, None)] {
        assert_eq!([(); 2].map(|()| answer(&last_hop(id), from)), [1, 0], "{id}");
    }
    let further = QueryRequest { ttl_hops: 1, ..last_hop(4) };
    state.on_query(&further, &Caller::new(began_at, None), DEADLINE, now).unwrap();
    assert_eq!(answer(&further, began_at), 0, "what travels on is remembered");
}

#[tokio::test]
async fn only_news_past_the_first_version_is_announced_to_neighbors() {
    let now = Instant::now();
    let state = State::new(now);
    let (origin, copy) = (session(&state, 1, now), session(&state, 2, now));
    assert!(state.on_register(&origin, vec![record(1, "a", 1)], true).announcement.is_empty());
    assert!(state.on_register(&copy, vec![record(1, "a", 1)], true).announcement.is_empty());
    let plan = state.on_register(&origin, vec![record(1, "a", 2)], true);
    assert_eq!(plan.announcement.neighbors, [record(1, "a", 2)]);
    assert_eq!(plan.announcement.holders[&copy.id()], [record(1, "a", 2)]);
    assert!(state.on_register(&origin, vec![record(1, "a", 2)], true).announcement.is_empty());
    let old = state.on_register(&copy, vec![record(1, "a", 1)], true);
    assert_eq!((old.newer, old.announcement), (vec![record(1, "a", 2)], Announcement::default()));
}

#[tokio::test]
async fn old_news_is_not_passed_on() {
    let now = Instant::now();
    let state = State::new(now);
    state.on_register(&session(&state, 1, now), vec![record(1, "a", 5)], true);
    let invalidate = |id, version| {
        let request = InvalidateRequest {
            msg_id: MsgId::from_u128(id),
            records: Default::default(),
            ttl_hops: 3,
            covered: Covered::new(),
        };
        state.on_invalidate(&request, &peer(), vec![record(1, "a", version)], DEADLINE, now).unwrap()
    };
    assert!(invalidate(1, 4).is_empty());
    assert_eq!(invalidate(2, 6).neighbors, [record(1, "a", 6)]);
    assert!(invalidate(2, 6).is_empty(), "a second copy of the same message");
}
