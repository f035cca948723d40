//! Neighbors that connect: how many, how often, and what they say over each connection.

use std::time::Duration;

use crate::common::{
    Fake, Peer, eventually,
    fake::{Dialed, Habit, dial, dial_with, summary_of_none},
    identity, indexer, patient, query, record, within,
};
use nekoproto::{
    List, NodeTag, Refusal,
    summary::{SummaryNews, SummaryReply},
    transport::Security,
};

const SECURITY: Security = Security::Insecure;
/// As many guests as have a place.
const MANY: u16 = 256;

fn tag(seed: u16) -> NodeTag {
    identity(seed).id().tag()
}

fn heartbeat(echo_ms: u64) -> SummaryNews {
    SummaryNews { echo_ms, number: 1, begins: false, is_all: true, changes: List::new() }
}

/// What a node without names says of itself, whose only neighbor has this seed.
fn whole(neighbor: u16) -> SummaryNews {
    summary_of_none(tag(neighbor), tag(neighbor))
}

async fn tell(from: &Dialed, news: SummaryNews) -> Result<SummaryReply, Refusal> {
    from.client.summarize(patient(), news).await.unwrap()
}

/// Nobody keeps a place by being there first: who proved nothing makes room.
#[testkit::test]
async fn a_guest_too_many_takes_the_place_of_the_oldest_that_proved_nothing() {
    let indexer = indexer(SECURITY, &[]).await;
    let mut neighbors = Vec::new();
    for seed in 1..=MANY {
        neighbors.push(dial(seed, indexer.local_addr(), SECURITY).await);
        assert!(tell(&neighbors[neighbors.len() - 1], whole(0)).await.unwrap().is_taken);
    }
    let further = dial(MANY + 1, indexer.local_addr(), SECURITY).await;
    assert!(tell(&further, whole(0)).await.unwrap().is_taken);
    eventually(async || neighbors[0].client.summarize(patient(), heartbeat(0)).await.err()).await;
    assert!(tell(&neighbors[1], heartbeat(0)).await.unwrap().is_taken, "one was enough");
}

#[testkit::test]
async fn a_neighbor_that_connects_again_and_again_keeps_the_latest_two() {
    let indexer = indexer(SECURITY, &[]).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(dial(1, indexer.local_addr(), SECURITY).await);
        assert!(tell(&all[all.len() - 1], whole(0)).await.unwrap().is_taken);
    }
    for older in &all[..2] {
        eventually(async || older.client.summarize(patient(), heartbeat(0)).await.err()).await;
    }
    for latest in &all[2..] {
        assert!(tell(latest, heartbeat(0)).await.unwrap().is_taken);
    }
}

/// Else the neighbor is passed over for what is behind it, when the connection over which it is asked ends.
#[testkit::test]
async fn links_that_changed_count_for_each_connection_of_a_neighbor() {
    let behind = Fake::begin(500, SECURITY, Habit::Refuses(Refusal::Busy));
    let indexer = indexer(SECURITY, &[behind.addr]).await;
    indexer.neighbors_reach(1).await;
    let peer = Peer::join(1, indexer.local_addr(), SECURITY).await;
    peer.register([record(1, "a", 1)]).await;
    let first = dial_with(2, indexer.local_addr(), SECURITY, Habit::AnswersProbes).await;
    let clock_ms = tell(&first, whole(500)).await.unwrap().clock_ms;
    let second = dial_with(2, indexer.local_addr(), SECURITY, Habit::AnswersProbes).await;
    tell(&second, whole(500)).await.unwrap();
    indexer.neighbors_reach(2).await;
    drop(behind);
    indexer.neighbors_reach(1).await;
    drop(second);
    let soon = || within(Duration::from_millis(100));
    eventually(async || {
        let _ = peer.client.query(soon(), query("b", 2)).await; // nobody answers it
        (!first.asked.is_empty()).then_some(())
    })
    .await;
    tell(&first, heartbeat(clock_ms)).await.unwrap(); // it may be trusted
    let reply = peer.client.query(soon(), query("a", 2)).await.unwrap().unwrap();
    assert_eq!(reply.messages, 1, "only it knows whom it can ask");
}
