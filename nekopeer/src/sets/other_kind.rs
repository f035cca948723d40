//! Removes the unchanged file where a set of the same name comes, or the set's folder where a file comes, once that is complete:
//! neither is renamed over the other in one step.

use std::path::Path;

use nekoproto::Record;

use super::{forget, is_as_it_came, remove_folder};
use crate::{
    library::{
        Library,
        status::{on_disk, remove_unchanged},
    },
    storage::catalogue::Entry,
};

/// Whether `held`, the copy of the version before, is of the other kind than `record`, of the same origin, unchanged, and in the
/// place of `record`, which is `output` or below the share folder. Blocking.
pub(crate) fn makes_way(library: &Library, held: &Entry, record: &Record, output: Option<&Path>) -> bool {
    let is_set = held.record.policy.is_set();
    if is_set == record.policy.is_set()
        || held.record.origin != record.origin
        || library.catalogue.is_own(held)
    {
        return false;
    }
    let is_unchanged = || match is_set {
        true => is_as_it_came(library, held).is_ok(),
        false => on_disk(held).is_none(),
    };
    library.shown_path(held) == library.path_for(&record.name, output) && is_unchanged()
}

/// Has `record`, which is complete, `put` in its place, where the copy before [makes way](makes_way). Blocking.
pub(crate) fn put_where_other_kind_was<T>(
    library: &Library,
    record: &Record,
    output: Option<&Path>,
    put: impl FnOnce() -> T,
) -> T {
    let held = library.catalogue.get(&record.name).filter(|held| makes_way(library, held, record, output));
    match &held {
        // What was changed just now stays.
        Some(set) if set.record.policy.is_set() => drop(remove_folder(library, set)),
        Some(file) => drop(remove_unchanged(file)),
        None => {}
    }
    let done = put();
    if held.is_some() {
        forget(library, std::slice::from_ref(&record.name));
    }
    done
}
