//! What goes on beside an attack, and must come out of it: `/healthz` is answered, and who holds a file hears of newer versions.

use tokio::time::Instant;

use crate::arena::Arena;
use crate::scenarios::prelude::*;

/// How often it is asked for, each time over a connection of its own.
const ASKED_EVERY: Duration = Duration::from_millis(100);
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Asks for `/healthz`, as the operator of an attacked node does, until it is ended.
pub(super) struct Door {
    stop: CancellationToken,
    asking: JoinHandle<Vec<Option<Duration>>>,
}

impl Door {
    pub(super) fn begin(addr: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let (stopped, mut ticks) = (stop.clone(), interval(ASKED_EVERY));
        let asking = tokio::spawn(async move {
            let mut took = Vec::new();
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                let (door, began) = (Http::new(addr, None), Instant::now());
                let answer = timeout(ANSWERS_WITHIN, door.text("/healthz")).await;
                took.push(answer.is_ok_and(|answer| answer.is_ok()).then(|| began.elapsed()));
            }
            took
        });
        Self { stop, asking }
    }

    /// How often it was asked, how often there was no answer in time, and the longest that one took.
    pub(super) async fn end(self) -> Result<(usize, usize, Duration)> {
        self.stop.cancel();
        let took = self.asking.await?;
        let longest = took.iter().flatten().max().copied().unwrap_or_default();
        Ok((took.len(), took.iter().filter(|took| took.is_none()).count(), longest))
    }
}

/// Newer versions that are published where nodes are attacked, and their holder at the other indexer.
pub(super) struct News {
    holder: Client,
    publishing: JoinHandle<HashSet<FileName>>,
}

impl News {
    /// A batch of versions that the holder has older ones of, one after the other until `until`.
    pub(super) async fn begin(arena: &Arena, until: Instant) -> Result<Self> {
        let identity = Identity::generate();
        let older: Vec<_> =
            (0..BATCH_MAX).map(|n| sign_record(&identity, &format!("news/{n}.bin"))).collect();
        let holder = arena.net.client(1, Identity::generate()).await?;
        holder.register(older.iter().map(|record| record.to_signed()).collect()).await?;
        let newer = older.iter().map(|older| sign_next(&identity, older).to_signed()).collect();
        let origin = arena.net.client(0, identity).await?;
        let every = until.saturating_duration_since(Instant::now()) / u32::try_from(BATCH_MAX)?;
        let publishing = tokio::spawn(publish(origin, newer, every.max(Duration::from_millis(1))));
        Ok(Self { holder, publishing })
    }

    /// How many were published, and how many of these the holder has not heard of.
    pub(super) async fn end(self) -> Result<(usize, usize)> {
        let published = self.publishing.await?;
        let told = locked(&self.holder.told);
        Ok((published.len(), published.difference(&told).count()))
    }
}

/// Has each version announced; the names of those that are listed.
async fn publish(origin: Client, newer: Vec<SignedRecord>, every: Duration) -> HashSet<FileName> {
    let (mut ticks, mut published) = (interval(every), HashSet::new());
    for record in newer {
        ticks.tick().await;
        let name = record.unverified().name.clone();
        let request =
            RegisterRequest { records: Records::first_of([record]), announce: true, partial: false };
        if origin.calls.register(context::current(), request).await.is_ok_and(|reply| reply.is_ok()) {
            published.insert(name);
        }
    }
    published
}
