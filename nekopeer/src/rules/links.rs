//! [`Links`]: which links in a folder are followed, and where they lead: on the folder's file system, and never to this
//! program's own data.

use std::{io, os::unix::fs::MetadataExt as _, path::PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::Filter;

/// Links to folders that are followed in one walk: links to each other lead through few folders in very many ways.
const FOLDERS_MAX: usize = 10_000;

/// Tells of each entry of a walk, in the order of the walk, whether a link led there.
pub(crate) struct Links<'a> {
    filter: &'a Filter,
    device: Option<u64>,
    /// The depth of the link that the walk is behind.
    depth: usize,
    folders: usize,
}

pub(crate) fn cause(error: walkdir::Error) -> io::Error {
    let text = error.to_string();
    error.into_io_error().unwrap_or_else(|| io::Error::other(text))
}

impl<'a> Links<'a> {
    /// A walk of the filter's folder, which follows links if the filter does. Blocking.
    pub(crate) fn walk(filter: &'a Filter) -> (WalkDir, Self) {
        let device = filter.root.metadata().ok().map(|root| root.dev());
        let walk = WalkDir::new(&filter.root).follow_links(filter.follows_links);
        (walk, Self { filter, device, depth: usize::MAX, folders: 0 })
    }

    /// Where `entry` is, if a link led there: an absolute path without links. Or why it is not followed. Blocking.
    pub(crate) fn target(&mut self, entry: &DirEntry) -> Result<Option<PathBuf>, &'static str> {
        if entry.depth() <= self.depth {
            self.depth = usize::MAX;
        }
        if !self.filter.follows_links || !(entry.path_is_symlink() || entry.depth() > self.depth) {
            return Ok(None);
        }
        self.depth = self.depth.min(entry.depth());
        self.folders += usize::from(entry.path_is_symlink() && entry.file_type().is_dir());
        let at = entry.path().canonicalize().map_err(|_| "a link that leads nowhere")?;
        match at.metadata() {
            _ if self.folders > FOLDERS_MAX => Err("a link behind 10000 others to folders"),
            _ if self.filter.root.starts_with(&at) => Err("a link to a folder that it is in"),
            _ if self.filter.is_own(&at) => Err("a link to this program's own data"),
            Ok(found) if Some(found.dev()) == self.device => Ok(Some(at)),
            _ => Err("a link to another file system"),
        }
    }

    /// What is wrong with a link that was not followed because of `error`; `None` if the error is about none. Blocking.
    pub(crate) fn broken(&self, error: &walkdir::Error) -> Option<&'static str> {
        let is_link = || error.path().is_some_and(std::path::Path::is_symlink);
        match error.loop_ancestor() {
            Some(_) => Some("a link to a folder that it is in"),
            None => (self.filter.follows_links && is_link()).then_some("a link that leads nowhere"),
        }
    }
}
