//! Readers beside commits: the database in its debug build asserts that no page is freed while it is read.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{
    model_tests::{DataFolder, copy},
    *,
};

/// Commits beside the readers. A page that a reader kept beyond its transaction was met within some hundred.
const COMMITS: u64 = 700;
const NAMES: u64 = 8;

pub(super) fn beside_readers(read: impl Fn() + Sync, write: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    read();
                }
            });
        }
        let _done = scopeguard::guard((), |()| is_done.store(true, Ordering::Relaxed));
        write();
    });
}

/// What peers and indexers ask of a catalogue, once.
fn read(catalogue: &Catalogue, names: &[FileName]) {
    for name in names {
        if let Some(entry) = catalogue.entry(name).unwrap() {
            catalogue.with_content(&entry.record.content);
            catalogue.with_manifest(&entry.record.manifest);
            catalogue.manifest_of(&entry).unwrap();
            catalogue.is_pending(&entry.record);
        }
        catalogue.floors(name).unwrap();
    }
    catalogue.has_pending();
    catalogue.near_in_size(1100, 4);
    for entry in catalogue.page(&PageStart::default(), 100).unwrap().entries {
        entry.unwrap();
    }
}

#[test]
fn readers_beside_commits_keep_no_page_that_is_freed() {
    let (folder, catalogue) = DataFolder::begin();
    let names: Vec<FileName> = (0..NAMES).map(|n| FileName::new(&format!("f{n}")).unwrap()).collect();
    beside_readers(
        || read(&catalogue, &names),
        || {
            for commit in 1..=COMMITS {
                let name = &names[usize::try_from(commit % NAMES).unwrap()];
                if commit / NAMES % 3 == 2 {
                    catalogue.remove(name).unwrap();
                } else {
                    let content = u8::try_from(commit % 11).unwrap();
                    catalogue.put_copy(copy(&folder, name.as_str(), commit, content)).unwrap();
                }
            }
        },
    );
}
