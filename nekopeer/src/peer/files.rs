//! The files of a running peer: published, downloaded, read and listed.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{Read, Write},
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{FileName, Record, VerifiedRecord};

use super::PeerHandle;
use crate::{
    content::stamp::Looker,
    download::{DownloadOptions, Downloaded, Downloads},
    failure::Failure,
    library::{Library, status::FileStatus, subscribers::Subscribed},
    listing::Listing,
    publish::{PublishError, PublishOptions, PublishOutcome},
    storage::catalogue::{PassedOver, Preference, PreferenceChange, Withdrawal},
    util::progress::Progress,
};

/// Who reads a file, and which earlier versions of it are here.
pub(crate) struct ReadBy {
    pub(crate) readers: Vec<Subscribed>,
    /// The newest first.
    pub(crate) kept: Vec<VerifiedRecord>,
    pub(crate) passed_over: Option<PassedOver>,
    pub(crate) preference: Preference,
}

impl PeerHandle {
    /// Publishes files and folders. A file's name is the one in the options, otherwise its path within the
    /// share folder, otherwise its file name; the files of a folder are named by their paths within it.
    /// Unchanged files keep their version.
    ///
    /// # Errors
    /// A path does not exist, or two files would get the same name. Files of a folder that fail are listed
    /// in the outcome; the others are published.
    pub async fn publish(
        &self,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Result<PublishOutcome, PublishError> {
        let (mut publishing, mut outcome) =
            (self.publisher.publishing(paths, options, progress), PublishOutcome::default());
        while let Some(piece) = publishing.next().await? {
            outcome.add(piece);
        }
        Ok(outcome)
    }

    /// Withdraws `name`. The file stays on disk.
    ///
    /// # Errors
    /// The name is not registered, or the catalogue failed.
    pub async fn deregister(&self, name: &FileName) -> Result<(), PublishError> {
        let outcomes = self.publisher.deregister(vec![name.clone()], Withdrawal::Named).await?;
        outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
    }

    /// Stores all bytes of `from` as the file `name` in the share folder, to be published; returns its path.
    /// An existing file is replaced if it is this peer's own published version, or with `force`.
    ///
    /// # Errors
    /// The existing file is unchanged.
    ///
    /// # Cancel safety
    /// Once started it runs until `from` ends.
    pub async fn store(
        &self,
        name: &FileName,
        from: impl Read + Send + 'static,
        force: bool,
        progress: &Arc<Progress>,
    ) -> Result<PathBuf, Failure> {
        self.publisher.store(name, None, from, force, progress).await
    }

    /// What is held here under each of `names`, in their order.
    pub async fn held(&self, names: Vec<FileName>) -> Vec<Option<FileStatus>> {
        let look = move |library: &Arc<Library>| {
            let mut looker = Looker::default();
            let entries = names.iter().map(|name| library.catalogue.get(name));
            entries.map(|entry| Some(library.status(Arc::unwrap_or_clone(entry?), &mut looker))).collect()
        };
        self.library.blocking(look).await
    }

    /// What else is known of the file of `name`, whose version here is `record`.
    pub(crate) async fn reading_of(&self, name: &FileName) -> Result<ReadBy, Failure> {
        let name = name.clone();
        let look = move |library: &Arc<Library>| {
            let (held, reader) = (library.catalogue.get(&name), library.catalogue.reader(&name)?);
            let is_earlier = |found: &Record| held.as_ref().is_some_and(|held| *held.record != *found);
            let kept = library.catalogue.versions(&name, true, is_earlier)?.into_iter();
            let mut kept: Vec<_> = kept.map(|found| found.entry.record).collect();
            kept.sort_unstable_by_key(|record| Reverse(record.version));
            Ok(ReadBy {
                readers: library.readers_of(&name),
                kept,
                passed_over: reader.passed_over,
                preference: reader.preference,
            })
        };
        self.library.blocking(look).await
    }

    pub(crate) async fn prefer(&self, names: Vec<FileName>, change: PreferenceChange) -> Result<(), Failure> {
        self.library.blocking(move |library| library.prefer(&names, change)).await
    }

    /// All files published and held here, without asking any other node. What cannot be read is left out, and logged.
    pub async fn files(&self) -> Vec<FileStatus> {
        self.listed(false).await
    }

    /// Asks the origins of all copies now whether they are still the newest. The result is in
    /// [`files`](Self::files).
    pub async fn check_copies(&self) {
        self.listed(true).await;
    }

    async fn listed(&self, ask_origins: bool) -> Vec<FileStatus> {
        let peers = ask_origins.then_some(&self.peers);
        let (mut listing, mut files) = (Listing::new(&self.library, peers, None, usize::MAX), Vec::new());
        loop {
            match listing.next().await {
                Ok(Some(more)) => files.extend(more.into_iter().flatten()),
                Ok(None) => return files,
                Err(error) => {
                    tracing::error!(%error, "not all files are listed");
                    return files;
                }
            }
        }
    }

    /// Downloads the newest version of `name`, verified, and keeps it as a copy.
    ///
    /// # Errors
    /// See [`Failure`]. The file in the destination is unchanged.
    ///
    /// # Cancel safety
    /// Safe: verified chunks are kept for the next attempt.
    pub async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        self.downloader.download(name, options, progress).await
    }

    /// Downloads many files and returns all outcomes, in the order of `names`. Small files are fetched in batches, which is
    /// many times faster than one by one. A duplicate name is downloaded once.
    ///
    /// # Cancel safety
    /// Safe: complete files stay, the others are as before.
    pub async fn download_all(
        &self,
        names: &[FileName],
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Vec<(FileName, Result<Downloaded, Failure>)> {
        let mut downloads = Downloads::new(&self.downloader, names, HashMap::new(), options, progress);
        let mut all = Vec::new();
        while let Some(outcomes) = downloads.next().await {
            all.extend(outcomes);
        }
        all
    }

    /// Writes the newest version of `name` to `out`, in order, each chunk once verified. No copy is kept.
    ///
    /// # Errors
    /// See [`Failure`]. What was written to `out` is the beginning of the file.
    ///
    /// # Cancel safety
    /// Safe. One more write to `out` may follow.
    pub async fn read(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        self.downloader.read(name, options, out, progress).await
    }
}
