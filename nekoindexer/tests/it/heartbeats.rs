//! What an indexer tells a neighbor of names, and when: little while nothing happens.

use std::time::Instant;

use crate::common::{Fake, Peer, config, fake::Habit, indexer, record};
use nekoindexer::{Config, Indexer, IndexerHandle, state::summary::TRUSTED_FOR};
use nekoproto::{
    Refusal,
    summary::{NameKey, SummaryNews, What},
    transport::Security,
};

const SECURITY: Security = Security::Insecure;

async fn linked(security: Security) -> (Fake, IndexerHandle, Peer) {
    let fake = Fake::begin(500, security, Habit::Refuses(Refusal::Busy));
    let indexer = indexer(security, &[fake.addr]).await;
    let peer = Peer::join(1, indexer.local_addr(), security).await;
    (fake, indexer, peer)
}

fn keys(news: &SummaryNews) -> Vec<NameKey> {
    let added = |what: &What| if let What::Added(keys) = what { keys.to_vec() } else { Vec::new() };
    news.changes.iter().flat_map(|change| added(&change.what)).collect()
}

/// The next message that says something new.
async fn next_news(fake: &mut Fake) -> SummaryNews {
    loop {
        let news = fake.summaries.recv().await.unwrap();
        if !news.changes.is_empty() {
            return news;
        }
    }
}

#[testkit::test]
async fn an_idle_link_carries_heartbeats_and_what_is_new_at_once() {
    let (mut fake, indexer, peer) = linked(SECURITY).await;
    let first = fake.summaries.recv().await.unwrap();
    assert!(first.begins && first.is_all && first.number == 1 && first.echo_ms == 0);
    indexer.neighbors_reach(1).await;
    for _ in 0..3 {
        let heartbeat = fake.summaries.recv().await.unwrap();
        assert!(heartbeat.changes.is_empty() && heartbeat.is_all, "{heartbeat:?}");
        assert_eq!((heartbeat.number, heartbeat.echo_ms), (1, 1));
    }
    peer.register([record(1, "a", 1)]).await;
    let news = next_news(&mut fake).await;
    assert_eq!((keys(&news).len(), news.number), (1, 2));
}

#[testkit::test]
async fn what_is_registered_while_a_message_is_under_way_follows_in_one() {
    let (mut fake, indexer, peer) = linked(SECURITY).await;
    indexer.neighbors_reach(1).await;
    assert!(next_news(&mut fake).await.begins);
    fake.is_silent.send_replace(true);
    let register = async |n: u16| {
        peer.register([record(1, &format!("file-{n}"), 1)]).await;
    };
    let others = async {
        assert_eq!(keys(&next_news(&mut fake).await).len(), 1);
        let speak = async {
            while indexer.names() < 5 {
                tokio::task::yield_now().await;
            }
            fake.is_silent.send_replace(false);
            assert_eq!(keys(&next_news(&mut fake).await).len(), 4);
        };
        futures::join!(register(2), register(3), register(4), register(5), speak);
    };
    futures::join!(register(1), others);
}

/// The first message is under way and may have arrived: it carries no time stamp of the neighbor, so it is not trusted
/// and a registration need not wait for it. All that counts comes later and has the name.
#[testkit::test]
async fn a_first_summary_under_way_is_not_trusted() {
    let fake = Fake::begin(500, SECURITY, Habit::Refuses(Refusal::Busy));
    fake.is_silent.send_replace(true);
    let indexer = indexer(SECURITY, &[fake.addr]).await;
    let mut fake = fake;
    let first = fake.summaries.recv().await.unwrap();
    assert_eq!((first.number, first.echo_ms), (1, 0));
    let peer = Peer::join(1, indexer.local_addr(), SECURITY).await;
    peer.register([record(1, "a", 1)]).await;
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

/// A neighbor that hangs, or whose connection ended, may trust what it was told for a while.
#[testkit::test]
async fn a_registration_waits_for_who_may_trust_an_older_summary_and_no_longer() {
    for is_gone in [false, true] {
        let (fake, indexer, peer) = linked(SECURITY).await;
        indexer.neighbors_reach(1).await;
        let heard = Instant::now();
        match is_gone {
            true => {
                drop(fake);
                indexer.neighbors_reach(0).await;
                peer.register([record(1, "a", 1)]).await;
            }
            false => {
                fake.is_silent.send_replace(true);
                peer.register([record(1, "a", 1)]).await;
            }
        }
        assert!(heard.elapsed() + TRUSTED_FOR / 2 > TRUSTED_FOR, "not waited for: {is_gone}");
        let later = Instant::now();
        peer.register([record(1, "b", 1)]).await;
        assert!(later.elapsed() < TRUSTED_FOR / 2, "waited for twice: {is_gone}");
    }
}

/// An indexer that is started again does not know who trusts what it told before.
#[testkit::test]
async fn a_registration_after_a_restart_waits_for_who_may_trust_what_was_told_before() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { data_dir: Some(folder.path().to_owned()), ..config(SECURITY, &[]) };
    Indexer::spawn(config.clone()).await.unwrap().shutdown().await;
    let began = Instant::now();
    let indexer = Indexer::spawn(config).await.unwrap();
    let peer = Peer::join(1, indexer.local_addr(), SECURITY).await;
    peer.register([record(1, "a", 1)]).await;
    assert!(began.elapsed() >= TRUSTED_FOR, "{:?}", began.elapsed());
}
