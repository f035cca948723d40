//! Route probes over real sockets: which way they go, where they are dropped, and where what was lost is counted.

use crate::common::*;

async fn probed(indexer: &IndexerHandle, request: ProbeRequest) -> Result<ProbeReply, Refusal> {
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    peer.client.probe(patient(), request).await.unwrap()
}

fn hops(hops: u8) -> ProbeRequest {
    ProbeRequest::new(MsgId::random(), hops)
}

fn stops(way: &ProbeReply) -> Vec<NodeTag> {
    way.stops.iter().map(|stop| stop.node).collect()
}

#[testkit::test]
async fn probe_ends_where_there_is_no_neighbor_and_says_who_did_not_answer() {
    let alone = indexer(CLEAR, &[]).await;
    let way = probed(&alone, hops(3)).await.unwrap();
    assert_eq!((stops(&way), way.end), (vec![alone.node().tag()], ProbeEnd::Nowhere));
    for (habit, why) in [
        (Habit::NeverAnswers, NoAnswer::Late),
        (Habit::Refuses(Refusal::Busy), NoAnswer::Refused(Refusal::Busy)),
    ] {
        let fake = Fake::begin(20, CLEAR, habit);
        let asker = connected(CLEAR, &[fake.addr]).await;
        let peer = Peer::join(1, asker.local_addr(), CLEAR).await;
        let probe = async || peer.client.probe(within(Duration::from_secs(1)), hops(3)).await;
        let way = in_time(probe).await.unwrap();
        assert_eq!((stops(&way), way.end), (vec![asker.node().tag()], ProbeEnd::Lost(why)));
        assert_eq!(way.stops[0].next, Some(fake.addr));
    }
}

#[testkit::test]
async fn probe_with_too_many_hops_or_bytes_is_refused_and_one_with_the_most_is_passed_on() {
    let with = |bytes, last| ProbeRequest { payload: vec![1; bytes], ..hops(last) };
    let pair = line(CLEAR, 2).await;
    let config = |neighbors| Config { carries_probes: true, ..config(CLEAR, neighbors) };
    let far = Indexer::spawn(config(&[])).await.unwrap();
    let near = Indexer::spawn(config(&[far.local_addr()])).await.unwrap();
    far.reload(&[near.local_addr()], None).unwrap();
    near.neighbors_reach(1).await;
    far.neighbors_reach(1).await;
    for (at, most, too_large) in [
        (&pair[0], hops(PROBE_HOPS_MAX), [hops(PROBE_HOPS_MAX + 1), with(1, 0)]),
        (&near, with(PROBE_PAYLOAD_MAX, 5), [with(PROBE_PAYLOAD_MAX, 6), with(PROBE_PAYLOAD_MAX + 1, 0)]),
    ] {
        let last = usize::from(most.hops_left);
        let way = probed(at, most).await.unwrap();
        assert_eq!((way.stops.len(), way.end), (last + 1, ProbeEnd::Hops));
        for too_large in too_large {
            assert_eq!(probed(at, too_large).await, Err(Refusal::ProbeTooLarge));
        }
    }
}

#[testkit::test]
async fn few_probes_of_a_peer_are_passed_on_at_once() {
    let fake = Fake::begin(20, CLEAR, Habit::NeverAnswers);
    let asker = connected(CLEAR, &[fake.addr]).await;
    let peer = Peer::join(1, asker.local_addr(), CLEAR).await;
    let probe = |_| peer.client.probe(within(Duration::from_secs(1)), hops(3));
    let answers = join_all((0..5).map(probe)).await;
    let refused = answers.into_iter().filter(|answer| matches!(answer, Ok(Err(Refusal::Busy))));
    assert_eq!(refused.count(), 1, "of five, four are passed on");
}
