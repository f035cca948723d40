//! Whether the catalogue is damaged, and what can still be read of one that is. It is kept aside, as it was found.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, NodeId, Version};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use tempfile::NamedTempFile;

use super::{
    CatalogueError, Entry, FILE,
    database::Tables,
    entry::from_row,
    guard::{Guarded, guarded},
    schema::{Definition, FILES, FLOORS, VERSIONS},
    tables::PageStart,
};

/// Entries that are read at once.
const PAGE: usize = 1024;
/// Damaged catalogues that are kept aside.
const ASIDE_MAX: u32 = 1000;

/// What was found in a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Examined {
    Intact,
    /// There is none, or one that was begun because there was none.
    Missing,
    Damaged {
        why: String,
        /// Where it is now.
        aside: PathBuf,
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
    /// Whether nothing that was published or held is missing in `entries`.
    pub(crate) is_whole: bool,
    /// Whether `versions` are the last numbers of all names.
    pub(crate) knows_numbers: bool,
}

/// Examines every page of the catalogue in `folder`, which is locked and in which no peer runs. Moves a damaged one
/// aside and reads what it can of it. Blocking.
pub(crate) fn examine(folder: &Path, node: NodeId) -> Result<(Examined, Salvaged), CatalogueError> {
    let path = folder.join(FILE);
    let failed = |error: io::Error| CatalogueError::database(&path, error);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Examined::Missing, salvage_earlier(&path)));
        }
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() => {
            return Err(failed(io::Error::other("it is no file: move it away and run this again")));
        }
        Ok(_) => {}
    }
    let why = match checked(&path, node) {
        Ok(true) => return Ok((Examined::Missing, salvage_earlier(&path))),
        Ok(false) => return Ok((Examined::Intact, Salvaged::default())),
        Err(CatalogueError::Damaged { what, .. }) => what,
        Err(error @ CatalogueError::DamagedEntry { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    let aside = move_aside(&path).map_err(failed)?;
    Ok((Examined::Damaged { why, aside }, salvage_last(&path)))
}

/// The same where the catalogue was lost since: later numbers may have been given.
fn salvage_earlier(path: &Path) -> Salvaged {
    Salvaged { knows_numbers: false, ..salvage_last(path) }
}

/// What can be read of the catalogue that was moved aside last, also by a repair that did not come to its end.
fn salvage_last(path: &Path) -> Salvaged {
    let Some(aside) = names_aside(path).take_while(|aside| aside.exists()).last() else {
        return Salvaged::default();
    };
    if fs::metadata(&aside).is_ok_and(|found| found.len() == 0) {
        return Salvaged::default();
    }
    salvage(&aside).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %aside.display(), "nothing can be read of the damaged catalogue");
        Salvaged::default()
    })
}

/// Reads all of it; whether it was begun because there was none.
fn checked(path: &Path, node: NodeId) -> Result<bool, CatalogueError> {
    let is_lost = {
        let tables = Tables::open(path, node)?;
        let mut start = PageStart::default();
        loop {
            let page = tables.page(&start, PAGE)?;
            page.entries.into_iter().try_for_each(|entry| entry.map(drop))?;
            match page.next {
                Some(next) => start = next,
                None => break tables.is_lost()?,
            }
        }
    };
    let whole = guarded(|| {
        let copy = copy_of(path)?;
        let mut database = Database::open(copy.path())?;
        Ok::<_, redb::Error>(database.check_integrity()?)
    });
    match whole.map_err(|error| CatalogueError::database(path, error))? {
        true => Ok(is_lost),
        false => Err(CatalogueError::damaged(path, "its checksums do not match")),
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

fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = names_aside(path).find(|aside| fs::symlink_metadata(aside).is_err());
    let aside = aside.ok_or(io::ErrorKind::AlreadyExists)?;
    fs::rename(path, &aside)?;
    Ok(aside)
}

fn salvage(aside: &Path) -> Result<Salvaged, redb::Error> {
    let copy = copy_of(aside)?;
    let database = Guarded::new(guarded(|| Database::open(copy.path()))?);
    let transaction = Guarded::new(guarded(|| database.begin_read())?);
    let verified = |name: &str, row: &[u8]| {
        from_row(name, row).filter(|entry| entry.record.to_signed().verify().is_ok())
    };
    let (mut entries, is_whole) = rows(&transaction, FILES, verified);
    let (versions, knows_numbers) =
        rows(&transaction, VERSIONS, |name, number| Some((FileName::new(name).ok()?, Version::new(number)?)));
    let (floors, _) = rows(&transaction, FLOORS, |(name, _), row| verified(name, row));
    entries.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    entries.dedup_by(|a, b| a.record.name == b.record.name);
    Ok(Salvaged { entries, versions, floors, is_whole, knows_numbers })
}

/// What `take` makes of the rows of a table from both ends up to the damage, some of them twice; and whether all were
/// read and taken.
fn rows<K: redb::Key + 'static, V: redb::Value + 'static, T>(
    transaction: &ReadTransaction,
    table: Definition<K, V>,
    take: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> Option<T>,
) -> (Vec<T>, bool) {
    let (mut taken, mut is_whole) = (Vec::new(), true);
    for from_end in [false, true] {
        let read = guarded(|| {
            let table = transaction.open_table(table)?;
            let mut rows = table.iter()?;
            while let Some(row) = if from_end { rows.next_back() } else { rows.next() } {
                let (key, value) = row?;
                let row = take(key.value(), value.value());
                is_whole &= row.is_some();
                taken.extend(row);
            }
            Ok::<_, redb::Error>(())
        });
        if read.is_ok() {
            return (taken, is_whole && !from_end);
        }
    }
    (taken, false)
}
