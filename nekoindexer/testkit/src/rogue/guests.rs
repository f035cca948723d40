//! Rogue neighbors that pass on or say what they must not.

use crate::prelude::*;

use super::{
    Order, RogueError,
    indexer::{Guest, neighbors},
    peer::{false_hits, made_up_records},
    pretender::Habit,
    raw::{AGAIN_AFTER, crowd},
    summary,
};

/// How often its neighbors change before its summary begins anew.
const TOGGLES: usize = 16;
/// Pause of one that is told to wait.
const REFUSED_FOR: Duration = Duration::from_millis(10);

async fn dial(order: &Order, to: SocketAddr) -> Result<Guest, RogueError> {
    Ok(Guest::dial(order, to, Habit::nothing()).await?.0)
}

/// This many neighbors that may have every name.
pub(super) async fn of_all(order: &'static Order, count: usize, habit: Habit) -> Result<(), RogueError> {
    neighbors(order, count, habit, Some(summary::full()?)).await
}

/// Answers with the true records of others, held by nobody who is there.
pub(super) async fn replay(order: &'static Order) -> Result<(), RogueError> {
    neighbors(order, 1, Habit::Knows(Arc::new(false_hits(order).await?)), None).await
}

/// This many neighbors of the indexer, each of which is one of the other too, and sends there at once what it hears:
/// queries as they are, invalidations with other news under the same id.
pub(super) async fn ahead(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let (other, full) = (order.other()?, summary::full()?);
    let news: Records = List::first_of(made_up_records(&Identity::generate(), "ahead", 0..1, 0)?);
    crowd(count, AGAIN_AFTER, move |_| {
        let (full, news) = (full.clone(), news.clone());
        async move {
            // The other one does not know that both are one node, and has somebody whom no copy covers.
            let (here, mut heard) = Guest::dial(order, order.indexer, Habit::nothing()).await?;
            let there = dial(order, other).await?;
            let client = there.client.clone();
            let hears = here.with(async move |mut teller| {
                teller.names(&full).await?;
                let ahead = async {
                    loop {
                        let client = client.clone();
                        tokio::select! {
                            Some((_, request)) = heard.asked.recv() => {
                                let ahead = QueryRequest { covered: List::new(), ..request };
                                tokio::spawn(async move { client.query(context::current(), ahead).await });
                            }
                            Some(request) = heard.told.recv() => {
                                let (records, covered) = (news.clone(), List::new());
                                let ahead = InvalidateRequest { records, covered, ..request };
                                tokio::spawn(async move { client.invalidate(context::current(), ahead).await });
                            }
                            else => return,
                        }
                    }
                };
                tokio::select! {
                    () = ahead => Ok(()),
                    stayed = teller.stays() => stayed,
                }
            });
            let stays = there.with(async move |teller| teller.stays().await);
            tokio::select! {
                ended = hears => ended,
                ended = stays => ended,
            }
        }
    })
    .await
}

/// Tells each of the two indexers that it has all names, and the other one for its neighbor: so it would be asked in its place.
pub(super) async fn forged_relay(order: &'static Order) -> Result<(), RogueError> {
    let (other, full) = (order.other()?, summary::full()?);
    crowd(1, AGAIN_AFTER, move |_| {
        let full = full.clone();
        async move {
            let (first, second) = (dial(order, order.indexer).await?, dial(order, other).await?);
            let (to_first, to_second) = (first.to, second.to);
            try_join(lies(first, &full, to_second), lies(second, &full, to_first)).await.map(drop)
        }
    })
    .await
}

async fn lies(guest: Guest, full: &Filter, of: NodeTag) -> Result<(), RogueError> {
    guest
        .with(async |mut teller| {
            teller.names(full).await?;
            teller.neighbors(&[of]).await?;
            teller.stays().await
        })
        .await
}

/// Says again and again that all its neighbors have gone, that they are there, and all of its summary.
pub(super) async fn toggle(order: &'static Order) -> Result<(), RogueError> {
    let full = summary::full()?;
    let tags: Vec<NodeTag> = (0..COVERED_MAX).map(|_| Identity::generate().id().tag()).collect();
    crowd(1, AGAIN_AFTER, move |_| {
        let (full, tags) = (full.clone(), tags.clone());
        async move {
            let guest = dial(order, order.indexer).await?;
            guest
                .with(async move |mut teller| {
                    loop {
                        let round = async {
                            teller.names(&full).await?;
                            for _ in 0..TOGGLES {
                                teller.neighbors(&tags).await?;
                                teller.neighbors(&[]).await?;
                            }
                            Ok::<(), RogueError>(())
                        };
                        if round.await.is_err() {
                            sleep(REFUSED_FOR).await;
                        }
                    }
                })
                .await
        }
    })
    .await
}
