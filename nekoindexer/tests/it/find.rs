//! Searches by pattern over real sockets: how far they reach, what neighbors may do to them, and their limits.

use crate::common::*;

fn find(terms: &[&str], ttl_hops: u8, after: Option<Position>, limit: u16) -> FindRequest {
    let terms = Terms::first_of(terms.iter().map(|term| Term::new(term).unwrap()));
    let search = Search { terms, ..Search::default() };
    FindRequest { after, limit, ..FindRequest::new(search, ttl_hops) }
}

async fn found(peer: &Peer, request: FindRequest) -> FindReply {
    peer.client.find(patient(), request).await.unwrap().unwrap()
}

fn names(reply: &FindReply) -> Vec<&str> {
    reply.hits.iter().map(|hit| hit.record.unverified().name.as_str()).collect()
}

async fn publishers(indexers: &[IndexerHandle], security: Security) -> Vec<Peer> {
    let mut peers = Vec::new();
    for (seed, indexer) in (0u16..).zip(indexers) {
        let peer = Peer::join(seed, indexer.local_addr(), security).await;
        peer.register(["models", "data"].map(|kind| record(seed, &format!("{kind}/{seed}.bin"), 1))).await;
        peers.push(peer);
    }
    peers
}

async fn beside(habit: Habit) -> (Fake, IndexerHandle, Peer) {
    let fake = Fake::begin(90, CLEAR, habit);
    let indexer = connected(CLEAR, &[fake.addr]).await;
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    (fake, indexer, peer)
}

#[testkit::test]
async fn glob_is_found_exactly_as_far_as_its_ttl(security: Security) {
    let indexers = line(security, 3).await;
    let peers = publishers(&indexers, security).await;
    let all = ["models/0.bin", "models/1.bin", "models/2.bin"];
    for ttl in 0..3u8 {
        let reply = found(&peers[0], find(&["models/*.bin"], ttl, None, 50)).await;
        assert_eq!(names(&reply), all[..=ttl.into()], "TTL {ttl}");
        assert_eq!((reply.complete, &reply.next, reply.messages), (true, &None, ttl.into()), "TTL {ttl}");
        assert_eq!((reply.answered.len(), reply.silent.len()), (ttl.into(), 0), "TTL {ttl}");
        assert!(reply.hits.iter().all(|hit| hit.holders.len() == 1));
    }
    let reply = found(&peers[1], find(&["BIN", "2"], 3, None, 50)).await;
    assert_eq!(names(&reply), ["data/2.bin", "models/2.bin"], "words, in any case");
}

#[testkit::test]
async fn pages_of_a_mesh_go_on_where_the_last_ended_and_ask_each_indexer_once() {
    let indexers = mesh(CLEAR, 4).await;
    let peers = publishers(&indexers, CLEAR).await;
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let reply = found(&peers[2], find(&["*"], 3, after, 3)).await;
        assert_eq!((reply.complete, reply.messages, reply.answered.len()), (true, 3, 3));
        shown.extend(names(&reply).into_iter().map(str::to_owned));
        after = reply.next.clone();
        if after.is_none() {
            break;
        }
    }
    let expected = ["data", "models"].iter().flat_map(|kind| (0..4).map(move |n| format!("{kind}/{n}.bin")));
    assert_eq!(shown, expected.collect::<Vec<_>>());
}

#[testkit::test]
async fn neighbor_that_hangs_or_refuses_leaves_the_answer_incomplete_and_in_time() {
    for habit in [Habit::NeverAnswers, Habit::Refuses(Refusal::Busy), Habit::Panics] {
        let (_fake, _indexer, peer) = beside(habit.clone()).await;
        peer.register([record(1, "a.bin", 1)]).await;
        let find =
            async || peer.client.find(within(Duration::from_millis(700)), find(&["*.bin"], 1, None, 9)).await;
        let reply = in_time(find).await.unwrap();
        assert_eq!((names(&reply), reply.complete), (vec!["a.bin"], false), "{habit:?}");
        assert_eq!((reply.answered.len(), reply.silent.len()), (0, 1), "{habit:?}");
    }
}

#[testkit::test]
async fn page_of_a_hostile_neighbor_does_not_count() {
    let good = |text: &str| record(7, text, 1);
    let pages: [(&str, Vec<SignedRecord>, Option<Position>); 5] = [
        ("not in order", vec![good("c.bin"), good("b.bin")], None),
        ("foreign", vec![good("b.bin"), good("c.txt")], None),
        ("forged", vec![good("b.bin"), forged(7, 1, "c.bin", 9)], None),
        ("goes on before its end", vec![good("b.bin")], Some(Position::of(good("a.bin").unverified()))),
        ("too many", (0..9).map(|n| good(&format!("b{n}.bin"))).collect(), None),
    ];
    for (case, records, next) in pages {
        let hits = records.into_iter().map(|record| Hit { record, holders: List::new() });
        let reply = FindReply { hits: List::first_of(hits), next, complete: true, ..FindReply::default() };
        let (_fake, _indexer, peer) = beside(Habit::Shows(reply)).await;
        peer.register([record(1, "a.bin", 1), record(1, "d.bin", 1)]).await;
        let got = found(&peer, find(&["*.bin"], 1, None, 8)).await;
        assert_eq!(names(&got), ["a.bin", "d.bin"], "{case}");
        assert_eq!((got.complete, &got.next), (false, &None), "{case}");
        assert_eq!((got.answered.len(), got.silent.len()), (0, 1), "{case}");
    }
}

/// Goal: who asked is told of each indexer once, also of one that is away for several others.
#[testkit::test]
async fn indexer_away_counts_once_however_many_miss_it() {
    let mut indexers = mesh(CLEAR, 4).await;
    let peer = Peer::join(1, indexers[3].local_addr(), CLEAR).await;
    let away = indexers.remove(0);
    let tag = away.node().tag();
    away.abort().await;
    let reply = eventually(async || {
        let reply = found(&peer, find(&["*"], 3, None, 9)).await;
        (!reply.complete).then_some(reply)
    });
    let reply = reply.await;
    assert_eq!((reply.answered.len(), &reply.silent[..]), (2, &[tag][..]));
}

/// Goal: nobody makes up indexers where no hops are left, and a guest none at all.
#[testkit::test]
async fn indexers_that_a_guest_makes_up_count_nothing() {
    let made_up = |site| Covered::first_of((0..400).map(|n| NodeTag::of_addr(([10, 0, 0, site], n).into())));
    let claim =
        FindReply { complete: true, answered: made_up(1), silent: made_up(2), ..FindReply::default() };
    let (_fake, _indexer, peer) = beside(Habit::Shows(claim.clone())).await;
    let reply = found(&peer, find(&["*"], 1, None, 9)).await;
    assert_eq!((reply.answered.len(), reply.silent.len()), (1, 0), "it was asked alone");
    let reply = found(&peer, find(&["*"], 2, None, 9)).await;
    assert_eq!((reply.answered.len(), reply.silent.len()), (401, 400), "a trusted one is believed");
    let indexer = indexer(CLEAR, &[]).await;
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    let guest = dial(500, indexer.local_addr(), CLEAR, Habit::Shows(claim)).await;
    let _advertises = advertise(&guest.client, summary_of([], &[])).await;
    let reply = found(&peer, find(&["*"], 2, None, 9)).await;
    assert_eq!((reply.answered.len(), reply.silent.len(), reply.complete), (1, 0, true), "a guest is not");
}

#[testkit::test]
async fn record_that_its_origin_did_not_sign_is_shown_to_nobody() {
    let indexers = line(CLEAR, 2).await;
    let asker = Peer::join(1, indexers[0].local_addr(), CLEAR).await;
    let liar = Peer::join(2, indexers[1].local_addr(), CLEAR).await;
    // An origin is believed when it lists its own file, so the index holds it.
    let unsigned = (0..9).map(|n| forged(3, 2, &format!("a{n}.bin"), 1));
    liar.register(unsigned.chain([record(2, "b.bin", 1), record(2, "c.bin", 1)])).await;
    assert_eq!(asker.query("a3.bin", 1).await.hits.len(), 0);
    for limit in [2, 9] {
        let reply = found(&asker, find(&["*.bin"], 1, None, limit)).await;
        assert_eq!((names(&reply), reply.complete), (vec!["b.bin", "c.bin"], true), "{limit}");
    }
}

#[testkit::test]
async fn glob_that_cannot_be_read_or_goes_too_far_is_refused() {
    let indexers = line(CLEAR, 2).await;
    let peer = Peer::join(1, indexers[0].local_addr(), CLEAR).await;
    let cases = [
        ("[a", 0, Refusal::BadPattern),
        ("[a", 1, Refusal::BadPattern),
        ("a", TTL_MAX + 1, Refusal::TtlTooLarge(TTL_MAX + 1)),
    ];
    for (term, ttl, refusal) in cases {
        let refused = peer.client.find(patient(), find(&[term], ttl, None, 9)).await.unwrap();
        assert_eq!(refused, Err(refusal), "{term}, TTL {ttl}");
    }
    let reply = found(&peer, find(&["a"], 0, None, u16::MAX)).await;
    assert!(reply.complete, "a limit past the largest is the largest");
}

/// Goal: lookups are answered while names are scanned, and of many scans at once those without a place are refused.
#[testkit::test]
async fn scans_beyond_their_places_are_refused_and_lookups_are_not() {
    let indexer = indexer(CLEAR, &[]).await;
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    for batch in 0..40u32 {
        peer.register((0..100).map(|n| record(1, &format!("d/{batch}-{n}.bin"), 1))).await;
    }
    let refused = eventually(async || {
        let asking = (0..300).map(|_| peer.client.find(patient(), find(&["*x*y*z"], 0, None, 9)));
        let (answers, hit) = tokio::join!(join_all(asking), peer.query("d/0-0.bin", 0));
        assert_eq!(hit.hits.len(), 1);
        let count = |is: fn(&Result<FindReply, Refusal>) -> bool| {
            answers.iter().filter(|answer| answer.as_ref().is_ok_and(is)).count()
        };
        let refused = count(|answer| *answer == Err(Refusal::Busy));
        assert_eq!(refused + count(|answer| answer.as_ref().is_ok_and(|reply| reply.complete)), 300);
        (refused > 0).then_some(refused)
    });
    assert!(refused.await < 300);
}
