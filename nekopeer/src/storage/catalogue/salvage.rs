//! Whether the catalogue is damaged, and what can still be read of one that is. It is kept aside, as it was found.

use std::{
    cell::RefCell,
    fs, io,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, NodeId, Version};
use redb::{AccessGuard, Database, ReadableTable, Value};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::{
    Entry, FILE,
    database::Tables,
    error::{damaged, database},
    guard::{guarded, guarded_part},
    restore::LOST,
    row::Definition,
    schema::{FILES, FLOORS, META, VERSIONS},
};
use crate::failure::{Failure, Reason};

/// Damaged catalogues that are kept aside.
const ASIDE_MAX: u32 = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Examined {
    Intact,
    /// There is none, or one that was begun because there was none.
    Missing,
    Damaged {
        why: String,
        /// Where it is now.
        aside: String,
    },
}

/// What a damaged catalogue still tells; every signature is verified.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    pub(crate) entries: Vec<Entry>,
    /// The last numbers of names published here.
    pub(crate) versions: Vec<(FileName, Version)>,
    /// See [`Catalogue::floors`](super::Catalogue::floors).
    pub(crate) floors: Vec<Entry>,
    /// Whether `versions` are the last numbers of all names.
    pub(crate) knows_numbers: bool,
}

/// Examines every page of the catalogue in `folder`, which is locked and in which no peer runs. Moves a damaged one
/// aside and reads what it can of it. Blocking.
pub(crate) fn examine(folder: &Path, node: NodeId) -> Result<(Examined, Salvaged), Failure> {
    let path = folder.join(FILE);
    let failed = |error: io::Error| database(&path, error);
    let found = fs::symlink_metadata(&path);
    if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok((Examined::Missing, salvage_earlier(&path, node)));
    }
    if !found.map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is no file: move it away and run this again")));
    }
    let mut salvaged = Salvaged::default();
    let read = read_all(&path, node, &mut salvaged);
    let why = match read.and_then(|is_lost| check_pages(&path).map(|()| is_lost)) {
        Ok(true) => return Ok((Examined::Missing, salvage_earlier(&path, node))),
        Ok(false) => return Ok((Examined::Intact, Salvaged::default())),
        Err(error) => damage(error)?,
    };
    let aside = names_aside(&path).find(|aside| fs::symlink_metadata(aside).is_err());
    let aside = aside.ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))?;
    fs::rename(&path, &aside).map_err(failed)?;
    Ok((Examined::Damaged { why, aside: aside.display().to_string() }, salvaged))
}

/// What is damaged, if this error says that something is.
fn damage(error: Failure) -> Result<String, Failure> {
    match error.reason {
        Reason::Damaged(what) => Ok(what),
        Reason::DamagedEntry => Ok(error.message),
        _ => Err(error),
    }
}

/// What can be read of the catalogue that was moved aside last, also by a repair that did not come to its end. Later
/// numbers may have been given since.
fn salvage_earlier(path: &Path, node: NodeId) -> Salvaged {
    let mut salvaged = Salvaged::default();
    if let Some(aside) = names_aside(path).take_while(|aside| aside.exists()).last() {
        let copy = copy_of(&aside).map_err(|error| database(&aside, error));
        if let Err(error) = copy.and_then(|copy| read_all(copy.path(), node, &mut salvaged)) {
            let what = damage(error).unwrap_or_else(|error| error.to_string());
            tracing::warn!(what, path = %aside.display(), "not all can be read of the damaged catalogue");
        }
    }
    Salvaged { knows_numbers: false, ..salvaged }
}

/// Reads what can be read; whether it was begun because there was none.
fn read_all(path: &Path, node: NodeId, salvaged: &mut Salvaged) -> Result<bool, Failure> {
    let tables = Tables::open(path, node)?;
    let verify = |entry: &Entry| entry.record.to_signed().verify().is_ok();
    let (entries, entries_read) =
        read_rows(&tables, FILES, |name, row| Some(tables.checked(name, row.value().filter(verify))));
    let (versions, versions_read) = read_rows(&tables, VERSIONS, |name, number| {
        Some((FileName::new(name).ok()?, Version::new(number.value())?))
    });
    let (floors, floors_read) = read_rows(&tables, FLOORS, |_, row| row.value().filter(verify));
    let mut damaged = None;
    salvaged.entries =
        entries.into_iter().filter_map(|row| row.map_err(|error| damaged = Some(error)).ok()).collect();
    salvaged.entries.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    salvaged.entries.dedup_by(|a, b| a.record.name == b.record.name);
    (salvaged.versions, salvaged.floors, salvaged.knows_numbers) = (versions, floors, versions_read.is_ok());
    entries_read.and(versions_read).and(floors_read)?;
    damaged.map_or(Ok(()), Err)?;
    Ok(tables.value(META, LOST, |_| ())?.is_some())
}

/// What `take` makes of the rows of a table from both ends up to the damage, some of them twice.
fn read_rows<K: redb::Key + 'static, V: Value + 'static, T>(
    tables: &Tables,
    table: Definition<K, V>,
    take: impl Fn(K::SelfType<'_>, AccessGuard<'_, V>) -> Option<T>,
) -> (Vec<T>, Result<(), Failure>) {
    let taken = RefCell::new(Vec::new());
    let read = |from_end| {
        tables.read(|committed| {
            let Some(table) = committed.table(table)? else { return Ok(()) };
            let mut rows = table.iter()?;
            while let Some(row) = if from_end { rows.next_back() } else { rows.next() } {
                let (key, value) = row?;
                taken.borrow_mut().extend(take(key.value(), value));
            }
            Ok(())
        })
    };
    let all = read(false).or_else(|error| read(true).and(Err(error)));
    (taken.into_inner(), all)
}

fn check_pages(path: &Path) -> Result<(), Failure> {
    let whole = guarded(|| {
        let copy = copy_of(path)?;
        let mut database = guarded_part(|| Database::open(copy.path()))?;
        Ok::<_, redb::Error>(database.check_integrity()?)
    });
    match whole.map_err(|error| database(path, error))? {
        true => Ok(()),
        false => Err(damaged(path, "its checksums do not match")),
    }
}

/// A copy beside it, which is removed when it is dropped: opening a damaged one may change it.
fn copy_of(path: &Path) -> io::Result<NamedTempFile> {
    let copy = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    io::copy(&mut fs::File::open(path)?, &mut copy.as_file())?;
    Ok(copy)
}

fn names_aside(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..ASIDE_MAX).map(|n| path.with_extension(format!("redb.damaged-{n}")))
}
