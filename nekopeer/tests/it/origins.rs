//! What copies ask their origins: each origin by itself, about stale copies too, and what its answers mean.

use crate::common::*;

fn goods(origin: u16, text: &str, version: u64) -> Goods {
    let content = format!("{text} {version}").into_bytes();
    Goods::with(origin, text, version, content, |record| record.policy = policy(Mode::Pull, 1))
}

#[testkit::test]
async fn origin_that_hangs_delays_no_question_to_another() {
    let (indexer, [(_to, reader)]) = network().await;
    let mut hanging = goods(1, "a", 1).held(1, indexer.local_addr()).await;
    let mut living = goods(2, "b", 1).held(2, indexer.local_addr()).await;
    reader.get("a").await.unwrap();
    reader.get("b").await.unwrap();
    hanging.hangs();
    while hanging.questions.try_recv().is_ok() {}
    assert!(matches!(hanging.questions.recv().await, Some(Question::Asked(_))));
    while living.questions.try_recv().is_ok() {}
    tokio::select! {
        biased;
        asked = living.questions.recv() => assert!(asked.is_some()),
        given_up = hanging.questions.recv() => panic!("nobody else was asked meanwhile: {given_up:?}"),
    }
    reader.becomes("b", Freshness::Fresh).await;
}

/// What is asked about a stale copy is its newest known version, so that the origin pushes the next one.
#[testkit::test]
async fn stale_copy_is_subscribed_to_what_comes_next() {
    let (_port, listen) = kept_port();
    let indexer = indexer(&[]).await;
    let from = Folder::new();
    let config = || Config {
        policy: policy(Mode::Push, 600),
        listen: Some(listen),
        ..from.config(&[indexer.local_addr()])
    };
    let origin = Node::registered(config()).await;
    let (_to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    origin.peer.shutdown().await; // it forgets who subscribed
    let origin = Node::registered(config()).await;
    origin.publish(&from.write("a", b"version 2")).await;
    reader.invalidated("a", 2).await;
    reader.peer.check_copies().await;
    indexer.shutdown().await;
    origin.publish(&from.write("a", b"version 3")).await;
    reader.invalidated("a", 3).await;
}

/// An origin that pushed version 2 of `a` and `b` to a reader with version 1, while no indexer is there.
async fn pushed_without_indexer(on_stale: OnStale) -> (Folder, Node, Folder, Node) {
    let indexer = indexer(&[]).await;
    let (from, to) = (Folder::new(), Folder::new());
    let config = Config { policy: policy(Mode::Push, 600), ..from.config(&[indexer.local_addr()]) };
    let origin = Node::registered(config).await;
    let mut reader = to.peer_with(&[indexer.local_addr()], |config| config.on_stale = on_stale).await;
    for text in ["a", "b"] {
        origin.publish(&from.write(text, format!("{text} 1").as_bytes())).await;
        reader.get(text).await.unwrap();
    }
    reader.peer.check_copies().await;
    indexer.shutdown().await;
    for text in ["a", "b"] {
        origin.publish(&from.write(text, format!("{text} 2").as_bytes())).await;
        reader.invalidated(text, 2).await;
    }
    (from, origin, to, reader)
}

#[testkit::test]
async fn origin_is_asked_for_a_copy_when_no_indexer_answers() {
    let (_from, _origin, to, reader) = pushed_without_indexer(OnStale::Keep).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!((done.record.version.get(), done.freshness), (2, Freshness::Fresh));
    assert_eq!(to.read("a"), b"a 2");
    let names = [name("a"), name("b"), name("unknown")];
    let outcomes = reader.get_all(&names).await;
    let versions: Vec<_> =
        outcomes.iter().map(|(_, done)| done.as_ref().map(|done| done.record.version.get()).ok()).collect();
    assert_eq!(versions, [Some(2), Some(2), None]);
    assert_eq!(to.read("b"), b"b 2");
    reader.peer.deregister(&name("a")).await.unwrap();
    std::fs::remove_file(to.path("a")).unwrap();
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 2, "held before");
}

#[testkit::test]
async fn refetch_needs_no_indexer() {
    let (_from, _origin, to, _reader) = pushed_without_indexer(OnStale::Refetch).await;
    // The first may be refreshed before the second is invalidated: its event may be past.
    let both = (b"a 2".to_vec(), b"b 2".to_vec());
    eventually(async || ((to.read("a"), to.read("b")) == both).then_some(())).await;
}

#[testkit::test]
async fn copy_that_its_origin_withdrew_is_called_so() {
    let indexer = indexer(&[]).await;
    let from = Folder::new();
    let config = Config { policy: policy(Mode::Pull, 1), ..from.config(&[indexer.local_addr()]) };
    let origin = Node::registered(config).await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"content")).await;
    reader.get("a").await.unwrap();
    origin.peer.deregister(&name("a")).await.unwrap();
    let said = |event: &Event| match event {
        Event::Withdrawn { name, .. } => Some(name.clone()),
        Event::OriginAway(_) => panic!("the origin answers"),
        _ => None,
    };
    assert_eq!(reader.event(said).await, name("a"));
    assert_eq!(reader.status("a").await.unwrap().condition, Condition::Unshared);
    assert_eq!(to.read("a"), b"content", "it is kept");
    origin.publish(&from.write("a", b"content again")).await;
    reader.invalidated("a", 3).await;
    assert!(reader.is("a", Freshness::Stale).await);
}

#[testkit::test]
async fn questions_about_many_copies_of_one_origin_travel_together() {
    let (indexer, [(_to, reader)]) = network().await;
    let all: Vec<Goods> = (0..200).map(|n| goods(1, &format!("f{n}"), 1)).collect();
    let script = all.clone();
    let mut origin = Holder::begin(1, move |request| match request {
        DataRequest::Get { content, .. } => {
            script.iter().find(|goods| goods.record.content == *content).unwrap().honest(request)
        }
        _ => ScriptedReply::refusal(FetchRefusal::NotShared),
    });
    origin.confirms(Verdict::Current);
    for some in all.chunks(100) {
        origin.register(indexer.local_addr(), some.iter().map(|goods| goods.record.to_signed())).await;
    }
    let names: Vec<_> = all.iter().map(|goods| goods.record.name.clone()).collect();
    for (name, outcome) in reader.get_all(&names).await {
        assert_eq!(outcome.map(|done| done.freshness).unwrap(), Freshness::Fresh, "{name}");
    }
    while origin.questions.try_recv().is_ok() {}
    tokio::time::timeout(Duration::from_secs(30), reader.peer.check_copies()).await.unwrap();
    let mut asked = Vec::new();
    while let Ok(Question::Asked(held)) = origin.questions.try_recv() {
        asked.push(held.len());
    }
    assert!(asked.len() < 20 && asked.iter().sum::<usize>() >= 200, "{asked:?}");
}

/// A call would take a connection of its own, and this origin answers none.
#[testkit::test]
async fn origin_that_brought_the_bytes_is_asked_on_the_same_connection_and_a_later_version_counts() {
    let (indexer, [(_to, reader)]) = network().await;
    let later = Verdict::Newer(Box::new(goods(1, "b", 2).record.to_signed()));
    let cases = [("a", Verdict::Current, Freshness::Fresh), ("b", later, Freshness::Stale)];
    for (name, verdict, freshness) in cases {
        let bytes = codec::encode(&verdict).unwrap();
        let script = move |goods: &Goods, request: &DataRequest| match request {
            DataRequest::Confirm(held) if held.content == goods.record.content => {
                ScriptedReply::of(bytes.clone())
            }
            _ => goods.honest(request),
        };
        let origin = goods(1, name, 1).served(1, indexer.local_addr(), script).await;
        origin.hangs();
        assert_eq!(reader.get(name).await.unwrap().freshness, freshness);
    }
}

/// Each answer costs a write to the disk.
#[testkit::test]
async fn origin_that_tells_of_a_later_version_each_time_is_asked_again_after_a_pause_and_the_newest_counts() {
    let (indexer, [(_to, mut reader)]) = network().await;
    let mut hostile = goods(1, "a", 1).held(1, indexer.local_addr()).await;
    reader.get("a").await.unwrap();
    while hostile.questions.try_recv().is_ok() {}
    let began = std::time::Instant::now();
    for version in 2..7 {
        hostile.confirms(Verdict::Newer(Box::new(goods(1, "a", version).record.to_signed())));
        assert!(matches!(hostile.questions.recv().await, Some(Question::Asked(_))));
    }
    assert!(began.elapsed() > Duration::from_millis(4 * 400), "{:?}", began.elapsed());
    hostile.tell(reader.addr(), [goods(1, "a", 7).record.to_signed()]).await.unwrap();
    reader.invalidated("a", 7).await;
    hostile.confirms(Verdict::Newer(Box::new(goods(1, "a", 8).record.to_signed())));
    reader.invalidated("a", 8).await;
    assert!(reader.is("a", Freshness::Stale).await);
    assert_eq!(reader.versions("a").await, (1, Some(8)));
}
