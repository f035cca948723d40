//! A watched folder of which no event tells, and a file that changes before it is read.

use std::path::Path;

use nekoproto::transport::Security;
use tokio::time::timeout;

use super::*;
use crate::{
    PublishOptions,
    config::Config,
    peer::{Peer, PeerHandle},
    publish::{What, listing::NamedFile},
    state::changes::QUIET_FOUND,
};

const LIMIT: Duration = Duration::from_secs(60);

async fn watching(dir: &Path) -> (PeerHandle, Watching, mpsc::Receiver<Told>) {
    let config = Config { security: Security::Insecure, ..Config::new(dir) };
    let peer = Peer::spawn(config).await.unwrap();
    let (telling, told) = mpsc::channel(16);
    let rooms = (&peer.library, &peer.publisher);
    let watching =
        Watching::new(rooms, vec![dir.to_owned()], PublishOptions::default(), LIMIT, telling).await.unwrap();
    (peer, watching, told)
}

#[tokio::test]
async fn changes_are_found_without_events_which_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "1").unwrap();
    let (peer, mut watching, mut told) = watching(dir.path()).await;
    watching.signs = Arc::new(Signs::none());
    watching.changes = Changes::new(LIMIT);
    watching.changes.quiet_open = QUIET_FOUND;
    let running = tokio::spawn(watching.run());
    let (mut published, mut notes) = (Vec::new(), Vec::new());
    while published.len() < 2 {
        match timeout(LIMIT, told.recv()).await.unwrap().unwrap() {
            Told::Published(outcome) => {
                let before = published.len();
                published.extend(outcome.published.iter().map(|record| (record.version.get(), record.size)));
                if (before, published.len()) == (0, 1) {
                    std::fs::write(dir.path().join("a"), "22").unwrap();
                }
            }
            Told::Note(note) => notes.push(note),
            withdrawn @ Told::Withdrawn(..) => panic!("{withdrawn:?}"),
        }
    }
    assert_eq!(published, [(1, 1), (2, 2)]);
    let blind = notes.iter().filter(|note| note.contains("max_user_instances")).count();
    assert_eq!(blind, 1, "{notes:?}");
    drop(told);
    timeout(LIMIT, running).await.unwrap().unwrap();
    peer.shutdown().await;
}

#[tokio::test]
async fn file_that_is_another_than_the_one_seen_is_not_published_and_waits_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("a");
    std::fs::write(&path, "complete").unwrap();
    let seen = Stamp::of(&path.metadata().unwrap());
    let (peer, mut watching, mut told) = watching(dir.path()).await;
    std::fs::write(&path, "half").unwrap();
    watching.publish(vec![(path.clone(), seen)]).await.unwrap();
    let now = Stamp::of(&path.metadata().unwrap());
    watching.told.send(Told::Note("end".to_owned())).await.unwrap();
    while let Told::Published(outcome) = told.recv().await.unwrap() {
        assert!(outcome.published.is_empty() && outcome.failed.is_empty(), "{outcome:?}");
    }
    assert!(watching.changes.next_at().is_some(), "it waits");
    let name = FileName::new("a").unwrap();
    let file = NamedFile { name, path, size: now.size() };
    let mut publishing =
        watching.publisher.publishing_what(What::Seen(vec![(file, now)]), watching.policy, &<_>::default());
    let mut published = 0;
    while let Some(piece) = publishing.next().await.unwrap() {
        published += piece.published.len();
    }
    assert_eq!(published, 1);
    peer.shutdown().await;
}
