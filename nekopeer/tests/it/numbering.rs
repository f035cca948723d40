//! Version numbers where a catalogue was lost or restored: no number is taken twice, nothing is outbid
//! for ever, and the user is told the number that stands.

use tokio::{io::copy_bidirectional, net::TcpStream, time::sleep};

use crate::common::*;

/// Copies the key and, if there is one, the catalogue of a folder whose peer does not run.
pub(crate) fn copy_data(from: &Folder, to: &Folder) {
    for file in ["peer.key", "catalogue.redb"] {
        let file = format!(".neko/{file}");
        if from.has(&file) {
            let path = to.write(&file, &from.read(&file));
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

pub(crate) fn backup(from: &Folder) -> Folder {
    let backup = Folder::new();
    copy_data(from, &backup);
    backup
}

fn lose_catalogue(folder: &Folder) {
    std::fs::remove_file(folder.path(".neko/catalogue.redb")).unwrap();
}

pub(crate) async fn publish(origin: &Node, folder: &Folder, content: &str) -> u64 {
    origin.publish(&folder.write("a", content.as_bytes())).await.version.get()
}

fn elsewhere(event: &Event) -> Option<u64> {
    match event {
        Event::PublishedElsewhere { version, .. } => Some(version.get()),
        _ => None,
    }
}

pub(crate) fn renumbered(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::Renumbered { taken, version, .. } => Some((taken.get(), version.get())),
        _ => None,
    }
}

#[testkit::test]
async fn lost_catalogue_takes_no_number_again_finds_that_of_the_same_bytes_and_nothing_spins() {
    let (indexer, [(from, origin), (to, mut reader)]) = network().await;
    let at = [indexer.local_addr()];
    assert_eq!(publish(&origin, &from, "first").await, 1);
    reader.get("a").await.unwrap(); // keeps version 1 listed
    origin.peer.abort().await;
    lose_catalogue(&from);
    let mut origin = from.peer(&at).await;
    assert_eq!(publish(&origin, &from, "other").await, 2, "the number that stands is reported");
    reader.invalidated("a", 2).await;
    assert_eq!(reader.gets(&to, "a", b"other").await.record.version.get(), 2);
    let registered = |event: &Event| matches!(event, Event::Registered { .. });
    let registrations = origin.unseen().iter().filter(|event| registered(event)).count();
    assert!(registrations <= 2, "{registrations} registrations");
    origin.peer.abort().await;
    lose_catalogue(&from);
    let origin = from.peer(&at).await;
    let outcome = origin.publish_all(&[&from.path("a")]).await;
    let unchanged: Vec<u64> = outcome.unchanged.iter().map(|record| record.version.get()).collect();
    assert_eq!((outcome.published.len(), unchanged), (0, vec![2]));
    assert_eq!(publish(&origin, &from, "third").await, 3);
}

/// What an indexer knows is waited for, even where nothing was heard of it when the publish began.
#[testkit::test]
async fn lost_catalogue_gives_no_number_before_its_indexer_was_asked() {
    let (indexer, [(from, origin), (_to, reader)]) = network().await;
    assert_eq!(publish(&origin, &from, "first").await, 1);
    reader.get("a").await.unwrap();
    origin.peer.abort().await;
    lose_catalogue(&from);
    let (socket, addr) = kept_port();
    let listener = socket.listen(1).unwrap();
    let mut origin = Node::start(from.config(&[addr])).await;
    let (mut near, _) = listener.accept().await.unwrap(); // it has connected, and hears nothing
    let path = from.write("a", b"other");
    let late = async {
        sleep(Duration::from_millis(100)).await; // or it may be asked without the wait that is tested
        let mut far = TcpStream::connect(indexer.local_addr()).await.unwrap();
        tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
    };
    let publishing = async { origin.publish_all(&[&path]).await };
    let (outcome, ()) = tokio::join!(publishing, late);
    assert_eq!((outcome.published[0].version.get(), outcome.is_confirmed), (2, true));
    assert!(!origin.unseen().iter().any(|event| renumbered(event).is_some()));
}

#[testkit::test]
async fn folder_restored_by_one_or_two_versions_publishes_above_all_of_them() {
    for behind in [1, 2] {
        let (indexer, [(from, origin), (to, reader)]) = network().await;
        let at = [indexer.local_addr()];
        publish(&origin, &from, "version 1").await;
        origin.peer.abort().await;
        let backup = backup(&from);
        let origin = from.peer(&at).await;
        for n in 0..behind {
            assert_eq!(publish(&origin, &from, &format!("version {}", n + 2)).await, n + 2);
        }
        reader.get("a").await.unwrap();
        origin.peer.abort().await;
        copy_data(&backup, &from);
        let origin = from.peer(&at).await;
        assert_eq!(publish(&origin, &from, "after the restore").await, behind + 2);
        assert_eq!(reader.gets(&to, "a", b"after the restore").await.record.version.get(), behind + 2);
    }
}

#[testkit::test]
async fn old_backup_that_starts_does_not_replace_what_was_published_since() {
    let (indexer, [(from, origin)]) = network().await;
    let at = [indexer.local_addr()];
    publish(&origin, &from, "old").await;
    origin.peer.abort().await;
    let restored = backup(&from);
    let origin = from.peer(&at).await;
    publish(&origin, &from, "new").await;
    let (to, reader) = peer(&at).await;
    reader.get("a").await.unwrap();
    origin.peer.shutdown().await;
    restored.write("a", b"old");
    let mut origin = restored.peer(&at).await;
    let outcome = origin.publish_all(&[&restored.path("a")]).await;
    assert!(outcome.published.is_empty(), "{outcome:?}");
    assert_eq!(origin.event(elsewhere).await, 2);
    assert_eq!(reader.gets(&to, "a", b"new").await.record.version.get(), 2);
    let outcome = origin.publish_all(&[&restored.path("a")]).await;
    assert_eq!(outcome.published[0].version.get(), 3, "told of it, the user publishes again");
    reader.gets(&to, "a", b"old").await;
}

/// Two indexers that do not know each other list two contents under one number, since the folder was restored in between;
/// then the peer comes to both.
#[testkit::test]
async fn of_two_contents_under_one_number_the_one_that_ranks_higher_is_published_above_and_the_other_is_told()
{
    let mut ends = Vec::new();
    for contents in [["one", "other"], ["other", "one"]] {
        let (near, far) = (indexer(&[]).await, indexer(&[]).await);
        let (from, origin) = peer(&[near.local_addr()]).await;
        publish(&origin, &from, "version 1").await;
        origin.peer.abort().await;
        let before = backup(&from);
        let origin = from.peer(&[near.local_addr()]).await;
        assert_eq!(publish(&origin, &from, contents[0]).await, 2);
        origin.peer.abort().await;
        copy_data(&before, &from);
        let origin = from.peer(&[far.local_addr()]).await;
        assert_eq!(publish(&origin, &from, contents[1]).await, 2);
        origin.peer.abort().await;
        let mut origin = Node::start(from.config(&[far.local_addr(), near.local_addr()])).await;
        let end = origin.event(|event| renumbered(event).or_else(|| Some((elsewhere(event)?, 2)))).await;
        if end == (2, 2) {
            assert_eq!(origin.publish_all(&[&from.path("a")]).await.published[0].version.get(), 3);
        }
        for indexer in [&near, &far] {
            let (to, reader) = peer(&[indexer.local_addr()]).await;
            assert_eq!(reader.gets(&to, "a", contents[1].as_bytes()).await.record.version.get(), 3);
        }
        ends.push(end);
    }
    ends.sort_unstable();
    assert_eq!(ends, [(2, 2), (2, 3)]);
}

#[testkit::test]
async fn number_that_nobody_confirmed_changes_when_the_indexer_is_back_and_an_event_says_so() {
    let indexer = indexer(&[]).await;
    let (_port, addr) = kept_port();
    let way = Proxy::begin(addr, indexer.local_addr());
    let (from, origin) = peer(&[addr]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    publish(&origin, &from, "first").await;
    reader.get("a").await.unwrap();
    origin.peer.abort().await;
    drop(way);
    lose_catalogue(&from);
    let mut origin = Node::start(from.config(&[addr])).await;
    let outcome = origin.publish_all(&[&from.write("a", b"other")]).await;
    assert_eq!((outcome.published[0].version.get(), outcome.indexers_told), (1, 0));
    assert!(!outcome.is_confirmed);
    let _way = Proxy::begin(addr, indexer.local_addr());
    assert_eq!(origin.event(renumbered).await, (1, 2));
    assert_eq!(reader.gets(&to, "a", b"other").await.record.version.get(), 2);
    assert!(origin.publish_all(&[&from.write("a", b"third")]).await.is_confirmed);
}
