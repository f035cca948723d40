//! [`IdleSources`]: pools idle data streams to origins, so that the next version of a copy is asked for without a handshake of
//! TCP and TLS; over the same stream an origin is asked whether a download brought its newest version.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use nekoproto::{NodeId, Verdict, VerifiedRecord};
use parking_lot::Mutex;
use tracing::debug;

use super::{Downloader, swarm::source::Source};
use crate::{
    peers::{ANSWER_WITHIN, held},
    util::{clock, tasks::blocking},
};

/// Connections kept at once: the oldest gives way.
const KEPT_MAX: usize = 64;
/// How long one is kept: less than an origin waits for a further request.
const KEPT_FOR: Duration = Duration::from_secs(240);
const _: () = assert!(KEPT_FOR.as_secs() < crate::serve::IDLE_MAX.as_secs());

#[derive(Debug, Default)]
pub(crate) struct IdleSources(Mutex<HashMap<NodeId, (Source, Instant)>>);

impl IdleSources {
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

impl Downloader {
    /// Asks the origin of `record` whether it is the newest version, over the connection that is open if there is one.
    pub(super) async fn confirm(&self, record: &VerifiedRecord, open: Option<Source>) {
        let is_accepted = self.library.accepted_instead(record).is_none();
        let verdict = match open {
            Some(open) if is_accepted && self.peers.is_introduced(&record.origin) => {
                self.verdict_over(open, record).await
            }
            Some(open) => {
                self.keep_open(record, open);
                None
            }
            None => None,
        };
        if let Some((verdict, asked_at)) = verdict
            && self.peers.heard(record, verdict, asked_at).await
        {
            return;
        }
        self.peers.confirm(vec![record.clone()]).await;
    }

    /// What the origin of `record` says of it over this connection, and when it was asked.
    async fn verdict_over(&self, mut origin: Source, record: &VerifiedRecord) -> Option<(Verdict, Instant)> {
        let (held, guard) = (held(record), origin.hang_up().on_drop());
        let answer = blocking(move || origin.verdict(held, ANSWER_WITHIN).map(|said| (said, origin))).await;
        guard.disarm();
        match answer {
            Ok((verdict, origin)) => {
                self.keep_open(record, origin);
                verdict
            }
            Err(error) => {
                debug!(%error, "the origin does not answer on the open connection");
                None
            }
        }
    }

    /// Keeps the connection to the origin of `record` for the next version, if this peer stays.
    fn keep_open(&self, record: &VerifiedRecord, origin: Source) {
        if self.library.is_serving {
            self.idle_sources.keep(record.origin, origin, clock::now());
        }
    }
}
