//! The index in memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use nekoproto::{ContentHash, FileName, ManifestHash};

use super::entry::Entry;

/// The index in memory of what the tables contain.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) entries: HashMap<FileName, Arc<Entry>>,
    by_content: HashMap<ContentHash, HashSet<FileName>>,
    by_manifest: HashMap<ManifestHash, HashSet<FileName>>,
}

impl Memory {
    pub(super) fn put(&mut self, entry: Arc<Entry>) {
        let record = entry.record.clone();
        self.take(&record.name);
        self.by_content.entry(record.content).or_default().insert(record.name.clone());
        self.by_manifest.entry(record.manifest).or_default().insert(record.name.clone());
        self.entries.insert(record.name.clone(), entry);
    }

    pub(super) fn take(&mut self, name: &FileName) {
        let Some(entry) = self.entries.remove(name) else { return };
        remove_from(&mut self.by_content, &entry.record.content, name);
        remove_from(&mut self.by_manifest, &entry.record.manifest, name);
    }

    /// Entries whose file has this content.
    pub(super) fn with_content(&self, content: &ContentHash) -> Vec<Arc<Entry>> {
        self.named(self.by_content.get(content))
    }

    /// Entries whose manifest has this hash.
    pub(super) fn with_manifest(&self, manifest: &ManifestHash) -> Vec<Arc<Entry>> {
        self.named(self.by_manifest.get(manifest))
    }

    fn named(&self, names: Option<&HashSet<FileName>>) -> Vec<Arc<Entry>> {
        names.into_iter().flatten().filter_map(|name| self.entries.get(name).cloned()).collect()
    }
}

fn remove_from<K: std::hash::Hash + Eq>(map: &mut HashMap<K, HashSet<FileName>>, key: &K, name: &FileName) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}
