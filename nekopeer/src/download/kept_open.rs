//! [`KeptOpen`]: the connections to origins over which copies were fetched, for the next versions of these: two round trips less
//! until the first byte of a pushed one.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use nekoproto::NodeId;
use parking_lot::Mutex;

use super::swarm::source::Source;

/// Connections kept at once: the oldest gives way.
const KEPT_MAX: usize = 64;
/// How long one is kept: less than an origin waits for a further request.
const KEPT_FOR: Duration = Duration::from_secs(240);
const _: () = assert!(KEPT_FOR.as_secs() < crate::serve::IDLE_MAX.as_secs());

#[derive(Debug, Default)]
pub(crate) struct KeptOpen(Mutex<HashMap<NodeId, (Source, Instant)>>);

impl KeptOpen {
    /// Keeps the connection to `origin`, instead of another one to it.
    pub(super) fn keep(&self, origin: NodeId, source: Source, now: Instant) {
        let kept = &mut *self.0.lock();
        kept.retain(|_, (_, since)| is_of_use(*since, now));
        if kept.len() >= KEPT_MAX
            && let Some(oldest) = kept.iter().min_by_key(|(_, (_, since))| *since).map(|(node, _)| *node)
        {
            kept.remove(&oldest);
        }
        kept.insert(origin, (source, now));
    }

    /// Takes the connection to `origin`, if there is one. The other end may have closed it.
    pub(super) fn take(&self, origin: &NodeId, now: Instant) -> Option<Source> {
        let (source, _) = self.0.lock().remove(origin).filter(|(_, since)| is_of_use(*since, now))?;
        Some(source.kept())
    }
}

fn is_of_use(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < KEPT_FOR
}
