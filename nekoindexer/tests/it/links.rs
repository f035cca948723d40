//! Neighbors that connect: how often.

use crate::common::*;

#[testkit::test]
async fn a_neighbor_that_connects_again_and_again_keeps_the_latest_two() {
    let indexer = indexer(CLEAR, &[]).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        let neighbor = dial(1, indexer.local_addr(), CLEAR, Habit::NeverAnswers).await;
        let told = neighbor.client.summarize(patient(), summary_of([], &[])).await.unwrap().unwrap();
        assert!(told.is_taken);
        all.push(neighbor);
    }
    let heartbeat = async |neighbor: &Dialed| {
        let news = SummaryNews { begins: false, changes: List::new(), ..summary_of([], &[]) };
        neighbor.client.summarize(patient(), news).await
    };
    for older in &all[..2] {
        eventually(async || heartbeat(older).await.err()).await;
    }
    for latest in &all[2..] {
        assert!(heartbeat(latest).await.unwrap().unwrap().is_taken);
    }
}
