//! Downloads that somebody waits for, in turn with all that is refetched.

use nekoproto::{FileName, NodeId};
use tokio::sync::oneshot;

use super::Watch;
use crate::{
    download::{DownloadError, DownloadOptions},
    library::Library,
    sets,
    storage::catalogue::Entry,
};

/// A download that somebody waits for. It is repeated until it succeeds.
#[derive(Debug)]
pub(crate) struct FetchRequest {
    pub(crate) options: DownloadOptions,
    /// Whether it is repeated even if it fails and only a user can change that.
    pub(crate) lasts: bool,
    pub(crate) done: oneshot::Sender<Result<(), DownloadError>>,
}

impl Watch {
    /// Has the newest version of `name` downloaded. If it `lasts`, also what only a user can change is waited for.
    ///
    /// # Cancel safety
    /// Safe: the download ends soon.
    pub(crate) async fn bring(
        &self,
        name: &FileName,
        options: DownloadOptions,
        lasts: bool,
    ) -> Result<(), DownloadError> {
        let (done, ended) = oneshot::channel();
        // What is not held counts as of an origin of its own.
        let unknown = || NodeId::from_bytes(*blake3::hash(name.as_str().as_bytes()).as_bytes());
        let origin = self.library.catalogue.get(name).map_or_else(unknown, |held| held.record.origin);
        self.requests.lock().push((name.clone(), origin, FetchRequest { options, lasts, done }));
        self.library.wake();
        match ended.await {
            Ok(result) => result,
            Err(_) => std::future::pending().await, // the peer has ended
        }
    }
}

/// Whether the newest version of `held` that is known and wanted is in its place. Blocking.
pub(crate) fn is_up_to_date(library: &Library, held: &Entry) -> bool {
    library.wanted(&held.record.name).is_none() && sets::is_in_place(library, held)
}
