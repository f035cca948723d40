//! [`PublishedTree`]: a path that is published, and the names of what is at it and below it.

use std::path::{Component, Path, PathBuf};

use nekoproto::{FileName, NameError};

use super::error::{PublishError, bad_name};
use crate::{
    failure::{Failure, Reason},
    library::Library,
    rules::{Filter, Rules, is_ignore_file},
};

/// A file, or a folder with all that is below it.
#[derive(Clone, Debug)]
pub(crate) struct PublishedTree {
    pub(super) base: Base,
    pub(crate) filter: Filter,
}

#[derive(Clone, Debug)]
pub(super) enum Base {
    File(FileName),
    /// What the names of the folder's files begin with.
    Folder(PathBuf),
}

/// What `path`, which leads to `root`, is called: the part below the folder `share`, if it is there, and the last part. A link in
/// it is no other name: what it leads to may change.
fn typed(share: &Path, path: &Path, root: &Path) -> (Option<PathBuf>, PathBuf) {
    let has_no_parent = |path: &PathBuf| !path.components().any(|part| part == Component::ParentDir);
    let path = std::path::absolute(path).ok().filter(has_no_parent).unwrap_or_else(|| root.to_owned());
    let path: PathBuf = path.components().collect(); // without a slash at its end
    let is_share = |above: &&Path| above.canonicalize().is_ok_and(|above| above == share);
    let below = path.ancestors().find(is_share).and_then(|above| path.strip_prefix(above).ok());
    let below = below.or_else(|| root.strip_prefix(share).ok().filter(|_| !path.is_symlink()));
    (below.map(Path::to_owned), path.file_name().map(PathBuf::from).unwrap_or_default())
}

impl PublishedTree {
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
        if library.own.has(&root) {
            let kept = "its data folder, network secret and list of allowed nodes are never shared";
            let why = format!("{} is kept secret by this peer: {kept}", path.display());
            return Err(Failure::invalid(why).because(Reason::Unfit).into());
        }
        let (relative, last) = typed(library.share.root(), path, &root);
        let top = if root.starts_with(library.share.root()) { library.share.root() } else { &root };
        let filter = Filter::new(&root, top, &library.own, rules)?;
        let base = match (name, is_folder) {
            (Some(_), true) => {
                let what = "is a folder: its files are named by their paths, a name cannot be given";
                let why = format!("{} {what}", path.display());
                return Err(Failure::conflict(why).because(Reason::Unfit).into());
            }
            (None, true) => Base::Folder(relative.unwrap_or(last)),
            (name, false) => {
                let relative = relative.unwrap_or(last);
                let name = name.map_or_else(|| FileName::from_path(&relative), |name| Ok(name.clone()));
                Base::File(name.map_err(|error| bad_name(path, &error))?)
            }
        };
        Ok(Self { base, filter })
    }

    /// Where the file `name` of the tree is, or would be.
    pub(crate) fn path_of(&self, name: &FileName) -> Option<PathBuf> {
        match &self.base {
            Base::File(own) => (own == name).then(|| self.root().to_owned()),
            Base::Folder(prefix) => {
                name.as_path().strip_prefix(prefix).ok().map(|below| self.root().join(below))
            }
        }
    }

    /// What is published of the folder at the only one of `paths`, and the name of the set that it becomes. Blocking.
    pub(crate) fn of_set(
        library: &Library,
        paths: &[PathBuf],
        name: Option<FileName>,
        rules: &Rules,
    ) -> Result<(FileName, Filter), PublishError> {
        let [path] = paths else {
            let help = "share each as a set of its own";
            let why = format!("a set is one folder, not {} paths: {help}", paths.len());
            return Err(Failure::invalid(why).into());
        };
        let Self { base: Base::Folder(prefix), filter } = Self::of(library, path, None, Some(rules))? else {
            let why = "is no folder: a set is one, and a file is shared as it is";
            return Err(Failure::invalid(format!("{} {why}", path.display())).into());
        };
        let name = name.map_or_else(|| FileName::from_path(&prefix), Ok);
        let name = name.map_err(|error| bad_name(path, &error))?;
        Ok((name, filter))
    }

    /// What a set of its folder is called.
    pub(crate) fn folder_name(&self) -> Option<FileName> {
        match &self.base {
            Base::Folder(prefix) => FileName::from_path(prefix).ok(),
            Base::File(_) => None,
        }
    }

    /// Its absolute path, without symbolic links.
    pub(crate) fn root(&self) -> &Path {
        &self.filter.root
    }

    /// The folder that has to be there: itself, or that of the file.
    pub(crate) fn folder(&self) -> &Path {
        match self.base {
            Base::Folder(_) => self.root(),
            Base::File(_) => self.root().parent().unwrap_or(self.root()),
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
        match (&self.base, path.strip_prefix(self.root())) {
            (Base::File(_), _) => path == self.root(),
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
                let below = path.strip_prefix(self.root()).ok()?;
                Some(FileName::from_path(&prefix.join(below)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn name_that_was_typed_is_the_name_whatever_a_link_in_it_leads_to() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = |name: &str| top.join(name);
        std::fs::create_dir_all(path("share/r1")).unwrap();
        std::fs::create_dir_all(path("out")).unwrap();
        std::fs::write(path("share/r1/f"), "").unwrap();
        std::fs::write(path("out/f"), "").unwrap();
        for (link, to) in [
            ("share/cur", "r1"),
            ("share/latest", "r1/f"),
            ("share/far", "../out/f"),
            ("way", "share"),
            ("near", "share/r1/f"),
        ] {
            symlink(to, path(link)).unwrap();
        }
        for (of, below, last) in [
            ("share/r1/f", Some("r1/f"), "f"),
            ("share/latest", Some("latest"), "latest"),
            ("share/cur/", Some("cur"), "cur"),
            ("share/cur/f", Some("cur/f"), "f"),
            ("share/far", Some("far"), "far"),
            ("way/latest", Some("latest"), "latest"),
            ("share/cur/../r1/f", Some("r1/f"), "f"),
            ("share", Some(""), "share"),
            ("out/f", None, "f"),
            ("near", None, "near"),
        ] {
            let root = path(of).canonicalize().unwrap();
            let expected = (below.map(PathBuf::from), PathBuf::from(last));
            assert_eq!(typed(&path("share"), &path(of), &root), expected, "{of}");
        }
    }
}
