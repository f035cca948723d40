//! Destinations of downloads: existing files are kept, and nothing is written outside the folder.

use crate::common::*;

async fn stage(text: &str, content: &[u8]) -> (nekoindexer::IndexerHandle, Folder, Node, Folder, Node) {
    let (indexer, [(from, origin), (to, reader)]) = network().await;
    origin.publish(&from.write(text, content)).await;
    (indexer, from, origin, to, reader)
}

fn forced(force: bool) -> DownloadOptions {
    DownloadOptions { force, ..Default::default() }
}

#[testkit::test]
async fn file_of_somebody_else_in_the_place_is_kept_unless_forced_and_identical_bytes_become_a_copy() {
    let content = bytes(1, 2 * MIB);
    let (_indexer, _from, _origin, to, reader) = stage("a", &content).await;
    to.write("a", b"mine!!");
    let error = reader.get("a").await.unwrap_err();
    assert!(error.message.starts_with(&format!("{} exists", to.path("a").display())), "{error}");
    assert_eq!((to.read("a").as_slice(), to.partials().len()), (b"mine!!".as_slice(), 0));
    reader.get_with("a", forced(true)).await.unwrap();
    assert!(to.read("a") == content);

    let (_indexer, _from, _origin, to, reader) = stage("a", &content).await;
    to.write("a", &content);
    let done = reader.get("a").await.unwrap();
    assert_eq!((done.bytes_moved, done.record.version.get()), (0, 1));
    assert!(to.read("a") == content);
    assert!(!reader.status("a").await.unwrap().own);
}

#[testkit::test]
async fn folder_link_or_pipe_in_the_place_is_named_and_left_and_nothing_waits_for_it() {
    let (_indexer, _from, _origin, to, reader) = stage("a", b"content").await;
    let (path, other) = (to.path("a"), to.write("other", b"content"));
    for what in ["a symbolic link", "a named pipe", "a folder"] {
        match what {
            "a named pipe" => testkit::pipe(&path),
            "a folder" => drop(to.write("a/precious", b"precious")),
            _ => std::os::unix::fs::symlink(&other, &path).unwrap(),
        }
        for force in [false, true] {
            let error = reader.get_with("a", forced(force)).await.unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        assert!(!std::fs::symlink_metadata(&path).unwrap().is_file());
        if what == "a folder" {
            assert_eq!(to.read("a/precious"), b"precious");
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
    reader.get("a").await.unwrap();
}

#[testkit::test]
async fn name_that_a_symlink_leads_outside_is_refused_and_nothing_is_written_there() {
    let (_indexer, _from, _origin, to, reader) = stage("way/out/a", b"content").await;
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), to.path("way")).unwrap();
    let error = reader.get("way/out/a").await.unwrap_err();
    assert!(error.message.contains("would leave the share folder"), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[testkit::test]
async fn same_bytes_of_several_origins_are_one_file_from_all_of_them() {
    let (content, (indexer, [(to, reader)])) = (bytes(1, 8 * MIB), network().await);
    let mut origins = Vec::new();
    for _ in 0..2 {
        let from = Folder::new();
        // Neither has sent all before the other begins.
        let limit_up = std::num::NonZeroU64::new(8 * MIB as u64);
        let origin = Node::registered(Config { limit_up, ..from.config(&[indexer.local_addr()]) }).await;
        origin.publish(&from.write("a", &content)).await;
        origins.push((from, origin));
    }
    let done = reader.get("a").await.unwrap();
    assert_eq!((done.sources.len(), done.others.len()), (2, 1));
    assert!(to.read("a") == content);
}

#[testkit::test]
async fn file_that_changed_since_it_was_published_is_not_delivered_but_by_a_copy() {
    let content = bytes(1, MIB);
    let (indexer, from, _origin, to, reader) = stage("a", &content).await;
    let (_cache, cache) = peer(&[indexer.local_addr()]).await;
    cache.get("a").await.unwrap();
    from.write("a", &bytes(2, MIB + 1));
    let done = reader.get("a").await.unwrap();
    assert_eq!(done.sources.len(), 1);
    assert!(to.read("a") == content);
}

#[testkit::test]
async fn changed_file_is_not_offered_after_a_restart() {
    let (indexer, from, origin, _to, reader) = stage("a", b"content").await;
    origin.peer.shutdown().await;
    from.write("a", b"something else");
    let mut origin = Node::start(from.config(&[indexer.local_addr()])).await;
    origin.sees(&Event::Changed(name("a"))).await;
    origin.sees(&Event::Registered { indexer: indexer.local_addr(), files: 1 }).await;
    let error = reader.get("a").await.unwrap_err();
    assert!(error.to_string().contains("the file changed on the holder's disk"), "{error}");
    assert_eq!(origin.publish(&from.path("a")).await.version.get(), 2);
    assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Fresh);
}
