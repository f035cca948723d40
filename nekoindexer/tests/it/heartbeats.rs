//! What an indexer tells a neighbor of names, and when: little while nothing happens.

use crate::common::*;

/// A made-up neighbor, the indexer that names it, and a peer of that one.
async fn linked() -> (Fake, IndexerHandle, Peer) {
    let fake = Fake::begin(500, CLEAR, Habit::Refuses(Refusal::Busy));
    let indexer = indexer(CLEAR, &[fake.addr]).await;
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    (fake, indexer, peer)
}

fn keys(news: &SummaryNews) -> Vec<NameKey> {
    let added = |change: &Change| if let Change::Added(keys) = change { keys.to_vec() } else { Vec::new() };
    news.changes.iter().flat_map(added).collect()
}

async fn next_news(fake: &mut Fake) -> SummaryNews {
    loop {
        let news = fake.summaries.recv().await.unwrap();
        if !news.changes.is_empty() {
            return news;
        }
    }
}

/// Registers a name, and says how long that took.
async fn register(peer: &Peer, text: &str) -> Duration {
    let began = Instant::now();
    peer.register([record(1, text, 1)]).await;
    began.elapsed()
}

#[testkit::test]
async fn an_idle_link_carries_heartbeats_and_what_is_new_at_once() {
    let (mut fake, indexer, peer) = linked().await;
    let first = fake.summaries.recv().await.unwrap();
    assert!(first.begins && first.is_all && first.number == 1 && first.echo_ms == 0);
    indexer.neighbors_reach(1).await;
    for _ in 0..3 {
        let mut heartbeat = fake.summaries.recv().await.unwrap();
        if heartbeat.begins {
            heartbeat = fake.summaries.recv().await.unwrap(); // the first is said again if the link came up meanwhile
        }
        assert!(heartbeat.changes.is_empty() && heartbeat.is_all, "{heartbeat:?}");
        assert_eq!((heartbeat.number, heartbeat.echo_ms), (1, 1));
    }
    register(&peer, "a").await;
    let news = next_news(&mut fake).await;
    assert_eq!((keys(&news).len(), news.number), (1, 2));
}

#[testkit::test]
async fn what_is_registered_while_a_message_is_under_way_follows_in_one() {
    let (mut fake, indexer, peer) = linked().await;
    indexer.neighbors_reach(1).await;
    assert!(next_news(&mut fake).await.begins);
    fake.is_silent.send_replace(true);
    let others = async {
        assert_eq!(keys(&next_news(&mut fake).await).len(), 1);
        let speak = async {
            while indexer.names() < 5 {
                tokio::task::yield_now().await;
            }
            fake.is_silent.send_replace(false);
            assert_eq!(keys(&next_news(&mut fake).await).len(), 4);
        };
        futures::join!(join_all(["2", "3", "4", "5"].map(|text| register(&peer, text))), speak);
    };
    futures::join!(register(&peer, "1"), others);
}

/// The first message is under way and may have arrived: it carries no time stamp of the neighbor, so it is not trusted
/// and a registration need not wait for it. All that counts comes later and has the name.
#[testkit::test]
async fn a_first_summary_under_way_is_not_trusted() {
    let mut fake = Fake::begin(500, CLEAR, Habit::Refuses(Refusal::Busy));
    fake.is_silent.send_replace(true);
    let indexer = indexer(CLEAR, &[fake.addr]).await;
    let first = fake.summaries.recv().await.unwrap();
    assert_eq!((first.number, first.echo_ms), (1, 0));
    let peer = Peer::join(1, indexer.local_addr(), CLEAR).await;
    register(&peer, "a").await;
    fake.is_silent.send_replace(false);
    let mut known = Vec::new();
    loop {
        let news = fake.summaries.recv().await.unwrap();
        known.extend(keys(&news));
        if news.echo_ms != 0 {
            break; // what was told by now is trusted
        }
    }
    assert_eq!(known.len(), 1, "the name is missing in what is trusted");
}

/// A neighbor that hangs, or whose connection ended, may trust what it was told for a while; so may those of an indexer
/// that is started again, which does not know whom it told.
#[testkit::test]
async fn a_registration_waits_for_who_may_trust_an_older_summary_and_no_longer() {
    let neighbor = async |is_gone: bool| {
        let (fake, indexer, peer) = linked().await;
        indexer.neighbors_reach(1).await;
        let heard = Instant::now();
        let _fake = if is_gone {
            drop(fake);
            indexer.neighbors_reach(0).await;
            None
        } else {
            fake.is_silent.send_replace(true);
            Some(fake)
        };
        register(&peer, "a").await;
        assert!(heard.elapsed() + CURRENT_FOR / 2 > CURRENT_FOR, "not waited for: {is_gone}");
        let second = register(&peer, "b").await;
        assert!(second < CURRENT_FOR / 2, "waited for twice: {is_gone}");
    };
    let known = async {
        let (fake, indexer, peer) = linked().await;
        register(&peer, "a").await;
        indexer.neighbors_reach(1).await;
        drop(fake);
        indexer.neighbors_reach(0).await;
        let again = register(&peer, "a").await;
        assert!(again < CURRENT_FOR / 2, "who left has acknowledged that name, and is waited for");
    };
    let restarted = async {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: Some(folder.path().to_owned()), ..config(CLEAR, &[]) };
        Indexer::spawn(config.clone()).await.unwrap().abort().await;
        let began = Instant::now();
        let indexer = Indexer::spawn(config).await.unwrap();
        register(&Peer::join(1, indexer.local_addr(), CLEAR).await, "a").await;
        assert!(began.elapsed() >= CURRENT_FOR, "after a restart: {:?}", began.elapsed());
    };
    futures::join!(neighbor(false), neighbor(true), known, restarted);
}
