//! Sets from folder to folder: what is published is what is seen, whole, whatever happens between.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nekoproto::{FileName, Policy};
use tempfile::TempDir;
use testkit::goods::record;

use super::{
    error::{changed, no_index},
    *,
};
use crate::{
    content::{chunker::chunk_file, stamp::now_ns},
    library::tests::library,
    storage::catalogue::StoredCopy,
};

const SET: &str = "model";

fn name() -> FileName {
    FileName::new(SET).unwrap()
}

/// Skips nothing.
fn all_of(folder: &Path) -> Filter {
    Filter::new(folder, folder, &Arc::default(), None).unwrap()
}

/// A folder of an origin, and the folder of a reader.
struct Two {
    origin: TempDir,
    reader: TempDir,
    library: Arc<Library>,
    version: u64,
}

impl Two {
    fn new() -> Self {
        let (origin, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let library = library(reader.path(), false);
        Self { origin, reader, library, version: 0 }
    }

    /// The reader has the only file, `a`, in its place.
    fn in_place() -> Self {
        let mut two = Self::new();
        two.update("1");
        two
    }

    /// Has the reader hold the next version, with these bytes in `a`.
    fn hold_a(&mut self, bytes: &str) {
        self.write("a", bytes);
        self.hold();
    }

    fn write(&self, path: &str, bytes: &str) {
        let path = self.origin.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Has the reader hold the folder of the origin as the next version; it is not in its place yet.
    fn hold(&mut self) {
        self.hold_bytes(&self.folded());
    }

    /// The folder of the origin as the bytes of a set.
    fn folded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (progress, stop) = (Progress::default(), CancellationToken::new());
        let folder = self.origin.path().canonicalize().unwrap();
        let index = fold::fold(&all_of(&folder), &mut bytes, &progress, &stop).unwrap();
        assert!(index.is_some(), "nothing changes meanwhile");
        bytes
    }

    fn hold_bytes(&mut self, bytes: &[u8]) {
        self.version += 1;
        let path = place_of_file(&self.library, &name()).unwrap().path().to_owned();
        drop(fs::remove_file(&path));
        fs::write(&path, bytes).unwrap();
        let chunked = chunk_file(&path, None, &Default::default(), &Default::default()).unwrap();
        let record = record(1, SET, self.version, |record| {
            (record.size, record.policy) = (bytes.len() as u64, Policy::default().of_set(true));
            (record.content, record.manifest) = (chunked.content, chunked.manifest_hash);
        });
        let stamp = chunked.stamp;
        let entry = Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr: None };
        let copy = StoredCopy { entry, manifest: chunked.manifest, outboard: chunked.outboard };
        self.library.catalogue.put_copy(copy).unwrap();
    }

    /// Has the reader hold the next version, and brings it to its place.
    fn update(&mut self, bytes: &str) {
        self.hold_a(bytes);
        self.unfold(false).unwrap();
    }

    fn stage(&self) -> Stage {
        Stage::of(&self.library, &name(), &self.library.share.place(&name()).unwrap())
    }

    fn modes(&self) -> [u32; 3] {
        ["a", "b", ""].map(|path| fs::metadata(self.place().join(path)).unwrap().mode() & 0o777)
    }

    fn unfold(&self, force: bool) -> Result<PathBuf, Failure> {
        unfold(&self.library, &name(), None, force, &CancellationToken::new()).map(|(path, _)| path)
    }

    fn place(&self) -> PathBuf {
        self.library.share.root().join(SET)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.place().join(path)).unwrap()
    }

    /// Every file below the place, with its bytes.
    fn seen(&self) -> BTreeMap<String, String> {
        let files = walkdir::WalkDir::new(self.place()).into_iter().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().is_file());
        let relative = |path: &Path| path.strip_prefix(self.place()).unwrap().to_str().unwrap().to_owned();
        files.map(|entry| (relative(entry.path()), fs::read_to_string(entry.path()).unwrap())).collect()
    }
}

/// The folders that were replaced, and lie in the stage.
fn replaced(stage: &Stage) -> Vec<PathBuf> {
    let found = fs::read_dir(stage.path()).unwrap().map(|found| found.unwrap().path());
    found.filter(|path| path.is_dir()).collect()
}

fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, bytes)| ((*path).to_owned(), (*bytes).to_owned())).collect()
}

#[test]
fn folder_arrives_as_it_was_and_what_stays_the_same_is_on_disk_once() {
    let mut two = Two::new();
    two.write("a/b/weights", "large");
    two.write("a-b", "");
    two.write("run", "#!/bin/sh");
    two.write(".neko-part-x", "of the program itself");
    fs::set_permissions(two.origin.path().join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("b/weights", two.origin.path().join("a/latest")).unwrap();
    two.hold();
    assert_eq!(two.unfold(false).unwrap(), two.place());
    let first = tree(&[("a-b", ""), ("a/b/weights", "large"), ("a/latest", "large"), ("run", "#!/bin/sh")]);
    assert_eq!(two.seen(), first);
    let mode = |path: &str| fs::metadata(two.place().join(path)).unwrap().mode() & 0o111;
    assert!(mode("run") != 0 && mode("a-b") == 0);
    let inode = |two: &Two| fs::metadata(two.place().join("a/b/weights")).unwrap().ino();
    let before = (inode(&two), fs::metadata(two.place()).unwrap().ino());
    assert_eq!(two.unfold(false).unwrap(), two.place(), "it is there already");
    assert_eq!(before.1, fs::metadata(two.place()).unwrap().ino());

    two.write("run", "#!/bin/sh -e");
    fs::remove_file(two.origin.path().join("a-b")).unwrap();
    two.write("new/file", "n");
    two.hold();
    assert_eq!(two.seen(), first, "not before it is brought there");
    two.unfold(false).unwrap();
    let second =
        tree(&[("a/b/weights", "large"), ("a/latest", "large"), ("new/file", "n"), ("run", "#!/bin/sh -e")]);
    assert_eq!(two.seen(), second);
    assert_eq!(before.0, inode(&two), "one file with another name");
    assert!(is_in_place(&two.library, &two.library.catalogue.get(&name()).unwrap()));
}

type Edit = fn(&Path);

#[test]
fn what_somebody_put_or_changed_there_is_not_replaced_unless_forced() {
    let mut two = Two::new();
    two.write("b", "same");
    two.hold_a("1");
    fs::create_dir(two.place()).unwrap();
    assert!(two.unfold(false).unwrap_err().message.contains("exists and is not a set from here"));
    fs::remove_dir(two.place()).unwrap();
    fs::write(two.place(), "a file").unwrap();
    assert!(two.unfold(false).unwrap_err().message.contains("is no folder, and a set is one"));
    two.unfold(true).unwrap();

    two.hold_a("2");
    let changes: [(&str, Edit); 3] = [
        ("a", |place| fs::write(place.join("a"), "mine").unwrap()),
        ("mine", |place| fs::write(place.join("mine"), "mine").unwrap()),
        ("empty", |place| fs::create_dir(place.join("empty")).unwrap()),
    ];
    for (path, change) in changes {
        change(&two.place());
        let refused = changed(&two.place().join(path));
        assert_eq!(two.unfold(false), Err(refused.clone()));
        assert_eq!(check_place(&two.library, &name(), None, false), Err(refused));
        two.unfold(true).unwrap();
        assert_eq!(two.seen(), tree(&[("a", "2"), ("b", "same")]));
        assert_eq!(fs::metadata(two.place().join("b")).unwrap().mode() & 0o111, 0);
        two.hold_a("2");
    }
    // What is missing is nothing that could be lost: it comes back, whether there is another version or not.
    for version in ["2", "3"] {
        two.hold_a(version);
        fs::remove_file(two.place().join("b")).unwrap();
        assert_eq!(check_place(&two.library, &name(), None, false), Ok(()));
        two.unfold(false).unwrap();
        assert_eq!(two.seen(), tree(&[("a", version), ("b", "same")]));
    }
    // Its time and its mode are no change, and the mode stays, also that of what is replaced.
    two.hold_a("4");
    let set =
        |path: &str, mode| fs::set_permissions(two.place().join(path), fs::Permissions::from_mode(mode));
    for (path, mode) in [("a", 0o640), ("b", 0o755), ("", 0o750)] {
        set(path, mode).unwrap();
    }
    let other_group = chown(two.place().join("a"), None, Some(4242)).is_ok(); // root may
    let past = std::time::SystemTime::UNIX_EPOCH;
    File::options().write(true).open(two.place().join("b")).unwrap().set_modified(past).unwrap();
    two.unfold(false).unwrap();
    assert_eq!(two.seen(), tree(&[("a", "4"), ("b", "same")]));
    assert_eq!(two.modes(), [0o640, 0o755, 0o750]);
    assert!(!other_group || fs::metadata(two.place().join("a")).unwrap().gid() == 4242);
    two.update("5");
    assert_eq!(two.modes(), [0o640, 0o755, 0o750]);
}

impl Two {
    /// All that is done before the exchange of the folder with the version that is held; and the exchange if it
    /// `is_exchanged`, after `meanwhile` has happened in the place.
    fn bring(&self, is_exchanged: bool, meanwhile: impl FnOnce(&Path)) -> Stage {
        let _replacing = self.library.catalogue.replacing(&name());
        let before = self.library.catalogue.trees(&name()).unwrap().unwrap();
        let place = self.library.share.place(&name()).unwrap();
        let there = place.folder_id().unwrap().unwrap();
        let (entry, stage) =
            (self.library.catalogue.get(&name()).unwrap(), Stage::of(&self.library, &name(), &place));
        let file = open_file(&entry.path).unwrap();
        let index = Index::read(&file, entry.record.size).unwrap();
        let new = stage.new_folder().unwrap();
        let files = unfold::unfold(&file, &index, &new, None, &CancellationToken::new()).unwrap();
        let made = Tree { content: entry.record.content, folder: FileId::of(&new).unwrap(), files };
        let before = before.of(there).unwrap().clone();
        let replaced = Replaced { place: self.place(), tree: before.clone(), forced: false };
        stage.exchange(made.folder, Some(&replaced)).unwrap();
        let trees = Trees { path: self.place(), trees: vec![before, made] };
        self.library.catalogue.set_trees(&name(), Some(&trees)).unwrap();
        meanwhile(&self.place());
        if is_exchanged {
            place.put_folder(&new, Some(there)).unwrap();
        }
        stage
    }

    fn restart(self) -> Self {
        let Self { reader, library: ended, .. } = self;
        drop(ended);
        Self { library: library(reader.path(), false), reader, ..self }
    }
}

#[test]
fn process_that_ended_before_or_after_the_exchange_is_made_good_by_the_next() {
    let mut two = Two::in_place();
    for (version, is_exchanged) in [("2", false), ("3", true), ("4", false)] {
        two.hold_a(version);
        two.bring(is_exchanged, |_| {});
        two = two.restart();
        assert_eq!(two.read("a") == version, is_exchanged);
        settle(&two.library);
        assert_eq!(two.read("a"), version);
    }
}

/// The user interrupts a download whose folder is about to take its place, and repeats it.
#[test]
fn next_download_waits_for_the_folder_that_a_dropped_one_puts_in_its_place() {
    let mut two = Two::in_place();
    two.hold_a("2");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let two = &two;
        let stage = two.bring(true, |_| {
            scope.spawn(move || tell.send(two.unfold(false)).unwrap());
            told.recv_timeout(Duration::from_millis(20)).unwrap_err();
        });
        told.recv().unwrap().unwrap();
        stage.end();
    });
    assert_eq!(two.seen(), tree(&[("a", "2")]));
}

/// Saved after it was seen that nobody had changed anything, or by a program that has the replaced folder open.
#[test]
fn what_a_user_saves_while_the_next_version_takes_its_place_comes_back() {
    for is_killed in [false, true] {
        let mut two = Two::new();
        two.write("b", "same");
        two.update("1");
        two.hold_a("2");
        let stage = two.bring(true, |place| {
            fs::write(place.join("a"), "edited").unwrap();
            fs::create_dir(place.join("new")).unwrap();
            fs::write(place.join("new/mine"), "mine").unwrap();
        });
        match is_killed {
            true => {
                two = two.restart();
                sweep(&two.library);
            }
            false => stage.end(),
        }
        let mut expected = tree(&[("a", "2"), ("a.kept", "edited"), ("b", "same"), ("new/mine", "mine")]);
        assert_eq!(two.seen(), expected, "killed: {is_killed}");
        let old = replaced(&stage).pop().expect("whoever has it open keeps it for a while");
        fs::write(old.join("late"), "late").unwrap();
        fs::rename(&old, old.with_file_name(format!("old-{:032}", 0))).unwrap();
        assert!(!stage.sweep(), "nothing is left");
        expected.insert("late".to_owned(), "late".to_owned());
        assert_eq!(two.seen(), expected);
    }
}

/// Each update removes what was replaced some time before it, and so does the timer of each.
#[test]
fn sweeps_at_once_bring_nothing_back_that_another_removes() {
    let mut two = Two::new();
    (0..500).for_each(|n| two.write(&format!("gone/{n}"), "x"));
    two.update("1");
    fs::remove_dir_all(two.origin.path().join("gone")).unwrap();
    two.update("2");
    let stage = two.stage();
    fs::rename(&replaced(&stage)[0], stage.path().join(format!("old-{:032}", 0))).unwrap();
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| stage.sweep()))));
    assert!(!stage.sweep(), "nothing is left");
    assert!(!two.place().join("gone").exists());
}

/// Earlier folders have links of what stayed the same.
#[test]
fn file_that_is_written_in_place_after_updates_stays_one_file() {
    let mut two = Two::new();
    two.write("b", "same");
    for version in ["1", "2", "3", "4"] {
        two.update(version);
    }
    fs::write(two.place().join("b"), "edited").unwrap();
    let stage = two.stage();
    let old = replaced(&stage);
    assert_eq!(old.len(), 3);
    for (n, old) in old.iter().enumerate() {
        fs::rename(old, old.with_file_name(format!("old-{n:032}"))).unwrap();
    }
    assert!(!stage.sweep(), "nothing is left");
    assert_eq!(two.seen(), tree(&[("a", "4"), ("b", "edited")]));
}

/// The folder before the one that was forced has a link of it.
#[test]
fn edit_that_was_replaced_by_force_does_not_come_back() {
    let mut two = Two::new();
    two.write("b", "same");
    two.update("1");
    two.update("2");
    fs::write(two.place().join("b"), "edited").unwrap();
    two.hold_a("3");
    two.unfold(true).unwrap();
    let stage = two.stage();
    let mut old = replaced(&stage);
    old.sort_unstable();
    for (n, old) in old.iter().enumerate() {
        fs::rename(old, old.with_file_name(format!("old-{n:032}"))).unwrap();
    }
    assert!(old.len() == 2 && !stage.sweep(), "nothing is left");
    assert_eq!(two.seen(), tree(&[("a", "3"), ("b", "same")]));
}

/// Its place is on another disk, and the process ended before it removed what it had replaced there.
#[test]
fn replaced_folder_beside_its_place_goes_after_a_restart_and_with_its_set() {
    for is_forgotten in [false, true] {
        let mut two = Two::new();
        for version in ["1", "2"] {
            two.update(version);
        }
        let stage = two.stage();
        fs::rename(&replaced(&stage)[0], stage.path().join(format!("old-{:032}", 0))).unwrap();
        let beside = two.place().with_file_name(format!(".neko-trees-{}", crate::storage::digits(&name())));
        fs::rename(stage.path(), &beside).unwrap();
        if is_forgotten {
            two.library.catalogue.remove(&name()).unwrap();
            forget(&two.library, &[name()]);
        } else {
            two = two.restart();
            assert!(!sweep_replaced(&two.library));
        }
        assert!(!beside.exists(), "forgotten: {is_forgotten}");
        assert_eq!(two.seen(), tree(&[("a", "2")]));
    }
}

impl Two {
    /// Has the reader make the one file of a set of its own under the name; returns its path, and what keeps it.
    fn fold(&self, text: &str) -> (PathBuf, File) {
        self.write("own", text);
        let folder = self.origin.path().canonicalize().unwrap();
        let (progress, stop) = (Progress::default(), CancellationToken::new());
        let folded = super::fold(&self.library, &name(), &all_of(&folder), &progress, &stop).unwrap();
        (folded.path, folded.file)
    }
}

#[test]
fn file_of_a_set_stays_while_it_is_about_to_be_published_and_goes_if_it_was_not() {
    let mut two = Two::new();
    let (path, file) = two.fold("1");
    forget(&two.library, &[name()]);
    assert!(path.exists(), "the one before was withdrawn");
    drop(file);
    forget(&two.library, &[name()]);
    assert!(!path.exists());
    two.hold_a("1"); // a copy that is not given up
    let held = two.library.catalogue.get(&name()).unwrap();
    for text in ["1", "2"] {
        let (path, file) = two.fold(text);
        drop(file);
        note_published(&two.library, &name(), two.origin.path()).unwrap();
        assert!(!path.exists() && held.path.exists(), "{text}");
    }
}

/// A folder of somebody that came into the place at that moment, and that could not be put back there.
#[test]
fn folder_of_somebody_else_is_never_removed() {
    let mut two = Two::in_place();
    two.hold_a("2");
    let stage = two.bring(false, |_| {});
    let new = stage.path().join("new");
    let theirs = two.reader.path().join("of somebody");
    fs::create_dir(&theirs).unwrap(); // first: a folder that is removed gives its number to the next
    fs::write(theirs.join("theirs"), "theirs").unwrap();
    fs::remove_dir_all(&new).unwrap();
    fs::rename(&theirs, &new).unwrap();
    let two = two.restart();
    sweep(&two.library);
    let kept = replaced(&stage).into_iter().filter_map(|path| fs::read_to_string(path.join("theirs")).ok());
    assert_eq!(kept.collect::<Vec<_>>(), ["theirs"]);
}

#[test]
fn set_that_lies_about_its_files_changes_nothing() {
    let mut two = Two::in_place();
    two.write("a", "2");
    let mut bytes = two.folded();
    bytes[0] = b'X';
    two.hold_bytes(&bytes);
    assert!(two.unfold(true).unwrap_err().message.contains("has other bytes than its list says"));
    two.hold_bytes(b"no set at all, but long enough");
    assert_eq!(two.unfold(true), Err(no_index()));
    assert_eq!(two.seen(), tree(&[("a", "1")]));
    let stages = fs::read_dir(two.library.data_dir.join("trees")).into_iter().flatten();
    assert_eq!(stages.count(), 0, "nothing is left");
}

#[test]
fn folder_that_cannot_be_a_set_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let fold = || {
        let (progress, stop) = (Progress::default(), CancellationToken::new());
        fold::fold(&all_of(&root), &mut Vec::new(), &progress, &stop)
    };
    assert!(fold().unwrap_err().message.contains("there are no files in it"));
    for (target, why) in
        [("/etc/passwd", "a link out of the folder"), ("gone", "a link that leads nowhere"), (".", "no file")]
    {
        symlink(target, root.join("link")).unwrap();
        let error = fold().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        fs::remove_file(root.join("link")).unwrap();
    }
    fs::write(root.join("back\\slash"), "").unwrap();
    assert!(fold().unwrap_err().message.contains("cannot be in a set"));
    fs::write(root.join("two\nlines"), "").unwrap();
    symlink("gone", root.join("link")).unwrap();
    let all = fold().unwrap_err().to_string();
    for one in
        ["back\\slash", "two\nlines", "link is a link that leads nowhere", "back\\slash cannot be in a set"]
    {
        assert!(all.contains(one), "{one}: {all}");
    }
    (0..30).for_each(|n| fs::write(root.join(format!("{n}\\")), "").unwrap());
    assert!(fold().unwrap_err().to_string().ends_with("; and 13 more"));
}

#[test]
fn reader_sees_one_version_while_a_thousand_take_its_place() {
    const VERSIONS: u64 = 1000;
    let mut two = Two::new();
    let write = |two: &Two, version: u64| {
        drop(fs::remove_dir_all(two.origin.path().join("parts")));
        (0..version % 7 + 1)
            .for_each(|part| two.write(&format!("parts/{version}-{part}"), &version.to_string()));
        two.write("version", &version.to_string());
        two.write("same", "same");
    };
    write(&two, 1);
    two.hold();
    two.unfold(false).unwrap();
    let (place, is_over) = (two.place(), AtomicBool::new(false));
    let listed = std::thread::scope(|scope| {
        let listing = scope.spawn(|| {
            let mut listed = BTreeMap::new();
            while !is_over.load(Ordering::Relaxed) {
                let version = list_one(&place);
                *listed.entry(version).or_insert(0u32) += 1;
            }
            listed
        });
        for version in 2..=VERSIONS {
            write(&two, version);
            two.hold();
            two.unfold(false).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        listing.join().unwrap()
    });
    assert!(listed.len() > 10, "{listed:?}");
    assert_eq!(list_one(&place), VERSIONS);
}

/// The version of all files below `place`, which has to be one.
fn list_one(place: &Path) -> u64 {
    let folder = cap_std::fs::Dir::open_ambient_dir(place, cap_std::ambient_authority()).unwrap();
    let version: u64 = folder.read_to_string("version").unwrap().parse().unwrap();
    let parts = folder.open_dir("parts").unwrap();
    let names = parts.entries().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let expected: Vec<String> = (0..version % 7 + 1).map(|part| format!("{version}-{part}")).collect();
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(parts.read_to_string(name).unwrap(), version.to_string());
    }
    version
}
