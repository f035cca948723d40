//! Who is asked where the indexers do not list a file: the origin of a copy that is or was held here, at its last
//! known address; then the indexers that earlier tickets named.

use std::collections::HashMap;

use futures::{StreamExt, stream};
use nekoproto::{FileName, Holder, VerifiedRecord};

use super::{DownloadOptions, Downloader, error::withdrawn, finding::Finding};
use crate::{
    failure::{Failure, Reason},
    indexers::Answer,
    peers::ORIGINS_AT_ONCE,
    state::choice::Target,
};

impl Downloader {
    /// Asks whoever else may know of names that could not be found, or that this peer alone is listed for: the indexers
    /// may know its old copy only. A name that nobody else offers stays as it was found.
    pub(super) async fn found_further(&self, found: Vec<Finding>, options: &DownloadOptions) -> Vec<Finding> {
        let (mut all, mut failed, mut own) = (Vec::with_capacity(found.len()), Vec::new(), HashMap::new());
        for (name, found) in found {
            match found {
                Ok(target) if target.sources.is_empty() => {
                    let missing = Failure::missing("").because(Reason::NotFound); // that is not told
                    failed.push((name.clone(), missing));
                    own.insert(name, target);
                }
                Ok(target) => all.push((name, Ok(target))),
                Err(error) => failed.push((name, error)),
            }
        }
        if failed.is_empty() {
            return all;
        }
        for (name, found) in self.ask_others(failed, options).await {
            let found = match (found, own.remove(&name)) {
                (Err(error), _) if error.reason == Reason::Withdrawn => Err(error),
                (Err(_), Some(target)) => Ok(target),
                (found, _) => found,
            };
            all.push((name, found));
        }
        all
    }

    async fn ask_others(&self, failed: Vec<(FileName, Failure)>, options: &DownloadOptions) -> Vec<Finding> {
        let mut found = self.ask_origins(failed, options).await;
        let is_left = |(_, found): &Finding| matches!(found, Err(error) if error.is_not_found());
        let left: Vec<FileName> =
            found.iter().filter(|one| is_left(one)).map(|(name, _)| name.clone()).collect();
        if left.is_empty() {
            return found;
        }
        let via = self.indexers.connect_remembered(&options.via).await;
        if via.good.is_empty() {
            return found;
        }
        let answers = self.indexers.search_all(&left, options.ttl_hops, &via).await.unwrap_or_default();
        let mut answers: HashMap<FileName, Answer> = left.into_iter().zip(answers).collect();
        for (name, found) in &mut found {
            let Some(answer) = answers.remove(name) else { continue };
            let chosen = self.choose(name, options, answer);
            if matches!(chosen, Ok(_) | Err(Failure { reason: Reason::Withdrawn, .. })) {
                *found = chosen;
            }
        }
        found
    }

    /// Asks the origins of names that could not be found, many names per call; a name whose origin does not offer
    /// it either keeps its error.
    async fn ask_origins(&self, failed: Vec<(FileName, Failure)>, options: &DownloadOptions) -> Vec<Finding> {
        let mut by_origin: HashMap<Holder, Vec<VerifiedRecord>> = HashMap::new();
        for (name, error) in &failed {
            if let Some((origin, known)) = self.known(name, options).filter(|_| error.is_not_found()) {
                by_origin.entry(origin).or_default().push(known);
            }
        }
        let asking = by_origin.into_iter().map(|(origin, known)| async move {
            let newest = self.peers.newest(origin, known).await;
            newest.into_iter().map(move |(name, record)| match record.is_withdrawal() {
                true => (name, Err(withdrawn(&record))),
                false => (name, Ok(Target::new(record, vec![origin]))),
            })
        });
        let mut asked = stream::iter(asking).buffer_unordered(ORIGINS_AT_ONCE);
        let mut targets: HashMap<FileName, Result<Target, Failure>> = HashMap::new();
        while let Some(found) = asked.next().await {
            targets.extend(found);
        }
        let found = |(name, error)| {
            let target = targets.remove(&name);
            (name, target.unwrap_or(Err(error)))
        };
        failed.into_iter().map(found).collect()
    }

    /// The newest known version of a copy of `name` that is or was held here, and where its origin was last. None if
    /// there were copies of several origins.
    fn known(&self, name: &FileName, options: &DownloadOptions) -> Option<(Holder, VerifiedRecord)> {
        let catalogue = &self.library.catalogue;
        let copies = match catalogue.get(name) {
            Some(held) => vec![(*held).clone()],
            None => catalogue.floors(name).unwrap_or_default(),
        };
        let mut wanted =
            copies.into_iter().filter(|copy| !catalogue.is_own(copy) && options.takes(&copy.record));
        let (copy, other) = (wanted.next()?, wanted.next());
        let origin = Holder::new(copy.record.origin, copy.origin_addr.filter(|_| other.is_none())?);
        Some((origin, copy.newest.unwrap_or(copy.record)))
    }
}
