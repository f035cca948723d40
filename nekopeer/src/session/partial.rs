//! What is being downloaded, and offered meanwhile as far as it is here.

use std::{slice, sync::Arc};

use nekoproto::{FileName, IndexerServiceClient, Names, VerifiedRecord};

use super::{ANSWER_WITHIN, Kind, Session, SessionError, within};
use crate::{shared::Shared, status};

impl Session {
    /// Tells this indexer of a version that this peer is downloading: it serves what it has of it,
    /// and is listed so in place of an older copy. An indexer that cannot be told now is told when it
    /// is back, and that ends with [`end_partial`](Self::end_partial), or with an
    /// [`offer`](Self::offer) of the version when all of it is here.
    ///
    /// # Cancel safety
    /// The version may be listed or not; `end_partial` is due either way.
    pub(crate) async fn offer_partial(
        &self,
        shared: &Arc<Shared>,
        record: &VerifiedRecord,
    ) -> Result<(), SessionError> {
        self.told().partial.insert(record.name.clone(), record.clone());
        let client = self.link.client().ok_or(SessionError::Away)?;
        let told = self.register_partial(shared, &client, slice::from_ref(record)).await;
        self.behind_unless(told)
    }

    /// The download under `name` has ended. Unless what it brought is offered by now, this indexer
    /// lists again what this peer had before, if anything.
    pub(crate) async fn end_partial(
        &self,
        shared: &Arc<Shared>,
        name: &FileName,
    ) -> Result<(), SessionError> {
        let ended = self.told().partial.remove(name);
        match ended {
            Some(ended) => {
                let told = self.replace_partial(shared, &ended).await;
                self.behind_unless(told)
            }
            None => Ok(()),
        }
    }

    /// Has what this peer offers listed in place of `ended`, of which it holds no part any more.
    async fn replace_partial(
        &self,
        shared: &Arc<Shared>,
        ended: &VerifiedRecord,
    ) -> Result<(), SessionError> {
        let name = ended.name.clone();
        let offered = shared.blocking(move |shared| status::offered_as(shared, &name)).await;
        if offered.as_ref() != Some(ended) {
            // First, since an older version is not listed in place of a newer one.
            self.told().listed.remove(&ended.name);
            let client = self.link.client().ok_or(SessionError::Away)?;
            client.deregister(within(ANSWER_WITHIN), Names::first_of([ended.name.clone()])).await??;
        }
        match offered {
            Some(offered) => self.offer(shared, &[offered], false).await,
            None => Ok(()),
        }
    }

    /// Registers parts; one that ended here while it began there is replaced at once.
    pub(super) async fn register_partial(
        &self,
        shared: &Arc<Shared>,
        client: &IndexerServiceClient,
        records: &[VerifiedRecord],
    ) -> Result<(), SessionError> {
        self.register(shared, client, records, Kind::Partial).await?;
        for record in records {
            let has_ended = !self.told().partial.contains_key(&record.name);
            if has_ended {
                self.replace_partial(shared, record).await?;
            }
        }
        Ok(())
    }
}
