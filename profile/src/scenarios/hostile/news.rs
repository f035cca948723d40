//! Newer versions that are published where nodes are attacked: a holder at the other indexer must hear of each.

use std::collections::HashSet;

use nekoproto::{Records, RegisterRequest, limits::BATCH_MAX};
use tarpc::context;
use tokio::{task::JoinHandle, time::Instant, time::interval};

use crate::plan::{workload::sign_next, workload::sign_record};
use crate::scenarios::prelude::*;
use crate::{arena::Arena, node::locked};

/// The holder, and what was published.
pub(super) struct News {
    holder: Client,
    publishing: JoinHandle<HashSet<FileName>>,
}

impl News {
    /// A batch of versions that the holder has older ones of, one after the other until `until`.
    pub(super) async fn begin(arena: &Arena, until: Instant) -> anyhow::Result<Self> {
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
    pub(super) async fn end(self) -> anyhow::Result<(usize, usize)> {
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
