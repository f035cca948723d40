//! Searches on behalf of users and downloads: whoever sees that a number stands for two files tells both folders
//! that published them.

use std::{collections::HashMap, slice};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Holder, VerifiedRecord};
use tracing::debug;

use super::{ORIGINS_AT_ONCE, Peers};
use crate::indexers::{Answer, Scope, SearchError, via::Via};

/// Maximum number of folders told after one search, all at once; others are told after the next.
const FOLDERS_MAX: usize = ORIGINS_AT_ONCE;

impl Peers {
    /// Searches for `name`, as [`search_all`](Self::search_all).
    pub(crate) async fn search(
        &self,
        name: &FileName,
        scope: Scope,
        via: &Via,
    ) -> Result<Answer, SearchError> {
        let answers = self.search_all(slice::from_ref(name), scope, via).await?;
        Ok(answers.into_iter().next().unwrap_or_default()) // one answer per name
    }

    /// Searches as [`Indexers::search_all`](crate::indexers::Indexers::search_all). Where an origin published two
    /// files under one number, waits until its folders were told, or do not answer.
    pub(crate) async fn search_all(
        &self,
        names: &[FileName],
        scope: Scope,
        via: &Via,
    ) -> Result<Vec<Answer>, SearchError> {
        let answers = self.indexers.search_all(names, scope, via).await?;
        let mut by_folder: HashMap<Holder, Vec<VerifiedRecord>> = HashMap::new();
        for (folder, other) in answers.iter().flat_map(|answer| self.library.witness(&answer.candidates)) {
            by_folder.entry(folder).or_default().push(other);
        }
        let tell = async |(folder, others): (Holder, Vec<VerifiedRecord>)| {
            if let Err(error) = self.invalidate(folder, &others).await {
                debug!(at = %folder.addr, %error, "an origin was not told of a number that it used twice");
            }
        };
        stream::iter(by_folder).take(FOLDERS_MAX).for_each_concurrent(FOLDERS_MAX, tell).await;
        Ok(answers)
    }
}
