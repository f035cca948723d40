//! Unfinished downloads: their verified chunks are served to other nodes.

use std::{collections::HashMap, fs::File, sync::Arc, time::Instant};

use nekoproto::{ByteRange, ContentHash, Manifest, ManifestHash, VerifiedRecord};
use parking_lot::Mutex;
use scopeguard::guard;

use crate::content::{bitfield::SharedBitfield, outboard::Segments};

#[derive(Debug)]
pub(crate) struct PartialFile {
    pub(crate) record: VerifiedRecord,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) outboard: Option<Arc<Segments>>,
    pub(crate) encoded: Arc<[u8]>,
    pub(crate) file: Arc<File>,
    pub(crate) have: Arc<SharedBitfield>,
    /// When its record was found to be the newest.
    pub(crate) since: Instant,
}

impl PartialFile {
    pub(crate) fn has_all_of(&self, ranges: &[ByteRange]) -> bool {
        ranges.iter().all(|range| {
            let chunks = self.manifest.chunks_in(range.offset..range.offset.saturating_add(range.len));
            chunks.into_iter().all(|index| self.have.contains(index))
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct PartialFiles {
    files: Mutex<HashMap<ContentHash, Arc<PartialFile>>>,
}

impl PartialFiles {
    /// Until the guard is dropped.
    pub(crate) fn show(self: &Arc<Self>, file: PartialFile) -> impl Drop + use<> {
        let file = Arc::new(file);
        self.files.lock().insert(file.record.content, Arc::clone(&file));
        guard((Arc::clone(self), file), |(shown, file)| {
            let mut files = shown.files.lock();
            // Another download of the same bytes, to another place, may have replaced it.
            if files.get(&file.record.content).is_some_and(|shown| Arc::ptr_eq(shown, &file)) {
                files.remove(&file.record.content);
            }
        })
    }

    pub(crate) fn with_content(&self, content: &ContentHash) -> Option<Arc<PartialFile>> {
        self.files.lock().get(content).cloned()
    }

    pub(crate) fn with_manifest(&self, manifest: &ManifestHash) -> Option<Arc<PartialFile>> {
        self.files.lock().values().find(|file| file.record.manifest == *manifest).cloned()
    }
}
