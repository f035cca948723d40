//! News of newer versions: verified records are recorded durably, and queued for
//! [`watch`](crate::watch).

use std::sync::Arc;

use nekoproto::VerifiedRecord;

use super::{Library, events::Event};

impl Library {
    /// Records verified records durably; returns once that is done. [`watch`](crate::watch) acts on them in
    /// the background. False if a write to the catalogue failed.
    ///
    /// # Cancel safety
    /// Safe: it runs to its end, so that a caller that disconnects cannot leave news half recorded.
    pub(crate) async fn learn(self: &Arc<Self>, records: Vec<VerifiedRecord>) -> bool {
        if records.is_empty() {
            return true;
        }
        let library = Arc::clone(self);
        let noting = async move { library.note_all(records).await };
        self.tasks.tracker.spawn(noting).await.unwrap_or_else(|error| {
            tracing::error!(%error, "noting newer versions failed");
            false
        })
    }

    async fn note_all(self: &Arc<Self>, records: Vec<VerifiedRecord>) -> bool {
        let (own, others): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.origin == self.node);
        let own = own.into_iter().filter(|record| self.is_behind(record));
        let own: Vec<_> = own.map(|record| (record.name.clone(), record)).collect();
        if !own.is_empty() {
            self.news.lock().own.extend(own);
            self.wake();
        }
        let is_newer = |record: &VerifiedRecord| {
            let held = self.catalogue.get(&record.name);
            held.is_some_and(|held| record.replaces(held.newest.as_ref().unwrap_or(&held.record)))
        };
        let newer: Vec<VerifiedRecord> = others.into_iter().filter(is_newer).collect();
        newer.is_empty() || self.note_newer(newer).await
    }

    async fn note_newer(self: &Arc<Self>, newer: Vec<VerifiedRecord>) -> bool {
        let stored = {
            let newer = newer.clone();
            self.blocking(move |library| library.catalogue.note_newer(&newer)).await
        };
        {
            // After the write: what is visible in memory must be on disk.
            let mut copies = self.copies.lock();
            for record in &newer {
                copies.change(&record.name, |copy| copy.learn(record));
            }
        }
        let is_noted = stored.is_ok();
        let mut outdated = Vec::new();
        match stored {
            Ok(entries) => {
                for entry in entries {
                    let Some(newest) = &entry.newest else { continue };
                    let (name, held) = (entry.record.name.clone(), entry.record.version);
                    self.tell(Event::Invalidated { name: name.clone(), held, newest: newest.version });
                    outdated.push((name, newest.origin));
                }
            }
            Err(error) => {
                for record in &newer {
                    self.tell(Event::Failed { name: record.name.clone(), why: error.to_string() });
                }
            }
        }
        let mut news = self.news.lock();
        news.outdated.extend(outdated);
        news.heard.extend(newer);
        drop(news);
        self.wake();
        is_noted
    }

    /// Whether `record`, signed by this node, is later than the version published here, or has other bytes
    /// under the same number: the version counter was lost, for example because the data folder was deleted
    /// or restored from an old copy.
    pub(crate) fn is_behind(&self, record: &VerifiedRecord) -> bool {
        let entry = self.catalogue.get(&record.name);
        entry.is_some_and(|entry| record.replaces(&entry.record) || record.contradicts(&entry.record))
    }
}
