//! [`Rules`]: what in a folder is not published: hidden files, what `.nekoignore` files name, and what the user excludes.

pub(crate) mod links;
mod skipped;

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use nekoproto::name::RESERVED_PREFIX;
use serde::{Deserialize, Serialize};

pub use self::skipped::{RulesError, SkipCause, Skipped};
use crate::library::own_paths::OwnPaths;

/// The files that say, in the syntax of gitignore, what in their folder is not published. They are never published: their
/// name begins as those of this program do.
pub(crate) const IGNORE_FILE: &str = ".nekoignore";

/// What in a folder is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Hidden files and folders are published too.
    pub hidden: bool,
    /// What one of these globs matches is not published. Their syntax is that of gitignore.
    pub exclude: Vec<String>,
    /// What links in folders lead to is published too, if it is on the folder's file system.
    #[serde(default)]
    pub follow_links: bool,
}

/// The ignore files that were read so far, by folder. A new one sees what they say now.
pub(crate) type Ignores = HashMap<PathBuf, Arc<Gitignore>>;

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// An absolute path without links. It is published itself, whatever the rules say.
    pub(crate) root: PathBuf,
    /// It or a folder above it: from here on ignore files are read.
    top: PathBuf,
    /// What the peer keeps to itself, with all that is below it.
    own: Arc<OwnPaths>,
    pub(crate) follows_links: bool,
    /// `None`: all is published but what is this program's own.
    rules: Option<(Arc<Gitignore>, bool)>,
}

/// Whether files of this name belong to this program.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(RESERVED_PREFIX.as_bytes())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

pub(crate) fn is_ignore_file(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new(IGNORE_FILE))
}

/// Checks a glob that the user excludes; the error says what is wrong with it.
pub(crate) fn check_glob(glob: &str) -> Result<(), String> {
    if glob.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    GitignoreBuilder::new("").add_line(None, &line_of(glob)).map(drop).map_err(|error| error.to_string())
}

/// A glob as a line of an ignore file: a `#` in front begins no comment.
fn line_of(glob: &str) -> String {
    if glob.starts_with('#') { format!("\\{glob}") } else { glob.to_owned() }
}

impl Rules {
    fn excluded(&self, root: &Path) -> Result<Gitignore, RulesError> {
        let wrong = |glob: &str, why| RulesError::Glob { glob: glob.to_owned(), why };
        let mut builder = GitignoreBuilder::new(root);
        for glob in &self.exclude {
            check_glob(glob).map_err(|why| wrong(glob, why))?;
            builder.add_line(None, &line_of(glob)).map_err(|error| wrong(glob, error.to_string()))?;
        }
        builder.build().map_err(|error| wrong(&self.exclude.join(" "), error.to_string()))
    }
}

impl Filter {
    /// The rules for what is below `root`, where ignore files from `top` on count. Without rules all of it is published but
    /// what is this program's own.
    pub(crate) fn new(
        root: &Path,
        top: &Path,
        own: &Arc<OwnPaths>,
        rules: Option<&Rules>,
    ) -> Result<Self, RulesError> {
        let compiled = |rules: &Rules| Ok::<_, RulesError>((Arc::new(rules.excluded(root)?), rules.hidden));
        Ok(Self {
            root: root.to_owned(),
            top: top.to_owned(),
            own: Arc::clone(own),
            follows_links: rules.is_some_and(|rules| rules.follow_links),
            rules: rules.map(compiled).transpose()?,
        })
    }

    /// Whether what is at `path`, below the folder, is this program's own, or below something that is: it is never published.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        self.has_our_name(path) || self.own.has(path)
    }

    /// Why what is [own](Self::is_own) is not published, if its name does not say that.
    pub(crate) fn skips_own(&self, path: &Path) -> Option<SkipCause> {
        (!self.has_our_name(path)).then_some(SkipCause::Secret)
    }

    fn has_our_name(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        below.components().any(|part| is_ours(part.as_os_str()))
    }

    /// Whether the user excludes the folder or file that was named itself.
    pub(crate) fn excludes_root(&self, is_folder: bool) -> bool {
        let Some((exclude, _)) = &self.rules else { return false };
        self.root.file_name().is_some_and(|name| exclude.matched(Path::new(name), is_folder).is_ignore())
    }

    /// Why what is at `path`, below the folder, is not published, if it is not: because of itself, or of a folder above it.
    /// Blocking.
    pub(crate) fn skips(
        &self,
        path: &Path,
        is_folder: bool,
        ignores: &mut Ignores,
    ) -> Result<Option<SkipCause>, RulesError> {
        let is_below = |above: &&Path| *above != self.root && above.starts_with(&self.root);
        let above: Vec<&Path> = path.ancestors().skip(1).take_while(is_below).collect();
        for folder in above.into_iter().rev() {
            if let Some(cause) = self.skips_in_folder(folder, true, ignores)? {
                return Ok(Some(cause));
            }
        }
        self.skips_in_folder(path, is_folder, ignores)
    }

    /// The same, if the folders above are published. Blocking.
    pub(crate) fn skips_in_folder(
        &self,
        path: &Path,
        is_folder: bool,
        ignores: &mut Ignores,
    ) -> Result<Option<SkipCause>, RulesError> {
        let Some((exclude, hidden)) = &self.rules else { return Ok(None) };
        if path == self.root {
            return Ok(None);
        }
        match exclude.matched(path, is_folder) {
            Match::Ignore(_) => return Ok(Some(SkipCause::Excluded)),
            Match::Whitelist(_) => return Ok(None),
            Match::None => {}
        }
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.top)) {
            match ignore_file_of(folder, ignores)?.matched(path, is_folder) {
                Match::Ignore(_) => return Ok(Some(SkipCause::Ignored)),
                Match::Whitelist(_) => return Ok(None),
                Match::None => {}
            }
        }
        Ok((!hidden && is_hidden(path)).then_some(SkipCause::Hidden))
    }

    /// Reads the ignore files that are about what is in `folder`: while one cannot be read, nothing in it is to be published.
    /// Blocking.
    pub(crate) fn enter(&self, folder: &Path, ignores: &mut Ignores) -> Result<(), RulesError> {
        if self.rules.is_none() {
            return Ok(());
        }
        let mut above = folder.ancestors().take_while(|folder| folder.starts_with(&self.top));
        above.try_for_each(|folder| ignore_file_of(folder, ignores).map(drop))
    }
}

/// What the ignore file of `folder` says, if there is one. Blocking.
fn ignore_file_of(folder: &Path, ignores: &mut Ignores) -> Result<Arc<Gitignore>, RulesError> {
    if let Some(known) = ignores.get(folder) {
        return Ok(Arc::clone(known));
    }
    let path = folder.join(IGNORE_FILE);
    let wrong = |why: String| RulesError::IgnoreFile { path: path.clone(), why };
    let mut builder = GitignoreBuilder::new(folder);
    match path.metadata() {
        Ok(found) if found.is_file() => {
            if let Some(error) = builder.add(&path) {
                return Err(wrong(error.to_string()));
            }
        }
        Ok(_) => return Err(wrong("it is no file".to_owned())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        // A link to a file that cannot be read is one itself.
        Err(source) if path.symlink_metadata().is_err() => {
            return Err(RulesError::Unreadable { path: folder.to_owned(), source });
        }
        Err(error) => return Err(wrong(error.to_string())),
    }
    let said = Arc::new(builder.build().map_err(|error| wrong(error.to_string()))?);
    ignores.insert(folder.to_owned(), Arc::clone(&said));
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FilteredFolder(tempfile::TempDir);

    impl FilteredFolder {
        /// A hidden folder, as temporary ones are: what is above the path that was named does not count.
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn ignore(&self, folder: &str, text: &str) {
            std::fs::create_dir_all(self.path(folder)).unwrap();
            std::fs::write(self.path(folder).join(IGNORE_FILE), text).unwrap();
        }

        fn skips(&self, rules: &Rules, root: &str, name: &str) -> Option<SkipCause> {
            let (root, top) = (self.path(root), self.path(""));
            let filter = Filter::new(
                &root,
                &top,
                &Arc::new(OwnPaths::new(self.path("data"), Vec::new())),
                Some(rules),
            )
            .unwrap();
            filter
                .skips(&self.path(name.trim_end_matches('/')), name.ends_with('/'), &mut Ignores::new())
                .unwrap()
        }
    }

    #[test]
    fn hidden_files_are_published_only_if_that_was_asked_or_a_rule_takes_them_in() {
        let folder = FilteredFolder::new();
        folder.ignore("d", "!.config/\n");
        let (not, all) = (Rules::default(), Rules { hidden: true, ..Rules::default() });
        for (name, cause) in [
            ("d/a", None),
            ("d/.a", Some(SkipCause::Hidden)),
            ("d/.git/", Some(SkipCause::Hidden)),
            ("d/.git/x/y", Some(SkipCause::Hidden)),
            ("d/.config/a", None),
            ("d/.config/.a", Some(SkipCause::Hidden)),
        ] {
            assert_eq!(folder.skips(&not, "d", name), cause, "{name}");
            assert_eq!(folder.skips(&all, "d", name), None, "{name}");
        }
        assert_eq!(folder.skips(&not, "d/.a", "d/.a"), None, "it was named");
        assert_eq!(folder.skips(&not, ".named", ".named/a"), None);
        assert_eq!(folder.skips(&not, ".named", ".named/.a"), Some(SkipCause::Hidden));
    }

    #[test]
    fn ignore_files_have_the_syntax_and_order_of_gitignore_and_the_deepest_one_decides() {
        let folder = FilteredFolder::new();
        folder.ignore("", "# comment\n*.tmp\n/d/top\nbuild/\n");
        folder.ignore("d/deep", "!keep.tmp\n*.log\n");
        let rules = Rules::default();
        for (name, is_ignored) in [
            ("d/a.tmp", true),
            ("d/deep/a.tmp", true),
            ("d/deep/keep.tmp", false),
            ("d/keep.tmp", true),
            ("d/top", true),
            ("d/deep/top", false),
            ("d/build/", true),
            ("d/build", false),
            ("d/build/x", true),
            ("d/a.log", false),
            ("d/deep/below/a.log", true),
        ] {
            let cause = is_ignored.then_some(SkipCause::Ignored);
            assert_eq!(folder.skips(&rules, "d", name), cause, "{name}");
        }
    }

    #[test]
    fn what_the_user_excludes_is_stronger_than_ignore_files() {
        let folder = FilteredFolder::new();
        folder.ignore("d", "!a.tmp\nb.bin\n");
        let exclude = ["*.tmp", "/only-here", "#*", "!b.bin"].map(str::to_owned).to_vec();
        let rules = Rules { exclude, ..Rules::default() };
        for (name, cause) in [
            ("d/a.tmp", Some(SkipCause::Excluded)),
            ("d/x/a.tmp", Some(SkipCause::Excluded)),
            ("d/only-here", Some(SkipCause::Excluded)),
            ("d/x/only-here", None),
            ("d/#a#", Some(SkipCause::Excluded)),
            ("d/b.bin", None),
        ] {
            assert_eq!(folder.skips(&rules, "d", name), cause, "{name}");
        }
        for wrong in ["", " ", "a[z-a]", "{a"] {
            assert!(check_glob(wrong).is_err(), "{wrong:?}");
            let rules = Rules { exclude: vec![wrong.to_owned()], ..Rules::default() };
            assert!(matches!(rules.excluded(Path::new("/d")), Err(RulesError::Glob { .. })), "{wrong:?}");
        }
    }

    /// Nothing is published that might be meant to stay here.
    #[test]
    fn ignore_file_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
        let folder = FilteredFolder::new();
        folder.ignore("d", "good\n{a\n");
        std::fs::create_dir_all(folder.path("e").join(IGNORE_FILE)).unwrap();
        for name in ["d", "e"] {
            let filter =
                Filter::new(&folder.path(name), &folder.path(""), &Arc::default(), Some(&Rules::default()));
            let error =
                filter.unwrap().enter(&folder.path(name), &mut Ignores::new()).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}/{IGNORE_FILE}")), "{error}");
        }
        std::os::unix::fs::symlink("loop", folder.path("loop")).unwrap();
        let error = ignore_file_of(&folder.path("loop"), &mut Ignores::new()).unwrap_err().to_string();
        assert!(
            error.contains("make it readable") && !error.contains(IGNORE_FILE),
            "the folder is blamed: {error}"
        );
    }
}
