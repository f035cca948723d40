//! Limits of a running peer, and the pause of its downloads.

use std::num::NonZeroU64;

use crate::common::*;

#[testkit::test]
async fn paused_downloads_keep_what_came_new_ones_wait_and_both_go_on() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let content = ["a", "b"].map(|file| {
        let content = bytes(file.len() as u64, 8 * MIB);
        (file, from.write(file, &content), content)
    });
    for (_, path, _) in &content {
        origin.publish(path).await;
    }
    let slow = Limits { up: None, down: NonZeroU64::new(MIB as u64) };
    reader.peer.set_limits(slow);
    assert_eq!(reader.peer.limits(), slow);
    let [(first, begun), (second, new)] = ["a", "b"].map(|file| (name(file), Arc::new(Progress::default())));
    let get = |file, progress| reader.peer.download(file, DownloadOptions::default(), progress);
    let is_paused = async |progress: &Progress| {
        eventually(async || progress.waiting_for().filter(|text| text.contains("downloads are paused")))
            .await;
    };
    let steering = async {
        eventually(async || (begun.done() > 0).then_some(())).await;
        reader.peer.pause();
        is_paused(&begun).await;
        // All that holds it back now is the pause.
        reader.peer.set_limits(Limits::default());
        let later = async {
            is_paused(&new).await;
            assert_eq!((new.done(), reader.peer.is_paused()), (0, true));
            assert!((1..begun.total()).contains(&begun.done()), "{} of {}", begun.done(), begun.total());
            let kept = begun.done();
            reader.peer.resume();
            kept
        };
        tokio::join!(get(&second, &new), later)
    };
    let (begun_ended, (new_ended, kept)) = tokio::join!(get(&first, &begun), steering);
    for (ended, (file, _, content)) in [begun_ended, new_ended].into_iter().zip(&content) {
        let moved = ended.unwrap().bytes_moved;
        assert_eq!(moved, content.len() as u64, "no byte of use twice");
        assert_eq!(to.read(file), *content);
    }
    assert!(kept > 0 && !reader.peer.is_paused());
}

/// A reader that waits for bytes of a rate that is far too low.
#[testkit::test]
async fn limit_that_is_changed_holds_for_what_is_under_way() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let content = bytes(1, 4 * MIB);
    origin.publish(&from.write("a", &content)).await;
    origin.peer.set_limits(Limits { up: NonZeroU64::new(1), down: None });
    let (file, progress) = (name("a"), Arc::new(Progress::default()));
    let downloading = reader.peer.download(&file, DownloadOptions::default(), &progress);
    let changing = async {
        eventually(async || (progress.total() > 0).then_some(())).await;
        origin.peer.set_limits(Limits { up: NonZeroU64::new(64 * MIB as u64), down: None });
    };
    let (ended, ()) = tokio::join!(downloading, changing);
    ended.unwrap();
    assert_eq!(to.read("a"), content);
}
