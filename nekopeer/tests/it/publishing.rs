//! Publishing many files: more than one batch, in order; bad ones are reported and the rest published.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::common::*;
use nekopeer::{DownloadError, PublishOptions};
use nekoproto::VerifiedRecord;

/// More files than one batch has.
const FILES: usize = 1100;

#[testkit::test]
async fn folder_of_many_files_is_published_in_order_but_for_the_bad_ones() {
    let (indexer, [(from, origin)]) = network().await;
    for n in 0..FILES {
        from.write(&format!("many/{n:05}"), n.to_string().as_bytes());
    }
    let large = crate::common::bytes(1, 20 * crate::common::MIB); // chunked on all cores
    from.write("many/00500x", &large);
    std::fs::write(from.path("many").join(OsStr::from_bytes(b"00001\xff")), b"no name").unwrap();
    let publish = || async {
        let (options, progress) = (PublishOptions::default(), std::sync::Arc::default());
        let outcome = origin.peer.publish(vec![from.path("many")], options, &progress).await.unwrap();
        assert_eq!(outcome.failed.len(), 1, "the one without an allowed name");
        assert_eq!((progress.done(), progress.done() > 0), (progress.total(), true));
        outcome
    };
    let first = publish().await;
    assert_eq!((first.published.len(), first.unchanged.len()), (FILES + 1, 0));
    assert!(first.published.is_sorted_by_key(|record: &VerifiedRecord| record.name.clone()));
    let found = first.published.iter().find(|record| record.size == large.len() as u64).unwrap();
    assert_eq!(found.content.as_bytes(), blake3::hash(&large).as_bytes());
    from.write("many/00700", b"changed");
    let second = publish().await;
    assert_eq!((second.published.len(), second.unchanged.len()), (1, FILES));
    assert!(second.unchanged.is_sorted_by_key(|record: &VerifiedRecord| record.name.clone()));
    assert_eq!(indexer.names(), FILES + 1);
}

/// As a kill, or an interruption, leaves it between the move to its place and the publish.
#[testkit::test]
async fn file_from_a_pipe_that_was_not_published_is_replaced_by_the_next_one() {
    let (indexer, [(folder, mut origin)]) = network().await;
    let name = name("a");
    for bytes in ["one", "two", "three"] {
        let from = std::io::Cursor::new(bytes);
        origin.peer.store(&name, from, false, &std::sync::Arc::default()).await.unwrap();
        assert_eq!(folder.read("a"), bytes.as_bytes());
        origin.peer.shutdown().await;
        origin = folder.peer(&[indexer.local_addr()]).await;
    }
    folder.write("a", b"my own work");
    let stored = origin.peer.store(&name, &b"four"[..], false, &std::sync::Arc::default()).await;
    assert!(matches!(stored, Err(DownloadError::NotPublished(_))));
}
