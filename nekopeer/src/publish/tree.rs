//! [`Tree`]: a path that is published, and the names of what is at it and below it.

use std::path::{Path, PathBuf};

use nekoproto::{FileName, NameError};

use super::error::PublishError;
use crate::{
    failure::Failure,
    library::Library,
    rules::{Filter, Rules, is_ignore_file},
};

/// A file, or a folder with all that is below it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Its absolute path, without symbolic links.
    root: PathBuf,
    pub(super) base: Base,
    pub(crate) filter: Filter,
}

#[derive(Clone, Debug)]
pub(super) enum Base {
    File(FileName),
    /// What the names of the folder's files begin with.
    Folder(PathBuf),
}

/// `name`, if it may be a new one or was published here before.
pub(super) fn may_be_shared(library: &Library, name: FileName) -> Result<FileName, NameError> {
    let is_known = || library.catalogue.get(&name).is_some();
    match name.check_new() {
        Err(error) if !is_known() => Err(error),
        _ => Ok(name),
    }
}

impl Tree {
    /// What is at `path`, as a file under `name` if one is given; without rules, all that is below it. Blocking.
    pub(crate) fn of(
        library: &Library,
        path: &Path,
        name: Option<&FileName>,
        rules: Option<&Rules>,
    ) -> Result<Self, PublishError> {
        let unreadable = |source| PublishError::Unreadable { path: path.to_owned(), source };
        let is_folder = std::fs::metadata(path).map_err(unreadable)?.is_dir();
        let root = path.canonicalize().map_err(unreadable)?;
        if root.starts_with(&library.data_dir) {
            return Err(PublishError::OwnData(path.to_owned()));
        }
        let relative = root.strip_prefix(library.share.root()).ok().map(Path::to_owned);
        let top = if relative.is_some() { library.share.root() } else { &root };
        let filter = Filter::new(&root, top, &library.data_dir, rules)?;
        let base = match (name, is_folder) {
            (Some(_), true) => return Err(PublishError::NameForFolder(path.to_owned())),
            (None, true) => {
                let prefix = relative.or_else(|| root.file_name().map(PathBuf::from));
                Base::Folder(prefix.unwrap_or_default())
            }
            (name, false) => {
                let relative = relative.or_else(|| path.file_name().map(PathBuf::from)).unwrap_or_default();
                let name = name.map_or_else(|| FileName::from_path(&relative), |name| Ok(name.clone()));
                let name = name.and_then(|name| may_be_shared(library, name));
                Base::File(name.map_err(|source| PublishError::Name { path: path.to_owned(), source })?)
            }
        };
        Ok(Self { root, base, filter })
    }

    /// The folder at the only one of `paths`, what of it is published, and the name of the set that it becomes. Blocking.
    pub(crate) fn of_set(
        library: &Library,
        paths: &[PathBuf],
        name: Option<FileName>,
        rules: &Rules,
    ) -> Result<(FileName, PathBuf, Filter), PublishError> {
        let [path] = paths else {
            let help = "share each as a set of its own";
            let why = format!("a set is one folder, not {} paths: {help}", paths.len());
            return Err(PublishError::Set(Failure::invalid(why)));
        };
        let Self { root, base: Base::Folder(prefix), filter } = Self::of(library, path, None, Some(rules))?
        else {
            let why = "is no folder: a set is one, and a file is shared as it is";
            return Err(PublishError::Set(Failure::invalid(format!("{} {why}", path.display()))));
        };
        let name = name.map_or_else(|| FileName::from_path(&prefix), Ok);
        let name = name.and_then(|name| may_be_shared(library, name));
        let name = name.map_err(|source| PublishError::Name { path: path.clone(), source })?;
        Ok((name, root, filter))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that has to be there: itself, or that of the file.
    pub(crate) fn folder(&self) -> &Path {
        match self.base {
            Base::Folder(_) => &self.root,
            Base::File(_) => self.root.parent().unwrap_or(&self.root),
        }
    }

    /// Whether the user excludes the path itself.
    pub(crate) fn is_excluded(&self) -> bool {
        self.filter.excludes_root(matches!(self.base, Base::Folder(_)))
    }

    /// Whether an event at `path`, which is absolute, says something about the tree.
    pub(crate) fn concerns(&self, path: &Path) -> bool {
        let is_rule = || is_ignore_file(path) && path.parent().is_some_and(|folder| self.covers(folder));
        self.covers(path) || path == self.folder() || is_rule()
    }

    /// Whether `path`, which is absolute, is the path itself or below it, and is not this program's own. Rules do not count:
    /// it may have been published before.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        match (&self.base, path.strip_prefix(&self.root)) {
            (Base::File(_), _) => path == self.root,
            (Base::Folder(_), Ok(_)) => !self.filter.is_own(path),
            (Base::Folder(_), Err(_)) => false,
        }
    }

    /// The name of the file at `path`; `None` if that is not covered.
    pub(crate) fn name_of(&self, path: &Path) -> Option<Result<FileName, NameError>> {
        match &self.base {
            _ if !self.covers(path) => None,
            Base::File(name) => Some(Ok(name.clone())),
            Base::Folder(prefix) => {
                let below = path.strip_prefix(&self.root).ok()?;
                Some(FileName::from_path(&prefix.join(below)))
            }
        }
    }

    /// The same, of a file that is to be published.
    pub(crate) fn new_name_of(
        &self,
        library: &Library,
        path: &Path,
    ) -> Option<Result<FileName, PublishError>> {
        let name = self.name_of(path)?.and_then(|name| may_be_shared(library, name));
        Some(name.map_err(|source| PublishError::Name { path: path.to_owned(), source }))
    }
}
