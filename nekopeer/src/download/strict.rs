//! Asks origins whether the version that was found is the newest: for each download and read of a strict file, and, for at most
//! [`SOON`], for each other read of what is not held.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Holder, NodeId, VerifiedRecord};
use tokio::time::timeout;

use super::{
    DownloadOptions, Downloader,
    error::{unconfirmed, withdrawn},
    finding::Finding,
};
use crate::{
    failure::Failure,
    peers::{ORIGINS_AT_ONCE, Peers},
    state::choice::Target,
};

/// How long a reader waits for an origin to say that what was found is the newest.
const SOON: Duration = Duration::from_millis(500);

impl Downloader {
    /// `found`, with what its origins say now of the names whose policy is strict: the newest version, or why it is not
    /// known. In any order.
    pub(super) async fn confirm_strict(
        &self,
        found: Vec<Finding>,
        options: &DownloadOptions,
    ) -> Vec<Finding> {
        if options.version.is_some() {
            return found; // the newest is not what is wanted
        }
        let holds_strict = |name: &FileName| {
            self.library.catalogue.get(name).is_some_and(|held| held.record.policy.is_strict())
        };
        let mut answers = Vec::with_capacity(found.len());
        let (mut by_origin, mut elsewhere) = (HashMap::<Holder, Vec<Target>>::new(), HashMap::new());
        for (name, found) in found {
            match found {
                Ok(target) if target.record.policy.is_strict() => {
                    match self.origin_of(&target, &mut elsewhere, options).await {
                        Some(origin) => by_origin.entry(origin).or_default().push(target),
                        None => answers.push((name.clone(), Err(unconfirmed(&name)))),
                    }
                }
                // Nobody is known who could tell whether what is held is the newest.
                Err(error) if error.is_not_found() && holds_strict(&name) => {
                    answers.push((name.clone(), Err(unconfirmed(&name))));
                }
                found => answers.push((name, found)),
            }
        }
        let asking = by_origin.into_iter().map(|(origin, targets)| self.newest_of(origin, targets));
        let asked: Vec<Vec<Finding>> = stream::iter(asking).buffer_unordered(ORIGINS_AT_ONCE).collect().await;
        answers.extend(asked.into_iter().flatten());
        answers
    }

    /// `target`, or the later version that its origin tells of; and whether the origin said that, to a question by `peers` about
    /// the version `known`.
    pub(crate) async fn confirm_found(
        &self,
        peers: &Peers,
        target: Target,
        known: VerifiedRecord,
    ) -> Result<(Target, bool), Failure> {
        if target.record.policy.is_strict() {
            return Ok((target, true)); // else it would not have been found
        }
        let origin = target.record.origin;
        let Some(listed) = target.sources.iter().find(|source| source.node == origin).copied() else {
            return Ok((target, false));
        };
        let newest = timeout(SOON, peers.newest(listed, vec![known])).await.unwrap_or_default().pop();
        match newest.map(|(_, record)| record) {
            Some(newest) if newest == target.record => Ok((target, true)),
            Some(newest) if newest.replaces(&target.record) && newest.is_withdrawal() => {
                Err(withdrawn(&newest))
            }
            Some(newest) if newest.replaces(&target.record) => {
                Ok((Target { record: newest, sources: vec![listed], ..target }, true))
            }
            _ => Ok((target, false)),
        }
    }

    /// Where the origin of `target` can be asked: as an indexer lists it, where it was last, or, in `elsewhere` for all
    /// its files, where a search finds it.
    async fn origin_of(
        &self,
        target: &Target,
        elsewhere: &mut HashMap<NodeId, Option<SocketAddr>>,
        options: &DownloadOptions,
    ) -> Option<Holder> {
        let Target { record, sources, .. } = target;
        let listed = sources.iter().find(|source| source.node == record.origin).map(|source| source.addr);
        let last_seen = || {
            let held = self.library.catalogue.get(&record.name)?;
            held.origin_addr.filter(|_| held.record.same_file(record))
        };
        let addr = match (listed.or_else(last_seen), elsewhere.get(&record.origin)) {
            (Some(addr), _) => Some(addr),
            (None, Some(found)) => *found,
            (None, None) => {
                let found = self.peers.address_of(record.origin, &record.name, &options.via).await;
                elsewhere.insert(record.origin, found);
                found
            }
        };
        addr.map(|addr| Holder::new(record.origin, addr))
    }

    /// What `origin` says of the newest versions of its files that were found.
    async fn newest_of(&self, origin: Holder, targets: Vec<Target>) -> Vec<Finding> {
        let records: Vec<VerifiedRecord> = targets.iter().map(|target| target.record.clone()).collect();
        let mut newest: HashMap<_, _> = self.peers.newest(origin, records).await.into_iter().collect();
        let answer = |target: Target| {
            let name = target.record.name.clone();
            let found = match newest.remove(&name) {
                Some(newest) if newest == target.record => Ok(target),
                Some(newest) if newest.is_withdrawal() => Err(withdrawn(&newest)),
                Some(record) => Ok(Target { record, sources: vec![origin], ..target }),
                None => Err(unconfirmed(&name)),
            };
            (name, found)
        };
        targets.into_iter().map(answer).collect()
    }
}
