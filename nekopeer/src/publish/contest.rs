//! Numbers of versions: which one stands, and what becomes of a file whose number was used with the same key
//! in a folder that was lost or restored.

use std::{collections::HashMap, sync::Arc};

use nekoproto::{FileName, VerifiedRecord, Version};

use super::{PublishOutcome, Publisher};
use crate::{
    failure::Failure,
    library::{Library, events::Event, learn::Settling, status::on_disk},
    state::contest::Judgment,
};

/// Rounds in which a publish finds a number that stands. One is enough unless another folder with the same key
/// publishes at the same moment.
const ROUNDS_MAX: usize = 4;

#[derive(Debug, Default)]
struct Done {
    adopted: Vec<VerifiedRecord>,
    /// The new versions, each with the number before.
    renumbered: Vec<(Version, VerifiedRecord)>,
    superseded: Vec<VerifiedRecord>,
}

impl Publisher {
    /// Registers what was published, and gives it other numbers until they stand; `outcome` then has the last
    /// ones. The names are `settling` since before they were stored.
    pub(super) async fn settle(&self, outcome: &mut PublishOutcome, settling: &Settling) {
        self.indexers.offer(outcome.published.iter().chain(&outcome.unchanged)).await;
        for _ in 0..ROUNDS_MAX {
            let heard = settling.take();
            if heard.is_empty() {
                break;
            }
            let Ok(done) = self.carry_out(heard, true).await else { break };
            let renumbered = done.renumbered.into_iter().map(|(_, record)| record);
            let now: Vec<VerifiedRecord> = renumbered.chain(done.adopted).collect();
            self.indexers.offer(&now).await;
            let mut now: HashMap<FileName, VerifiedRecord> =
                now.into_iter().map(|record| (record.name.clone(), record)).collect();
            for record in &mut outcome.published {
                if let Some(now) = now.remove(&record.name) {
                    *record = now;
                }
            }
        }
        let catalogue = &self.library.catalogue;
        let mut all = outcome.published.iter().chain(&outcome.unchanged);
        outcome.is_confirmed = !all.any(|record| catalogue.is_pending(record));
        self.save_told().await;
    }

    /// Before a number is reported: a copy of the folder made from then on knows that it stands.
    async fn save_told(&self) {
        if self.library.catalogue.unsaved() > 0
            && let Err(error) = self.library.blocking(|library| library.catalogue.save_told()).await
        {
            tracing::warn!(%error, "cannot store what indexers were told"); // they are told once more
        }
    }

    /// Does what is to be done about `heard`: versions of own files that this node signed and its catalogue
    /// does not have.
    pub(crate) async fn resolve(self: Arc<Self>, heard: Vec<VerifiedRecord>) {
        let Ok(done) = self.carry_out(heard, false).await else { return };
        let library = &self.library;
        let superseded = done.superseded.iter().map(|record| record.name.clone()).collect();
        self.indexers.look_at(superseded).await;
        for record in done.superseded {
            let (name, version) = (record.name.clone(), record.version);
            library.tell(Event::PublishedElsewhere { name, version });
        }
        if done.renumbered.is_empty() && done.adopted.is_empty() {
            return;
        }
        let news: Vec<_> = done.renumbered.iter().map(|(_, record)| record.clone()).collect();
        self.indexers.offer(news.iter().chain(&done.adopted)).await;
        self.indexers.registered(news.len() + done.adopted.len()).await;
        self.save_told().await;
        for (taken, record) in done.renumbered {
            let (name, version) = (record.name.clone(), record.version);
            library.tell(Event::Renumbered { name, taken, version });
        }
        self.tell_subscribers(&news);
    }

    /// Changes the catalogue as [`judge`](Library::judge) says, where the published version `is_wanted` or as the user
    /// left it.
    async fn carry_out(&self, heard: Vec<VerifiedRecord>, is_wanted: bool) -> Result<Done, Failure> {
        let first = heard.first().cloned();
        let change = move |library: &Arc<Library>| -> Result<Done, Failure> {
            let catalogue = &library.catalogue;
            // A file that was changed is not offered anyway: its number is found when it is published.
            let is_intact = |record: &VerifiedRecord| {
                catalogue.get_stated(&record.name).is_some_and(|entry| on_disk(&entry).is_none())
            };
            let (mut adopt, mut renumber, mut superseded) = (Vec::new(), Vec::new(), Vec::new());
            for record in heard {
                match library.judge(&record, is_wanted) {
                    None => {}
                    Some(Judgment::Superseded) => superseded.push(record),
                    Some(_) if !is_intact(&record) => {}
                    Some(Judgment::Adopt) => adopt.push(record),
                    Some(Judgment::Renumber) => renumber.push(record),
                }
            }
            let mut done = Done::default();
            if !adopt.is_empty() {
                done.adopted = catalogue.adopt(&adopt)?;
            }
            if !renumber.is_empty() {
                done.renumbered = catalogue.renumber(&renumber)?;
            }
            if !superseded.is_empty() {
                let outdated = catalogue.note_newer(&superseded)?;
                done.superseded = outdated.iter().filter_map(|entry| entry.newest.clone()).collect();
            }
            Ok(done)
        };
        let done = self.library.blocking(change).await;
        if let (Err(error), Some(heard)) = (&done, first) {
            let (name, version) = (heard.name.clone(), heard.version);
            let why = format!("others know version {version}, and no other number can be taken: {error}");
            self.library.tell(Event::Failed { name, why });
        }
        done
    }
}
