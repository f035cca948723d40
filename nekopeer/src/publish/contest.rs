//! Numbers of versions: which one stands, and what becomes of a file whose number was used with the same key
//! in a folder that was lost or restored.

use std::{collections::HashMap, sync::Arc};

use nekoproto::{FileName, VerifiedRecord, Version};

use super::{PublishOutcome, Publisher};
use crate::{
    library::{Library, events::Event, learn::Settling, status::on_disk},
    state::contest::Judgment,
    storage::catalogue::CatalogueError,
};

/// Rounds in which a publish finds a number that stands. One is enough unless another folder with the same key
/// publishes at the same moment.
const ROUNDS_MAX: usize = 4;

/// What was heard, by what is to be done about it.
#[derive(Debug, Default)]
struct Plan {
    adopt: Vec<VerifiedRecord>,
    renumber: Vec<VerifiedRecord>,
    superseded: Vec<VerifiedRecord>,
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    adopted: Vec<VerifiedRecord>,
    /// The new versions, each with the number before.
    renumbered: Vec<(Version, VerifiedRecord)>,
    superseded: Vec<VerifiedRecord>,
}

/// Who settles numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// A publish: the user wants this version to stand.
    Publish,
    /// News in the background.
    Heard,
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
            let Ok(done) = self.carry_out(self.plan(heard, Occasion::Publish)).await else { break };
            let renumbered: Vec<_> = done.renumbered.into_iter().map(|(_, record)| record).collect();
            self.indexers.offer(renumbered.iter().chain(&done.adopted)).await;
            let now = renumbered.into_iter().chain(done.adopted);
            let mut now: HashMap<FileName, VerifiedRecord> =
                now.map(|record| (record.name.clone(), record)).collect();
            for record in &mut outcome.published {
                if let Some(now) = now.remove(&record.name) {
                    *record = now;
                }
            }
        }
        let catalogue = &self.library.catalogue;
        outcome.is_confirmed = !outcome.published.iter().any(|record| catalogue.is_pending(record));
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
        let Ok(done) = self.carry_out(self.plan(heard, Occasion::Heard)).await else { return };
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

    fn plan(&self, heard: Vec<VerifiedRecord>, occasion: Occasion) -> Plan {
        let mut plan = Plan::default();
        for record in heard {
            let Some(judgment) = self.library.judge(&record) else { continue };
            match judgment {
                Judgment::Stands => continue,
                Judgment::Adopt => &mut plan.adopt,
                Judgment::Renumber => &mut plan.renumber,
                Judgment::Superseded if occasion == Occasion::Publish => &mut plan.renumber,
                Judgment::Superseded => &mut plan.superseded,
            }
            .push(record);
        }
        plan
    }

    /// Changes the catalogue.
    async fn carry_out(&self, plan: Plan) -> Result<Done, CatalogueError> {
        let Plan { mut adopt, mut renumber, superseded } = plan;
        let heard = adopt.first().or(renumber.first()).or(superseded.first()).cloned();
        let change = move |library: &Arc<Library>| -> Result<Done, CatalogueError> {
            let catalogue = &library.catalogue;
            let mut done = Done::default();
            // A file that was changed is not offered anyway: its number is found when it is published.
            let is_intact = |record: &VerifiedRecord| {
                catalogue.get_stated(&record.name).is_some_and(|entry| on_disk(&entry).is_none())
            };
            adopt.retain(is_intact);
            renumber.retain(is_intact);
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
        if let (Err(error), Some(heard)) = (&done, heard) {
            let (name, version) = (heard.name.clone(), heard.version);
            let why = format!("others know version {version}, and no other number can be taken: {error}");
            self.library.tell(Event::Failed { name, why });
        }
        done
    }
}
