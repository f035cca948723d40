//! Moves a complete partial file to its place, with the mode that files in its place have.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    sync::Arc,
};

use rustix::fs::{AtFlags, Stat, statat};

use super::{OWNER_WRITES, Partial, is_at};
use crate::{
    content::stamp::Stamp,
    failure::Failure,
    storage::{
        error::{changed_meanwhile, error_at},
        no_follow::{self, Moved},
    },
};

/// Bits of a mode that a user sets: who may read, write and run the file. Bytes from elsewhere get no other rights by it.
const MODE: u32 = 0o777;
const READS: u32 = 0o444;
const RUNS: u32 = 0o111;

impl Partial {
    /// Gives it the mode that it has in its place, which is returned: that of the file that it is to replace, which its user
    /// set, otherwise its own, with the `change` of its origin: whoever may read an executable file may run it. Its writer
    /// can still write to it: it may stay here.
    fn set_mode(&self, replaced: Option<&Stat>, change: Option<bool>) -> io::Result<u32> {
        let set = |mode| self.file.set_permissions(Permissions::from_mode(mode | OWNER_WRITES));
        let own = self.file.metadata()?.mode() & MODE;
        let kept = replaced.map_or(own, |replaced| replaced.st_mode & MODE);
        if kept | OWNER_WRITES != own {
            set(kept)?;
        }
        let changed = match change {
            Some(true) => kept | (kept & READS) >> 2,
            Some(false) => kept & !RUNS,
            None => kept,
        };
        // The file system may have no such bits.
        Ok(if changed != kept && set(changed).is_ok() { changed } else { kept })
    }

    /// Moves it to its place, as [`move_in`](Self::move_in) does; if its path leads to its folder before and after.
    pub(crate) fn rename(self, replaceable: Option<Stamp>, change: Option<bool>) -> Result<Stamp, Failure> {
        let (folder, path) = (Arc::clone(&self.place.folder), self.place.path.clone());
        folder.check(&path)?;
        let stamp = self.move_in(replaceable, change)?;
        folder.check(&path)?;
        Ok(stamp)
    }

    /// Moves it, which is [complete](Self::complete), to its place atomically. The place must be empty or hold the file with
    /// the stamp `replaceable`. It becomes executable or not where that is a `change`. It is durable there once the folder
    /// is synced.
    pub(crate) fn move_in(self, replaceable: Option<Stamp>, change: Option<bool>) -> Result<Stamp, Failure> {
        let (place, failed) = (&self.place, error_at(&self.place.path));
        if !is_at(&self.path, &self.file) {
            let what = "was removed, replaced or changed by another program meanwhile: run this again";
            return Err(Failure::conflict(format!("{} {what}", self.path.display())).passing());
        }
        if replaceable.is_some() && place.stamp()? != replaceable {
            return Err(changed_meanwhile(&place.path));
        }
        let folder = &place.folder.handle;
        let replaced =
            replaceable.and_then(|_| statat(folder, &place.file_name, AtFlags::SYMLINK_NOFOLLOW).ok());
        if let Some(replaced) = &replaced {
            drop(fchown(&*self.file, None, Some(replaced.st_gid))); // or it has its own group
        }
        let mode = self.set_mode(replaced.as_ref(), change).map_err(&failed)?;
        match no_follow::rename(&self.path, folder, &place.file_name, replaceable) {
            Ok(Moved::ToItsPlace) => {
                self.is_gone();
                if mode & OWNER_WRITES != OWNER_WRITES {
                    self.file.set_permissions(Permissions::from_mode(mode)).map_err(&failed)?;
                }
                self.stamp()
            }
            Ok(Moved::Occupied) => {
                place.stamp()?; // what is no file is named
                Err(changed_meanwhile(&place.path))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Makes many durable at once: syncs each file system that they are on.
    pub(crate) fn sync_all<'a>(partials: impl Iterator<Item = (&'a Self, Stamp)>) -> Result<(), Failure> {
        let mut devices = Vec::new();
        for (partial, stamp) in partials {
            let device = stamp.device;
            if !devices.contains(&device) {
                devices.push(device);
                let synced = rustix::fs::syncfs(&*partial.file).map_err(io::Error::from);
                synced.map_err(error_at(&partial.place.path))?;
            }
        }
        Ok(())
    }
}
