//! Publishing many files: more than one batch, in order; bad ones are reported and the rest published.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::common::*;

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

fn names(outcome: &PublishOutcome) -> Vec<&str> {
    outcome.published.iter().chain(&outcome.unchanged).map(|record| record.name.as_str()).collect()
}

/// What was skipped below `folder`, and why, by path; whether each is published from before.
fn skipped(outcome: &PublishOutcome, folder: &std::path::Path) -> Vec<(String, SkipCause, bool)> {
    let folder = folder.canonicalize().unwrap();
    let name = |path: &std::path::Path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
    outcome.skipped.iter().map(|found| (name(&found.path), found.cause, found.is_published)).collect()
}

#[testkit::test]
async fn set_has_what_the_rules_let_in_and_nothing_is_published_while_they_cannot_be_read() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    for file in ["a", ".env", "build/x", ".neko/peer.key"] {
        from.write(&format!("d/{file}"), file.as_bytes());
    }
    from.write("d/.nekoignore", b"build\n");
    let publish = async |is_set| {
        let options = PublishOptions { is_set, ..PublishOptions::default() };
        origin.peer.publish(vec![from.path("d")], options, &std::sync::Arc::default()).await
    };
    let outcome = publish(true).await.unwrap();
    let expected = [(".env", SkipCause::Hidden), ("build", SkipCause::Ignored)];
    let mut found = skipped(&outcome, &from.path("d"));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected.map(|(name, cause)| (name.to_owned(), cause, false)));
    reader.get("d").await.unwrap();
    assert_eq!(std::fs::read_dir(to.path("d")).unwrap().count(), 1, "only d/a");

    from.write("d/.nekoignore", b"build\n{a\n");
    let refused = publish(true).await.unwrap_err().to_string();
    for said in ["d/.nekoignore", "nothing in its folder is shared"] {
        assert!(refused.contains(said), "{refused}");
    }
    let outcome = publish(false).await.unwrap();
    assert!(names(&outcome).is_empty(), "{outcome:?}");
    let [(_, PublishError::Rules(RulesError::IgnoreFile { .. }))] = &outcome.failed[..] else {
        panic!("{outcome:?}")
    };
}
