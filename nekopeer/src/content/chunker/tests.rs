//! Tests of chunking real files.

use std::collections::HashSet;

use nekoproto::Chunk;
use testkit::goods::bytes as random;

use super::*;

fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let (_folder, path) = testkit::temp_path("file");
    std::fs::write(&path, bytes).unwrap();
    let chunked = chunk_file(&path, None, &AtomicU64::new(0), &CancellationToken::new()).unwrap();
    assert_eq!(chunked.content.as_bytes(), blake3::hash(bytes).as_bytes());
    let manifest = Manifest::decode(&chunked.manifest).unwrap();
    assert_eq!(manifest.size(), bytes.len() as u64);
    let mut rest = bytes;
    for chunk in manifest.chunks() {
        let (this, after) = rest.split_at(chunk.len as usize);
        assert_eq!(hash(this), chunk.hash);
        rest = after;
    }
    manifest.chunks().to_vec()
}

#[test]
fn chunks_cover_files_of_every_kind() {
    for len in [0, 1, 16 * 1024, 64 * 1024, 5_000_000, 13_000_001] {
        chunks(&random(7, len));
    }
    chunks(&vec![0; 3_000_000]);
}

#[test]
fn an_insertion_changes_only_the_chunks_around_it() {
    let before = random(7, 8_000_000);
    let after = [&before[..4_000_000], b"inserted", &before[4_000_000..]].concat();
    let known: HashSet<_> = chunks(&before).iter().map(|chunk| *chunk.hash.as_bytes()).collect();
    let fresh = chunks(&after).iter().filter(|chunk| !known.contains(chunk.hash.as_bytes())).count();
    assert!((1..=3).contains(&fresh), "{fresh} chunks are new");
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = chunk_file(&folder.path().join("none"), None, &AtomicU64::new(0), &CancellationToken::new())
        .unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
    let error = chunk_file(folder.path(), None, &AtomicU64::new(0), &CancellationToken::new()).unwrap_err();
    assert_eq!(error.reason, Reason::Unfit, "{error}");
}

/// A file that grows with every read is never reported as complete.
#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    use std::io::Write;
    let (_folder, path) = testkit::temp_path("growing");
    std::fs::write(&path, random(7, 20_000_000)).unwrap();
    let progress = AtomicU64::new(0);
    let file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let result = chunk_unchanged(&path, None, &progress, &|| {
        (&file).write_all(b"x").unwrap();
        Ok(())
    });
    assert_eq!(result.unwrap_err().reason, Reason::KeepsChanging);
    assert_eq!(progress.load(Ordering::Relaxed), 0);
    let size = file.metadata().unwrap().len();
    assert!(chunk_file(&path, None, &progress, &CancellationToken::new()).is_ok(), "complete now");
    assert_eq!(progress.load(Ordering::Relaxed), size);
}

#[test]
fn a_stop_ends_the_reading() {
    let (_folder, path) = testkit::temp_path("file");
    std::fs::write(&path, random(7, 20_000_000)).unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let result = chunk_file(&path, None, &AtomicU64::new(0), &stop);
    assert_eq!(result.unwrap_err().reason, Reason::Stopped);
}
