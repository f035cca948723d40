//! Damaged files: every operation ends with an answer or an error that says so, and none ends the process.

use std::{fs, os::unix::fs::PermissionsExt};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::values::name;

use super::{
    model_tests::{DataFolder, copy, identity},
    *,
};

const SEEDS: u64 = 40;
const ENTRIES: u64 = 60;

/// Opens the catalogue, and does what a peer does with it.
fn use_it(folder: &DataFolder) -> Result<(), Failure> {
    let catalogue = Catalogue::open(folder.path(), identity())?;
    catalogue.settle_all()?;
    let (mut start, mut first) = (PageStart::default(), None);
    loop {
        let page = catalogue.page(&start, 50)?;
        for entry in page.entries {
            match entry {
                Ok(entry) => {
                    catalogue.with_content(&entry.record.content);
                    catalogue.manifest_of(&entry)?;
                    catalogue.floors(&entry.record.name)?;
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        match page.next {
            Some(next) => start = next,
            None => break,
        }
    }
    for n in 0..3 {
        let text = n.to_string();
        catalogue.put_copy(copy(folder, &text, 3, 3))?;
        catalogue.remove(&name(&text))?;
    }
    first.map_or(Ok(()), Err)
}

#[test]
fn flipped_bits_are_an_error_or_do_no_harm() {
    let (folder, catalogue) = DataFolder::begin();
    for n in 0..ENTRIES {
        catalogue.put_copy(copy(&folder, &n.to_string(), 2, 3)).unwrap();
    }
    drop(catalogue);
    let path = folder.path().join("catalogue.redb");
    let whole = fs::read(&path).unwrap();
    let mut told = 0;
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let mut bytes = whole.clone();
        // As many of the pages in use as of those at the begin, which lead to them.
        let end = if seed % 2 == 0 { 16 * 1024 } else { bytes.len() };
        let at = random.random_range(0..end);
        bytes[at] ^= 1 << random.random_range(0..8);
        fs::write(&path, bytes).unwrap();
        if let Err(error) = use_it(&folder) {
            told += 1;
            let text = error.to_string();
            assert!(
                ["damaged", "belongs to another key", "has format"].iter().any(|word| text.contains(word)),
                "seed {seed}, byte {at}: {text}"
            );
        }
    }
    println!("{told} of {SEEDS} were told of");
}

#[test]
fn what_is_cut_off_or_no_file_or_writable_by_others_is_refused_with_the_way_out() {
    let folder = DataFolder::new();
    drop(folder.open());
    let path = folder.path().join("catalogue.redb");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    for len in [0, 1, 100, 4096, 5000, whole.len() / 2] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = use_it(&folder).unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains("run nekopeer repair"), "{len}: {error}");
    }
    fs::write(&path, &whole).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let error = use_it(&folder).unwrap_err().to_string();
    assert!(error.contains("others may write") && error.contains("run: chmod go-w "), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    use_it(&folder).unwrap();
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    assert!(use_it(&folder).unwrap_err().to_string().contains("it is no file"));
}
