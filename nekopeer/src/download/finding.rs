//! From names to the versions that are downloaded: a search, and a choice among the answers.

use std::{iter, sync::Arc};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Holder, NodeId, Record, VerifiedRecord};

use super::{
    DownloadOptions, Downloader,
    error::{self, ambiguous, not_found, not_of_origin, older, origin_gone},
};
use crate::{
    failure::{Failure, Reason},
    indexers::{Answer, Wishes},
    state::{
        choice::{NoChoice, Target, choose},
        freshness::OnStale,
    },
};

/// Names that are searched for at once by the ids of their origins.
const WISHED_AT_ONCE: usize = 16;

/// What to download under a name, or why nothing was found.
pub(super) type Finding = (FileName, Result<Target, Failure>);

impl Downloader {
    pub(crate) async fn find(&self, name: &FileName, options: &DownloadOptions) -> Result<Target, Failure> {
        let finding = self.find_all(vec![name.clone()], Vec::new(), options);
        Box::pin(finding).await.remove(0).1 // one for each name
    }

    /// Finds the version of each of `names`, and of those of which the answer is `known`, in any order.
    pub(super) async fn find_all(
        &self,
        mut names: Vec<FileName>,
        known: Vec<(FileName, Answer)>,
        options: &DownloadOptions,
    ) -> Vec<Finding> {
        let mut all = Vec::new();
        names.retain(|name| match self.own(name) {
            Some(error) => {
                all.push((name.clone(), Err(error)));
                false
            }
            None => true,
        });
        let answers = match self.indexers.search_all(&names, options.ttl_hops, &options.via).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => nobody_asked(&names, error),
        };
        let known = known.into_iter().map(|(name, answer)| (name, Ok(answer)));
        let found = known.chain(iter::zip(names, answers)).map(async |(name, answer)| {
            let found = answer.and_then(|answer| self.choose(&name, options, answer));
            let found = self.find_wished(&name, options, found).await;
            (name, found)
        });
        let found: Vec<Finding> = stream::iter(found).buffered(WISHED_AT_ONCE).collect().await;
        if options.output.is_none() {
            self.clear_way(&found).await;
        }
        let found = self.found_further(found, options).await;
        all.extend(self.confirm_strict(found, options).await);
        all
    }

    /// `found`; or, if the origin that is wanted was not in an answer that had no room for all, what is found of it by
    /// its id.
    async fn find_wished(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        found: Result<Target, Failure>,
    ) -> Result<Target, Failure> {
        let (wishes, origin) = (options.wishes(name), options.origin_of(name));
        let (Some(origin), Err(Failure { reason: Reason::NotOfOrigin { others, complete: false }, .. })) =
            (origin.filter(|_| wishes.origin.is_some()), &found)
        else {
            return found;
        };
        match self.search_again(name, options, &wishes).await {
            Some(Err(Failure { reason: Reason::NotOfOrigin { complete: true, .. }, .. })) => {
                Err(not_of_origin(name, origin, others.clone(), true))
            }
            Some(again) => again,
            None => found,
        }
    }

    /// Searches for what meets `wishes`; none if nobody answered.
    pub(super) async fn search_again(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        wishes: &Wishes,
    ) -> Option<Result<Target, Failure>> {
        let answer = self.indexers.search_one(name, options.ttl_hops, &options.via, wishes).await.ok()?;
        Some(self.choose(name, options, answer))
    }

    /// Why `name` is not downloaded if this peer is its origin.
    pub(super) fn own(&self, name: &FileName) -> Option<Failure> {
        let catalogue = &self.library.catalogue;
        let own = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        own.map(|_| super::own(name))
    }

    /// Chooses a version: never older than one that is or was held, and of the same origin unless another is given.
    pub(super) fn choose(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        Answer { mut candidates, withdrawn, complete, .. }: Answer,
    ) -> Result<Target, Failure> {
        if let Some(error) = self.own(name) {
            return Err(error);
        }
        let here = self.library.catalogue.get(name);
        let said = options.origin_of(name);
        // What goes on by itself takes no other origin's file in the place of a copy that was dropped.
        let dropped = match (&here, options.unattended) {
            (None, true) => self.library.catalogue.floors(name)?,
            _ => Vec::new(),
        };
        let held = here.as_deref().or(dropped.first()).map(|entry| entry.record.origin);
        let origin = said.map(str::to_owned).or(here.as_ref().map(|here| here.record.origin.to_string()));
        let is_wanted = |record: &Record| {
            origin.as_ref().is_none_or(|digits| record.origin.to_string().starts_with(digits.as_str()))
        };
        let withdrawn = withdrawn.into_iter().find(|withdrawal| is_wanted(withdrawal));
        let mut others: Vec<NodeId> = candidates.iter().map(|candidate| candidate.record.origin).collect();
        others.sort_unstable();
        others.dedup();
        if let ([other], None, false) = (&others[..], said, dropped.is_empty())
            && dropped.iter().all(|dropped| dropped.record.origin != *other)
        {
            candidates.clear();
        }
        let is_refetched =
            || self.library.preference(name).on_stale.unwrap_or(self.on_stale) == OnStale::Refetch;
        let unattended = options.unattended || candidates.len() > 1 && is_refetched();
        let listed = |origin| self.endpoint.access().allowed.admits(origin);
        let chosen = choose(candidates, origin.as_deref(), listed, unattended);
        let mut target = chosen.map_err(|why| match (why, &withdrawn, said) {
            (NoChoice::Ambiguous(origins), ..) => ambiguous(name, &origins),
            (NoChoice::NoHit, Some(withdrawal), _) if others.is_empty() => error::withdrawn(withdrawal),
            (NoChoice::NoHit, _, Some(origin)) => not_of_origin(name, origin, others, complete),
            (NoChoice::NoHit, _, None) => match held.filter(|_| !others.is_empty()) {
                Some(origin) => origin_gone(name, &origin, &others),
                None => not_found(name, complete),
            },
        })?;
        target.sources.retain(|source| source.node != self.library.node);
        let was_here = self.library.catalogue.floor(name, &target.record.origin)?.map(Arc::new);
        let known = || here.iter().chain(&was_here).filter_map(|known| known.newest.as_ref());
        if let Some(later) = known().find(|later| later.is_withdrawal() && later.replaces(&target.record)) {
            return Err(error::withdrawn(later));
        }
        let later =
            [here, was_here].into_iter().flatten().find(|known| known.record.replaces(&target.record));
        match later {
            Some(known) => Err(older(name, target.record.version, known.record.version)),
            None => Ok(target),
        }
    }

    pub(super) fn look_for_sources(
        &self,
        record: &VerifiedRecord,
        options: &DownloadOptions,
    ) -> impl Future<Output = Vec<Holder>> + Send + 'static {
        let (indexers, record, own) = (Arc::clone(&self.indexers), record.clone(), self.library.node);
        let (ttl_hops, via) = (options.ttl_hops, options.via.clone());
        let wishes = options.wishes(&record.name);
        async move {
            let answer = indexers.search_one(&record.name, ttl_hops, &via, &wishes).await;
            let found = answer.unwrap_or_default().candidates.into_iter();
            let same = found.filter(|found| found.record.content == record.content);
            same.flat_map(|found| found.holders).filter(|holder| holder.node != own).collect()
        }
    }
}

fn nobody_asked(names: &[FileName], failure: Failure) -> Vec<Result<Answer, Failure>> {
    match names {
        [_] => vec![Err(failure)],
        names => {
            let of = |name| failure.for_one(name, "cannot be looked for").because(Reason::NotThere);
            names.iter().map(|name| Err(of(name))).collect()
        }
    }
}
