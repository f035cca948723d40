//! [`Call`]: a command on its way to the peer that runs. With it go the folders that its paths are in, by device and inode as the
//! caller sees them: a peer with mounts of its own, as a service with its own `/tmp`, would read or write in others.

use std::{collections::BTreeSet, io, os::unix::fs::MetadataExt, path::Path};

use serde::{Deserialize, Serialize};

use super::Facts;
use crate::api::{Command, Failure, LocalPath};

#[derive(Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) command: Command,
    folders: Vec<SeenFolder>,
}

#[derive(Serialize, Deserialize)]
struct SeenFolder {
    path: LocalPath,
    device: u64,
    inode: u64,
}

impl SeenFolder {
    fn at(path: &Path) -> io::Result<Self> {
        let seen = path.metadata()?;
        Ok(Self { path: path.to_owned().into(), device: seen.dev(), inode: seen.ino() })
    }
}

impl Call {
    pub(super) fn of(command: &Command) -> Self {
        // A path names a folder, or something in it; what a caller cannot see is left to the peer.
        let folder_of = |path: &'_ Path| path.ancestors().find(|path| path.is_dir()).map(Path::to_owned);
        let paths = command.api().about().paths.into_iter().filter(|path| path.is_absolute());
        let folders: BTreeSet<_> = paths.filter_map(folder_of).collect();
        let folders = folders.iter().filter_map(|folder| SeenFolder::at(folder).ok()).collect();
        Self { command: command.clone(), folders }
    }

    /// Why the peer that tells these facts, this process, is not to carry it out. Blocks.
    pub(super) fn fault(&self, facts: &Facts) -> Option<Failure> {
        self.folders.iter().find_map(|seen| {
            let path = seen.path.0.display();
            let why = match SeenFolder::at(&seen.path.0) {
                Ok(here) if (here.device, here.inode) == (seen.device, seen.inode) => return None,
                Ok(_) => format!("sees another folder at {path}"),
                Err(error) => format!("cannot see {path}: {error}"),
            };
            Some(Failure::new(format!(
                "the running peer (process {}), which would carry this out, {why}; it may be another user's, or a service with \
                 a /tmp or a home of its own: {}",
                facts.process,
                facts.other_ways()
            )))
        })
    }
}
