//! [`Call`]: carries a command to the running peer, with device and inode of the folders that its paths are in, and of what its links
//! lead to. A peer that sees something else there, as a service with its own `/tmp` does, refuses the command.

use std::{borrow::Cow, collections::BTreeSet, io, path::Path};

use nekoproto::Remedy;
use serde::{Deserialize, Serialize};

use super::Facts;
use crate::{
    api::{Command, Failure, LocalPath},
    storage::file_id::FileId,
};

#[derive(Serialize, Deserialize)]
pub(super) struct Call<'a> {
    pub(super) command: Cow<'a, Command>,
    seen: Vec<SeenPath>,
}

#[derive(Serialize, Deserialize)]
struct SeenPath {
    path: LocalPath,
    id: FileId,
}

impl SeenPath {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned().into(), id: FileId::of_metadata(&path.metadata()?) })
    }
}

impl<'a> Call<'a> {
    pub(super) fn of(command: &'a Command) -> Self {
        let about = command.api().about();
        // A path names a folder, or something in it. What a caller cannot see is left to the peer.
        let compared = about.paths.iter().flat_map(|path| {
            let folder = path.ancestors().find(|path| path.is_dir());
            folder.into_iter().chain(Some(*path).filter(|path| path.is_symlink()))
        });
        let compared: BTreeSet<&Path> = compared.filter(|path| path.is_absolute()).collect();
        let seen = compared.into_iter().filter_map(|path| SeenPath::at(path).ok()).collect();
        Self { command: Cow::Borrowed(command), seen }
    }

    /// Why the peer that tells these facts, this process, is not to carry it out. Blocks.
    pub(super) fn fault(&self, facts: &Facts) -> Option<Failure> {
        self.seen.iter().find_map(|seen| {
            let path = seen.path.0.display();
            let why = match SeenPath::at(&seen.path.0) {
                Ok(here) if here.id == seen.id => return None,
                Ok(_) => format!("sees something else at {path}"),
                Err(error) => format!("cannot see {path}: {error}"),
            };
            let message = format!(
                "the running peer (process {}), which would carry this out, {why}: it may be another user's, or a service with a \
                 /tmp or a home of its own; name a path below {}, or let the bytes come from stdin or go to stdout",
                facts.process,
                facts.dir.0.display()
            );
            Some(Failure::new(message).remedied(Remedy::DataDir))
        })
    }
}
