//! Neighbors that connect: how many, how often, and what they say over each connection.

use crate::common::*;

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

/// A neighbor that has told its names.
async fn told(seed: u16, addr: SocketAddr) -> Dialed {
    let neighbor = dial(seed, addr, CLEAR).await;
    assert!(tell(&neighbor, whole(0)).await.unwrap().is_taken);
    neighbor
}

async fn is_closed(neighbor: &Dialed) {
    eventually(async || neighbor.client.summarize(patient(), heartbeat(0)).await.err()).await;
}

async fn is_open(neighbor: &Dialed) -> bool {
    tell(neighbor, heartbeat(0)).await.unwrap().is_taken
}

/// Nobody keeps a place by being there first: who proved nothing makes room.
#[testkit::test]
async fn a_guest_too_many_takes_the_place_of_the_oldest_that_proved_nothing() {
    let indexer = indexer(CLEAR, &[]).await;
    let mut neighbors = Vec::new();
    for seed in 1..=MANY + 1 {
        neighbors.push(told(seed, indexer.local_addr()).await);
    }
    is_closed(&neighbors[0]).await;
    assert!(is_open(&neighbors[1]).await, "one was enough");
}

#[testkit::test]
async fn a_neighbor_that_connects_again_and_again_keeps_the_latest_two() {
    let indexer = indexer(CLEAR, &[]).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(told(1, indexer.local_addr()).await);
    }
    for older in &all[..2] {
        is_closed(older).await;
    }
    for latest in &all[2..] {
        assert!(is_open(latest).await);
    }
}

/// Else the neighbor is passed over for what is behind it, when the connection over which it is asked ends.
#[testkit::test]
async fn links_that_changed_count_for_each_connection_of_a_neighbor() {
    let behind = Fake::begin(500, CLEAR, Habit::Refuses(Refusal::Busy));
    let indexer = connected(CLEAR, &[behind.addr]).await;
    let peer = holder(1, &indexer, CLEAR).await;
    let first = dial_with(2, indexer.local_addr(), CLEAR, Habit::AnswersProbes).await;
    let clock_ms = tell(&first, whole(500)).await.unwrap().clock_ms;
    let second = dial_with(2, indexer.local_addr(), CLEAR, Habit::AnswersProbes).await;
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
