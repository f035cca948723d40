//! Moves a complete file to its place and catalogues it.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use nekoproto::VerifiedRecord;
use tokio_util::sync::CancellationToken;

use super::assembly::{AssembleError, Assembly};
use crate::{
    content::stamp::{Stamp, now_ns},
    download::error::DownloadError,
    storage::catalogue::{Catalogue, Copy, Entry, PassedOver, ToPlace},
};

/// What becomes of a complete file.
pub(crate) struct NewCopy {
    pub(crate) record: VerifiedRecord,
    pub(crate) origin_addr: Option<SocketAddr>,
    pub(crate) manifest: Vec<u8>,
    /// The stamp of the file that it may replace.
    pub(crate) replaceable: Option<Stamp>,
    /// Which versions do not take its place by themselves from then on.
    pub(crate) passed_over: Option<PassedOver>,
}

/// Verifies the complete file, moves it to its place and catalogues it. The version it replaces is kept before if the
/// reader wants that, and its file must still have the expected stamp. A damaged file is returned so that it can be repaired. `stop` ends it before the
/// move. Blocking.
pub(crate) fn put_in_place(
    catalogue: &Catalogue,
    assembly: Assembly,
    copy: NewCopy,
    stop: &CancellationToken,
) -> Result<Result<Entry, Box<Assembly>>, DownloadError> {
    let NewCopy { record, origin_addr, manifest, replaceable, passed_over } = copy;
    catalogue.may_put(&record, passed_over)?;
    let chunks = Arc::clone(assembly.manifest());
    let (partial, outboard) = match assembly.finish(&record, stop) {
        Ok(finished) => finished,
        Err(AssembleError::Damaged(assembly, _)) => return Ok(Err(assembly)),
        Err(AssembleError::WrongContent) => return Err(DownloadError::OriginLies(record.name.clone())),
        Err(AssembleError::Store(error)) => return Err(error.into()),
    };
    let (stamp, path) = (partial.complete(record.size)?, partial.target().to_owned());
    let entry = copy_entry(record.clone(), origin_addr, stamp, path);
    let mut copy = Copy { entry, manifest, outboard };
    if replaceable.is_some() {
        catalogue.keep_before(&record.name, &chunks)?;
    }
    let to_place = ToPlace { copy: &copy, partial: partial.path(), passed_over, stop };
    let placing = catalogue.place([to_place].into_iter())?;
    placing.check(&record.name)?;
    copy.entry.stamp = partial.commit_synced(replaceable)?;
    let entry = copy.entry.clone();
    catalogue.put_copy(copy)?;
    if let Err(error) = catalogue.trim_kept(&record.name) {
        tracing::warn!(%error, "earlier versions are kept longer than wanted"); // until the next one
    }
    Ok(Ok(entry))
}

pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    stamp: Stamp,
    path: PathBuf,
) -> Entry {
    Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr }
}
