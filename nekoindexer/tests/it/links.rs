//! Neighbors that connect: how often.

use crate::common::*;

fn heartbeat(echo_ms: u64) -> SummaryNews {
    SummaryNews { echo_ms, number: 1, begins: false, is_all: true, changes: List::new() }
}

async fn tell(from: &Dialed, news: SummaryNews) -> Result<SummaryReply, Refusal> {
    from.client.summarize(patient(), news).await.unwrap()
}

async fn told(seed: u16, addr: SocketAddr) -> Dialed {
    let neighbor = dial(seed, addr, CLEAR, Habit::NeverAnswers).await;
    assert!(tell(&neighbor, summary_of([], &[])).await.unwrap().is_taken);
    neighbor
}

async fn is_closed(neighbor: &Dialed) {
    eventually(async || neighbor.client.summarize(patient(), heartbeat(0)).await.err()).await;
}

async fn is_open(neighbor: &Dialed) -> bool {
    tell(neighbor, heartbeat(0)).await.unwrap().is_taken
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
