//! Selects files by text and folder, sorts them, and returns one page of them with the totals of all.

use std::{cmp::Reverse, collections::BTreeMap, str::FromStr};

use nekoproto::{FileName, Freshness};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Library, status::FileStatus};
use crate::{content::stamp::Looker, failure::Failure, storage::catalogue::Entry};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Each of these words, in lower case, occurs in the name, whose case does not matter.
    pub(crate) words: Vec<String>,
    /// Files below this folder; the empty text is the whole catalogue. Without words those in deeper folders are counted
    /// by folder and not listed. `None`: all files, without folders.
    pub(crate) folder: Option<String>,
    pub(crate) sort: Sort,
    /// Files of the page, at most.
    pub(crate) first: usize,
    /// The last file of the page before.
    pub(crate) after: Option<FileName>,
}

/// The order of files. Files that are equal in it are sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) by: SortKey,
    pub(crate) is_descending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SortKey {
    #[default]
    Name,
    Size,
    /// By the clock of the origin.
    Published,
    /// Stale, then unverified, then fresh copies, then own files.
    Freshness,
}

#[derive(Debug, Default)]
pub(crate) struct Browsed {
    pub(crate) files: Vec<FileStatus>,
    /// The folders directly below the selected one, by name.
    pub(crate) folders: Vec<(String, Totals)>,
    /// Of all selected files, those in folders included.
    pub(crate) totals: Totals,
    pub(crate) damaged: Vec<Failure>,
    /// The last file, if another page follows.
    pub(crate) next: Option<FileName>,
}

/// Totals of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Totals {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Files of which a newer version is known.
    pub(crate) stale: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum ListedAt<'a> {
    Nowhere,
    /// In the page, or one before or after it.
    Itself,
    /// In the folder of this path.
    InFolder(&'a str),
}

/// `name`, `size`, `published` or `freshness`; with `-` before it in descending order.
impl FromStr for Sort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (is_descending, key) = text.strip_prefix('-').map_or((false, text), |key| (true, key));
        let by = match key {
            "name" => SortKey::Name,
            "size" => SortKey::Size,
            "shared" => SortKey::Published,
            "freshness" => SortKey::Freshness,
            _ => return Err("it is name, size, shared or freshness, or - and one of them"),
        };
        Ok(Self { by, is_descending })
    }
}

impl Selection {
    fn place<'a>(&self, name: &'a str) -> ListedAt<'a> {
        let below = match self.folder.as_deref() {
            None | Some("") => Some(name),
            Some(folder) => name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(below) = below else { return ListedAt::Nowhere };
        if !self.words.is_empty() {
            let name = name.to_lowercase();
            let has_all = self.words.iter().all(|word| name.contains(word.as_str()));
            return if has_all { ListedAt::Itself } else { ListedAt::Nowhere };
        }
        match below.find('/').filter(|_| self.folder.is_some()) {
            Some(end) => ListedAt::InFolder(&name[..name.len() - below.len() + end]),
            None => ListedAt::Itself,
        }
    }

    /// Sorts `files` and cuts the page out of them; whether another page follows. A page whose file before is gone begins
    /// where that file stood in the order of names, or else at the first file.
    fn page(&self, mut files: Vec<(u64, FileName)>) -> (Vec<FileName>, bool) {
        match self.sort {
            Sort { by: SortKey::Name, is_descending: false } => {} // as they were read
            Sort { by: SortKey::Name, is_descending: true } => files.reverse(),
            Sort { is_descending: false, .. } => files.sort(),
            Sort { is_descending: true, .. } => {
                files.sort_by(|a, b| (Reverse(a.0), &a.1).cmp(&(Reverse(b.0), &b.1)))
            }
        }
        let begin = match &self.after {
            None => 0,
            Some(after) => match files.iter().position(|(_, name)| name == after) {
                Some(place) => place + 1,
                None if self.sort == Sort::default() => {
                    files.partition_point(|(_, name)| name.as_str() < after.as_str())
                }
                None => 0,
            },
        };
        let is_more = files.len() - begin > self.first;
        (files.into_iter().skip(begin).take(self.first).map(|(_, name)| name).collect(), is_more)
    }
}

impl Totals {
    fn add(&mut self, size: u64, is_stale: bool) {
        self.files += 1;
        self.bytes += size;
        self.stale += u64::from(is_stale);
    }
}

impl Library {
    /// One page of the selected files. Reads all entries, and looks on disk at the files of the page only. Blocking.
    pub(crate) fn browse(&self, selection: &Selection) -> Result<Browsed, Failure> {
        let (mut browsed, mut folders) = (Browsed::default(), BTreeMap::<String, Totals>::new());
        let mut files = Vec::new();
        for page in self.catalogue.pages() {
            for entry in page? {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        browsed.damaged.push(error);
                        continue;
                    }
                };
                let (name, size, is_stale) = (&entry.record.name, entry.record.size, entry.newest.is_some());
                match selection.place(name.as_str()) {
                    ListedAt::Nowhere => continue,
                    ListedAt::Itself => files.push((self.key(selection.sort.by, &entry), name.clone())),
                    ListedAt::InFolder(folder) => match folders.get_mut(folder) {
                        Some(totals) => totals.add(size, is_stale),
                        None => folders.entry(folder.to_owned()).or_default().add(size, is_stale),
                    },
                }
                browsed.totals.add(size, is_stale);
            }
        }
        let (page, is_more) = selection.page(files);
        browsed.next = page.last().filter(|_| is_more).cloned();
        browsed.folders = folders.into_iter().collect();
        let mut looker = Looker::default();
        for name in page {
            match self.catalogue.entry(&name) {
                Ok(Some(entry)) => browsed.files.push(self.status((*entry).clone(), &mut looker)),
                Ok(None) => {} // withdrawn meanwhile
                Err(error) => browsed.damaged.push(error),
            }
        }
        Ok(browsed)
    }

    fn key(&self, by: SortKey, entry: &Entry) -> u64 {
        match by {
            SortKey::Name => 0,
            SortKey::Size => entry.record.size,
            SortKey::Published => entry.record.published_ms,
            SortKey::Freshness => match self.freshness_of(entry) {
                Freshness::Stale => 0,
                Freshness::Unverified => 1,
                Freshness::Fresh if !self.catalogue.is_own(entry) => 2,
                Freshness::Fresh => 3,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(words: &[&str], folder: Option<&str>) -> Selection {
        let words = words.iter().map(ToString::to_string).collect();
        Selection { words, folder: folder.map(ToOwned::to_owned), first: 2, ..Selection::default() }
    }

    #[test]
    fn words_and_the_folder_say_where_a_file_is_listed() {
        use ListedAt::{InFolder, Itself, Nowhere};
        let cases = [
            (selection(&[], None), "a/b/c.txt", Itself),
            (selection(&[], Some("")), "c.txt", Itself),
            (selection(&[], Some("")), "a/b/c.txt", InFolder("a")),
            (selection(&[], Some("a")), "a/b/c.txt", InFolder("a/b")),
            (selection(&[], Some("a/b")), "a/b/c.txt", Itself),
            (selection(&[], Some("a")), "ab/c.txt", Nowhere),
            (selection(&[], Some("a")), "a", Nowhere),
            (selection(&["c.t", "b"], Some("")), "a/B/C.txt", Itself),
            (selection(&["c", "x"], Some("")), "a/b/c.bin", Nowhere),
            (selection(&["c"], Some("x")), "a/b/c.txt", Nowhere),
        ];
        for (selection, name, expected) in cases {
            assert_eq!(selection.place(name), expected, "{name} in {selection:?}");
        }
    }

    #[test]
    fn pages_are_cut_in_each_order_and_have_each_file_once() {
        let files = || ["a", "b", "c", "d", "e"].map(|text| FileName::new(text).unwrap()).into_iter();
        let keyed = |by| {
            files().zip([3, 1, 3, 2, 1]).map(move |(name, key)| (if by == "name" { 0 } else { key }, name))
        };
        for (sort, order) in [("name", "abcde"), ("-name", "edcba"), ("size", "bedac"), ("-size", "acdbe")] {
            let mut selection = Selection { sort: sort.parse().unwrap(), first: 2, ..Selection::default() };
            let (mut found, mut pages) = (String::new(), 0);
            loop {
                let (page, is_more) = selection.page(keyed(sort.trim_start_matches('-')).collect());
                page.iter().for_each(|name| found.push_str(name.as_str()));
                pages += 1;
                if !is_more {
                    break;
                }
                selection.after = page.last().cloned();
            }
            assert_eq!((found.as_str(), pages), (order, 3), "{sort}");
        }
        let gone = Selection { after: FileName::new("bb").ok(), first: 9, ..Selection::default() };
        assert_eq!(gone.page(keyed("name").collect()).0.len(), 3, "those after the name that is gone");
        assert!("newest".parse::<Sort>().is_err());
    }
}
