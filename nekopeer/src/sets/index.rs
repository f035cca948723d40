//! [`Index`]: which files a set has. It stands at the end of the set's one file, behind their bytes.
//!
//! A set is the bytes of its files, in the order of their paths, then the encoded index, its length (8 bytes, little-endian),
//! then [`MAGIC`]. The record's hash covers all of it; so one signature speaks for the tree.

use std::{fs::File, io::Write, os::unix::fs::FileExt as _};

use nekoproto::{ContentHash, FileName, codec};
use serde::{Deserialize, Serialize};

use super::error::{SET_FILES_MAX, bad, long_index, no_index, not_read, not_written, too_many_files};
use crate::failure::Failure;

const MAGIC: &[u8; 8] = b"nekoset1";
const TAIL_BYTES: usize = size_of::<u64>() + MAGIC.len();
const INDEX_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) path: FileName,
    pub(crate) size: u64,
    pub(crate) is_executable: bool,
    pub(crate) content: ContentHash,
}

/// The files of a set, by path: each path once, and none that is a folder of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index(Vec<Member>);

impl Index {
    /// The index of these files, which need not be in order.
    pub(super) fn new(mut members: Vec<Member>) -> Result<Self, Failure> {
        members.sort_unstable_by(|a, b| a.path.as_path().cmp(b.path.as_path()));
        Self::checked(members)
    }

    fn checked(members: Vec<Member>) -> Result<Self, Failure> {
        if members.is_empty() {
            return Err(bad("there are no files in it, and a set has at least one"));
        }
        if members.len() > SET_FILES_MAX {
            return Err(too_many_files(members.len()));
        }
        // By components a folder stands right before what is in it.
        for pair in members.windows(2) {
            let (path, next) = (pair[0].path.as_path(), pair[1].path.as_path());
            if path >= next || next.starts_with(path) {
                let twice = "is in it twice, or in a folder that is a file of it";
                return Err(bad(format_args!("{} {twice}", pair[1].path)));
            }
        }
        Ok(Self(members))
    }

    /// Digits of its hash, which stand for all bytes of the set.
    pub(super) fn digits(&self) -> Result<String, Failure> {
        let mut hasher = blake3::Hasher::new();
        codec::encode_into(&mut hasher, &self.0, INDEX_BYTES_MAX).map_err(|_| long_index())?;
        Ok(hasher.finalize().to_hex()[..crate::storage::DIGITS].to_owned())
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.0
    }

    /// Writes what stands behind the bytes of the files.
    pub(super) fn write(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut encoded = Vec::new();
        codec::encode_into(&mut encoded, &self.0, INDEX_BYTES_MAX).map_err(|_| long_index())?;
        let len = (encoded.len() as u64).to_le_bytes();
        [&encoded[..], &len, MAGIC].iter().try_for_each(|part| out.write_all(part)).map_err(not_written)
    }

    /// The index of the set in `file`, which has `size` bytes. Blocking.
    pub(super) fn read(file: &File, size: u64) -> Result<Self, Failure> {
        let mut tail = [0; TAIL_BYTES];
        let end = size.checked_sub(TAIL_BYTES as u64).ok_or_else(no_index)?;
        file.read_exact_at(&mut tail, end).map_err(not_read)?;
        let (len, magic) = tail.split_at(size_of::<u64>());
        let len = len.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let start = end.checked_sub(len).filter(|_| magic == MAGIC && len <= INDEX_BYTES_MAX);
        let start = start.ok_or_else(no_index)?;
        let mut encoded = vec![0; usize::try_from(len).unwrap_or(0)]; // within its limit
        file.read_exact_at(&mut encoded, start).map_err(not_read)?;
        Self::decode(&encoded, start)
    }

    /// The index in `encoded`, of files that have `size` bytes together.
    fn decode(encoded: &[u8], size: u64) -> Result<Self, Failure> {
        let index = Self::checked(codec::decode(encoded).map_err(|_| no_index())?)?;
        let sum = index.0.iter().try_fold(0u64, |sum, member| sum.checked_add(member.size));
        match sum == Some(size) {
            true => Ok(index),
            false => Err(bad("its files have other sizes than its list says")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    fn member(path: &str, size: u64) -> Member {
        let (path, content) = (FileName::new(path).unwrap(), ContentHash::from_bytes([0; 32]));
        Member { path, size, is_executable: false, content }
    }

    fn file(bytes: &[u8]) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        (file, bytes.len() as u64)
    }

    #[test]
    fn what_is_written_is_read_and_every_cut_or_changed_length_is_refused() {
        let index = Index::new(vec![member("b/c", 2), member("a", 1)]).unwrap();
        let mut bytes = b"aCC".to_vec();
        index.write(&mut bytes).unwrap();
        let (whole, size) = file(&bytes);
        assert_eq!(Index::read(&whole, size).unwrap(), index);
        for cut in 0..bytes.len() {
            let (cut, size) = file(&bytes[..cut]);
            assert!(Index::read(&cut, size).is_err(), "{size}");
        }
        let (longer, size) = file(&[&b"x"[..], &bytes].concat());
        assert!(Index::read(&longer, size).unwrap_err().message.contains("have other sizes"));
    }

    #[test]
    fn paths_are_a_tree_also_when_decoded() {
        for paths in [&["a", "a"][..], &["a", "a-b", "a/b"], &["b/c/d", "b/c"]] {
            let members: Vec<Member> = paths.iter().map(|path| member(path, 0)).collect();
            assert!(Index::new(members.clone()).is_err(), "{paths:?}");
            let mut bytes = Vec::new();
            Index(members).write(&mut bytes).unwrap();
            let (file, size) = file(&bytes);
            assert!(Index::read(&file, size).unwrap_err().message.contains("is in it twice"), "{paths:?}");
        }
        assert!(Index::new(Vec::new()).unwrap_err().message.contains("there are no files"));
        assert!(Index::new(vec![member("a/b", 0), member("a-b", 0), member("a.c", 0)]).is_ok());
    }

    /// Whatever an origin says of its files, they are a tree below the folder, and as large as their bytes.
    #[test]
    fn set_indexes() {
        testkit::fuzz("set_indexes", |bytes: &[u8]| {
            let Some((size, encoded)) = bytes.split_first_chunk() else { return };
            let size = u64::from_le_bytes(*size);
            let Ok(index) = Index::decode(encoded, size) else { return };
            let members = index.members();
            assert_eq!(members.iter().map(|member| member.size).sum::<u64>(), size);
            let is_inside = |member: &Member| {
                member.path.as_path().components().all(|part| matches!(part, std::path::Component::Normal(_)))
            };
            assert!(members.iter().all(is_inside));
            let paths: std::collections::HashSet<_> =
                members.iter().map(|member| member.path.as_path()).collect();
            let is_folder = |member: &Member| {
                member.path.as_path().ancestors().skip(1).any(|above| paths.contains(above))
            };
            assert!(paths.len() == members.len() && !members.iter().any(is_folder));
        });
    }

    #[test]
    fn a_path_that_leaves_the_folder_does_not_decode() {
        let encoded = |path: &str| codec::encode(&vec![(path, 0u64, false, vec![0u8; 32])]).unwrap();
        assert!(Index::decode(&encoded("inside"), 0).is_ok());
        for path in ["../outside", "/outside", "a/../../outside", "", "a//b", "a\\b"] {
            assert_eq!(Index::decode(&encoded(path), 0), Err(no_index()), "{path}");
        }
    }
}
