//! Readers that are killed at any moment, again and again: their copies go on following.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    common::{bytes, indexer, peer},
    program::Home,
};

/// Kills of one reader.
const KILLS: u64 = 40;

#[testkit::test(multi_thread)]
async fn copy_of_a_reader_that_is_killed_again_and_again_follows_without_force() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let home = Home::with(&["--indexer", &indexer.local_addr().to_string()]);
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    origin.publish(&from.write("a", b"version 0")).await;
    home.done(&["get", "a"]);
    // As long as a download takes, from its first to its last moment.
    let began = std::time::Instant::now();
    origin.publish(&from.write("a", b"version 1")).await;
    home.done(&["get", "a"]);
    let takes = began.elapsed();
    for kill in 0..KILLS {
        let content = bytes(u8::try_from(kill).unwrap(), 300_000);
        origin.publish(&from.write("a", &content)).await;
        let reader = home.start(&["get", "a"]);
        tokio::time::sleep(takes.mul_f64(random.random()).min(Duration::from_secs(1))).await;
        reader.signal("KILL");
        drop(reader);
    }
    let newest = origin.publish(&from.write("a", b"the last version")).await;
    let listed = home.done(&["ls"]);
    assert!(
        listed.out.iter().all(|line| !line.contains("changed") && !line.contains("missing")),
        "{listed:?}"
    );
    home.done(&["get", "a"]);
    assert_eq!((home.read("a").as_slice(), newest.version.get()), (&b"the last version"[..], KILLS + 3));
    assert!(home.partial_len() == 0);
}

/// A folder is usable whenever its first process was killed.
#[testkit::test]
async fn a_process_that_is_killed_in_its_first_moments_leaves_a_folder_that_works() {
    for after_ms in 1..30 {
        let home = Home::with(&["--indexer", "127.0.0.1:1"]);
        let first = home.start(&["ls"]);
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        first.signal("KILL");
        drop(first);
        let second = home.done(&["ls"]);
        assert!(second.err.iter().all(|line| !line.contains("damaged")), "{after_ms} ms: {second:?}");
        let files = std::fs::read_dir(home.path(".neko")).unwrap().map(|file| file.unwrap().file_name());
        let left: Vec<_> = files.filter(|file| file.to_string_lossy().starts_with(".tmp")).collect();
        assert!(left.is_empty(), "{after_ms} ms: {left:?}");
    }
}
