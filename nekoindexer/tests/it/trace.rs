//! Traces over real sockets: the way of a query, and the reasons of whoever is not asked.

use crate::common::*;

/// Traces `a` from a peer at `indexer`; checks what holds of every trace.
async fn trace(indexer: &IndexerHandle, ttl_hops: u8) -> TraceReply {
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    let asked = async || peer.client.query(within(Duration::from_secs(1)), traced("a", ttl_hops)).await;
    let QueryReply { hits, trace, .. } = in_time(asked).await.unwrap();
    let reply = *trace.unwrap();
    assert!(reply.is_sound(ttl_hops) && reply.whole, "{reply:?}");
    assert_eq!(reply.has_found(), !hits.is_empty(), "{reply:?}");
    for hop in reply.hops.iter().skip(1) {
        assert!(hop.node.is_some() && hop.addr.is_some(), "{hop:?}");
        if let Ok(answer) = &hop.answer {
            assert!(answer.own_us <= answer.took_us && answer.took_us <= hop.waited_us, "{hop:?}");
        }
    }
    reply
}

fn answer(hop: &TraceHop) -> &TraceAnswer {
    hop.answer.as_ref().unwrap_or_else(|why| panic!("{why}: {hop:?}"))
}

fn way(reply: &TraceReply) -> Vec<(u8, Option<NodeId>, u32)> {
    let holders = |hop: &TraceHop| answer(hop).found.first().map_or(0, |found| found.holders);
    reply.hops.iter().map(|hop| (hop.depth, hop.node, holders(hop))).collect()
}

fn unasked(hop: &TraceHop) -> Vec<WhyUnasked> {
    answer(hop).unasked.iter().map(|unasked| unasked.why).collect()
}

#[testkit::test]
async fn a_line_is_a_path_and_ends_where_no_hops_are_left() {
    let indexers = line(CLEAR, 3).await;
    let _between = holder(3, &indexers[1], CLEAR).await;
    let _last = holder(2, &indexers[2], CLEAR).await;
    let node = |n: usize| Some(indexers[n].node());
    let whole = trace(&indexers[0], 2).await;
    assert_eq!(way(&whole), [(0, None, 0), (1, node(1), 1), (2, node(2), 1)]);
    assert_eq!(answer(&whole.hops[2]).found[0].version, Version::FIRST);
    assert!(whole.hops.iter().all(|hop| unasked(hop).is_empty()), "{whole:?}");
    let here = trace(&indexers[0], 0).await;
    assert_eq!((way(&here), unasked(&here.hops[0])), (vec![(0, None, 0)], vec![WhyUnasked::NoHopsLeft]));
    let short = trace(&indexers[0], 1).await;
    assert_eq!(way(&short), [(0, None, 0), (1, node(1), 1)]);
    assert_eq!(unasked(&short.hops[1]), [WhyUnasked::NoHopsLeft]);
    assert_eq!(answer(&short.hops[1]).unasked[0].node, Some(indexers[2].node().tag()));
}

#[testkit::test]
async fn in_a_mesh_each_is_asked_once_and_the_others_are_covered() {
    let indexers = mesh(CLEAR, 4).await;
    let _peers = holders_everywhere(&indexers, CLEAR).await;
    let reply = trace(&indexers[0], 3).await;
    assert_eq!(reply.hops.iter().map(|hop| hop.depth).collect::<Vec<_>>(), [0, 1, 1, 1]);
    for hop in &reply.hops[1..] {
        assert_eq!(unasked(hop), [WhyUnasked::Covered; 2], "who asked is not named");
        assert_eq!(answer(hop).found[0].holders, 1);
    }
}

#[testkit::test]
async fn in_a_ring_the_second_copy_is_not_answered_again() {
    let links = |n: usize| if n == 3 { vec![0, 2] } else { n.checked_sub(1).into_iter().collect() };
    let indexers = network(CLEAR, 4, links).await;
    let _holder = holder(2, &indexers[2], CLEAR).await;
    let reply = trace(&indexers[0], 3).await;
    let far: Vec<&TraceHop> = reply.hops.iter().filter(|hop| hop.node == Some(indexers[2].node())).collect();
    assert_eq!(far.len(), 2, "it is two hops away over both: {reply:?}");
    assert_eq!(far.iter().filter(|hop| answer(hop).again).count(), 1, "{far:?}");
    assert!(far.iter().all(|hop| answer(hop).found.is_empty() == answer(hop).again), "{far:?}");
}

#[testkit::test]
async fn a_neighbor_whose_summary_rules_the_name_out_is_left_out_or_asked_last() {
    let indexers = network(CLEAR, 3, |n| if n == 0 { vec![] } else { vec![0] }).await;
    let holder = holder(2, &indexers[1], CLEAR).await;
    let found = trace(&indexers[0], 2).await;
    assert_eq!(way(&found), [(0, None, 0), (1, Some(indexers[1].node()), 1)]);
    assert_eq!(unasked(&found.hops[0]), [WhyUnasked::RuledOut]);
    holder.client.deregister_all(patient()).await.unwrap().unwrap();
    // The filter still has the name; the indexer does not, so the other one is asked, too.
    let lost = trace(&indexers[0], 2).await;
    let despite: Vec<bool> = lost.hops[1..].iter().map(|hop| hop.despite_summary).collect();
    assert_eq!(despite, [false, true], "{lost:?}");
    assert_eq!(unasked(&trace(&indexers[0], 1).await.hops[0]), [WhyUnasked::RuledOut], "at the last hop");
}

#[testkit::test]
async fn whoever_hangs_refuses_lies_or_is_away_is_a_hop_with_the_reason() {
    let hop = |depth| TraceHop { depth, ..TraceHop::of(Ok(TraceAnswer::default())) };
    let tall = TraceReply { hops: List::first_of([0, 1, 2, 3].map(hop)), whole: true };
    let cases = [
        (Habit::NeverAnswers, NoAnswer::Late),
        (Habit::Refuses(Refusal::Busy), NoAnswer::Refused(Refusal::Busy)),
        (
            Habit::Says(QueryReply { trace: Some(Box::new(tall)), ..QueryReply::default() }),
            NoAnswer::Nonsense,
        ),
        (Habit::nothing(), NoAnswer::Nonsense),
    ];
    for (habit, why) in cases {
        let fake = Fake::begin(20, CLEAR, habit);
        let asker = connected(CLEAR, &[fake.addr]).await;
        let reply = trace(&asker, 2).await;
        assert_eq!((reply.hops[1].addr, &reply.hops[1].answer), (Some(fake.addr), &Err(why)), "{reply:?}");
        let peer = Peer::join(1, asker.local_addr(), CLEAR).await;
        let plain = async || peer.client.query(within(Duration::from_secs(1)), query("a", 2)).await;
        assert_eq!(in_time(plain).await.unwrap().trace, None, "nobody asked for it");
        drop(fake);
        asker.neighbors_reach(0).await;
        assert_eq!(unasked(&trace(&asker, 2).await.hops[0]), [WhyUnasked::Away], "{why}");
        let far = peer.client.query(patient(), traced("a", TTL_MAX + 1)).await.unwrap();
        assert_eq!(far, Err(Refusal::TtlTooLarge(TTL_MAX + 1)));
    }
}
