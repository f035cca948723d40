//! Readers that are killed at any moment, again and again: their copies go on following.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::seeds;

use crate::{common::network, program::*};

#[testkit::test(multi_thread)]
async fn copy_of_a_reader_that_is_killed_again_and_again_follows_without_force() {
    let (indexer, [(from, origin)]) = network().await;
    let home = Home::with(&["--indexer", &indexer.local_addr().to_string()]);
    origin.publish(&from.write("a", b"version 0")).await;
    home.done(&["get", "a"]);
    // As long as a download takes, from its first to its last moment.
    let began = Instant::now();
    origin.publish(&from.write("a", b"version 1")).await;
    home.done(&["get", "a"]);
    let takes = began.elapsed();
    for seed in seeds(16) {
        origin.publish(&from.write("a", &bytes(seed, 300_000))).await;
        let reader = home.start(&["get", "a"]);
        let part = StdRng::seed_from_u64(seed).random();
        tokio::time::sleep(takes.mul_f64(part).min(Duration::from_secs(1))).await;
        reader.kill();
    }
    origin.publish(&from.write("a", b"the last version")).await;
    let listed = home.done(&["ls"]);
    let is_intact = |line: &String| !line.contains("changed") && !line.contains("missing");
    assert!(listed.out.iter().all(is_intact), "{listed:?}");
    home.gets("a", b"the last version");
    assert!(home.partials().is_empty());
}

#[testkit::test]
async fn a_process_that_is_killed_in_its_first_moments_leaves_a_folder_that_works() {
    for seed in seeds(10) {
        let after_ms = 1 + 3 * seed;
        let home = Home::with(&["--indexer", "127.0.0.1:1"]);
        let first = home.start(&["get", "nothing"]);
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        first.kill();
        for words in [&["get", "nothing"][..], &["ls"]] {
            let second = home.run(words);
            assert!(second.err.iter().all(|line| !line.contains("damaged")), "{after_ms} ms: {second:?}");
            assert!(second.code == Some(0) || words[0] == "get", "{after_ms} ms: {second:?}");
        }
        let files = std::fs::read_dir(home.path(".neko")).unwrap().map(|file| file.unwrap().file_name());
        let left: Vec<_> = files.filter(|file| file.to_string_lossy().starts_with(".tmp")).collect();
        assert!(left.is_empty(), "{after_ms} ms: {left:?}");
    }
}
