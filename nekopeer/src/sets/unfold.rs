//! From the one file of a set to a folder that nobody uses yet.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write as _,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
    path::Path,
};

use nekoproto::ContentHash;
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::{
    error::{bad, not_read, stopped},
    index::{Index, Member},
};
use crate::{
    content::stamp::{Looker, Stamp},
    failure::Failure,
    storage::{
        catalogue::{Tree, TreeFile},
        error_at,
    },
};

const READ_BYTES: usize = 1024 * 1024;

/// Makes `folder` of the set in `pack`. A file that `before` has, in its own folder, gets a second name there instead of a
/// second place on the disk. What is made is durable. Returns the files. Blocking.
pub(super) fn unfold(
    pack: &File,
    index: &Index,
    folder: &Path,
    before: Option<(&Path, &Tree)>,
    stop: &CancellationToken,
) -> Result<Vec<TreeFile>, Failure> {
    fs::create_dir(folder).map_err(error_at(folder))?;
    let (mut at, mut made, mut buffer) = (0, None, vec![0; READ_BYTES]);
    for member in index.members() {
        let path = folder.join(member.path.as_path());
        let parent = path.parent().unwrap_or(folder);
        if made.as_deref() != Some(parent) {
            fs::create_dir_all(parent).map_err(error_at(parent))?;
            made = Some(parent.to_owned());
        }
        if !before.is_some_and(|(before, tree)| link(before, tree, member, &path)) {
            write(pack, at, member, &path, &mut buffer, stop)?;
            if let Some((before, tree)) = before
                && let Some(file) = tree.file(&member.path)
            {
                let change = (file.is_executable != member.is_executable).then_some(member.is_executable);
                take_over(&before.join(member.path.as_path()), &path, change);
            }
        }
        at += member.size;
    }
    if let Some((before, _)) = before {
        let made = WalkDir::new(folder).into_iter().flatten().filter(|made| made.file_type().is_dir());
        for made in made {
            take_over(&before.join(made.path().strip_prefix(folder).unwrap_or(folder)), made.path(), None);
        }
    }
    let synced = File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
    synced.map_err(error_at(folder))?;
    let mut looker = Looker::default();
    let stamped = index.members().iter().map(|member| {
        let Member { path, content, is_executable, .. } = member.clone();
        let at = folder.join(path.as_path());
        let stamp = looker.stamp(&at).map_err(error_at(&at))?;
        Ok(TreeFile { path, is_executable, content, stamp })
    });
    stamped.collect()
}

/// Gives the file of the version before the name `path` too, if it is that of `member`.
fn link(folder: &Path, tree: &Tree, member: &Member, path: &Path) -> bool {
    let Some(file) = tree.file(&member.path) else { return false };
    if (file.content, file.is_executable) != (member.content, member.is_executable) {
        return false;
    }
    let there = folder.join(member.path.as_path());
    let linked = fs::hard_link(there, path).is_ok();
    let now = path.symlink_metadata().map(|metadata| Stamp::of(&metadata));
    let is_it = linked && now.is_ok_and(|now| file.stamp.is_moved_to(&now));
    if linked && !is_it {
        drop(fs::remove_file(path)); // somebody changed it: it is written anew
    }
    is_it
}

/// Gives `new` the mode and the group of `old`, whose place it takes, as far as this user may; executable or not where its origin
/// has a `change`.
fn take_over(old: &Path, new: &Path, change: Option<bool>) {
    let Ok(of) = old.symlink_metadata() else { return };
    drop(chown(new, None, Some(of.gid())));
    let mode = of.mode() & 0o777;
    let mode = match change {
        Some(true) => mode | (mode & 0o444) >> 2,
        Some(false) => mode & !0o111,
        None if of.is_dir() => of.mode() & 0o7777 | 0o700, // setgid and sticky too
        None => mode,
    };
    drop(fs::set_permissions(new, Permissions::from_mode(mode)));
}

fn write(
    pack: &File,
    mut at: u64,
    member: &Member,
    path: &Path,
    buffer: &mut [u8],
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let failed = error_at(path);
    let mode = if member.is_executable { 0o777 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(&failed)?;
    let (mut hasher, end) = (blake3::Hasher::new(), at + member.size);
    while at < end {
        if stop.is_cancelled() {
            return Err(stopped());
        }
        let most = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        pack.read_exact_at(&mut buffer[..most], at).map_err(not_read)?;
        hasher.update(&buffer[..most]);
        file.write_all(&buffer[..most]).map_err(&failed)?;
        at += most as u64;
    }
    if ContentHash::from_bytes(*hasher.finalize().as_bytes()) == member.content {
        Ok(())
    } else {
        Err(bad(format_args!("{} has other bytes than its list says", member.path)))
    }
}
