//! Putting a complete file in its place, and into the catalogue.

use std::{net::SocketAddr, path::PathBuf};

use nekoproto::VerifiedRecord;

use super::assembly::{AssembleError, Assembly};
use crate::{
    content::stamp::{Stamp, now_ns},
    download::error::DownloadError,
    storage::catalogue::{Catalogue, Copy, Entry},
};

/// Checks the complete file, puts it in its place and enters it into the catalogue. What stood
/// there must still have the stamp `replaceable`. A file that is damaged comes back, to be mended. Blocking.
pub(crate) fn put_in_place(
    catalogue: &Catalogue,
    assembly: Assembly,
    record: &VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    manifest: Vec<u8>,
    replaceable: Option<Stamp>,
) -> Result<Result<Entry, Box<Assembly>>, DownloadError> {
    catalogue.may_hold(record)?;
    let (stamp, path, outboard) = match assembly.finish(record, replaceable) {
        Ok(finished) => finished,
        Err(AssembleError::Damaged(assembly, _)) => return Ok(Err(assembly)),
        Err(AssembleError::WrongContent) => return Err(DownloadError::OriginLies(record.name.clone())),
        Err(AssembleError::Store(error)) => return Err(error.into()),
    };
    let entry = copy_entry(record.clone(), origin_addr, stamp, path);
    catalogue.put_copy(Copy { entry: entry.clone(), manifest, outboard })?;
    Ok(Ok(entry))
}

/// The entry of a fresh copy.
pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    stamp: Stamp,
    path: PathBuf,
) -> Entry {
    Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr }
}
