//! Runs of files that come packed: after the version that the reader has, or alone; and sources that pack wrongly.

use std::num::NonZeroU64;

use crate::common::*;

const SIZE: usize = 8 * MIB;

/// With a byte changed every so many.
fn edited(bytes: &[u8], every: usize) -> Vec<u8> {
    let mut edited = bytes.to_vec();
    edited.iter_mut().step_by(every).skip(1).for_each(|byte| *byte ^= 1);
    edited
}

/// The bases that a peer keeps, and their bytes.
fn bases(of: &Folder) -> Vec<(PathBuf, u64)> {
    let found = fs::read_dir(of.path(".neko/kept")).into_iter().flatten().flatten();
    let whole = found.filter(|file| file.path().extension().is_none()); // no copy that is being made
    whole.filter_map(|file| Some((file.path(), file.metadata().ok()?.len()))).collect()
}

/// Publishes these bytes, and waits until all of them are kept, and of the version before what they do not have.
async fn published(origin: &Node, from: &Folder, content: &[u8]) {
    origin.publish(&from.write("a", content)).await;
    let is_whole = |(_, len): &&(PathBuf, u64)| *len == content.len() as u64;
    eventually(async || {
        let (kept, of) = (bases(from), |path: &PathBuf| fs::read(path).unwrap_or_default());
        (kept.iter().filter(is_whole).count() == 1 && kept.iter().any(|(path, _)| of(path) == content))
            .then_some(())
    })
    .await;
}

#[testkit::test(multi_thread)]
async fn update_moves_what_changed_and_not_the_chunks_around_it_and_a_damaged_base_costs_bytes_and_no_file() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let first = bytes(1, SIZE);
    published(&origin, &from, &first).await;
    reader.get("a").await.unwrap();
    let second = edited(&first, 400_000);
    published(&origin, &from, &second).await;
    let done = reader.gets(&to, "a", &second).await;
    assert!(done.bytes_moved < CHUNK_BYTES as u64 / 4, "{} bytes for 20 that changed", done.bytes_moved);
    // What the origin packs the next one after is not what the reader has.
    let third = edited(&second, 500_000);
    published(&origin, &from, &third).await;
    for (path, len) in bases(&from) {
        fs::write(path, vec![7; usize::try_from(len).unwrap()]).unwrap();
    }
    reader.gets(&to, "a", &third).await;
}

/// However many versions it was away.
#[testkit::test(multi_thread)]
async fn reader_that_missed_versions_catches_up_in_one_step_and_bases_are_bounded() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let mut content = bytes(1, SIZE);
    for version in 1..=6 {
        published(&origin, &from, &content).await;
        if version == 3 {
            reader.get("a").await.unwrap();
        }
        content = edited(&content, 400_000 + version);
    }
    let done = reader.gets(&to, "a", from.read("a")).await;
    assert!(done.bytes_moved < CHUNK_BYTES as u64, "{} bytes", done.bytes_moved);
    let settled = eventually(async || Some(bases(&from)).filter(|kept| kept.len() == 4)).await;
    let sum = settled.iter().map(|(_, len)| len).sum::<u64>();
    assert!(sum < 3 * SIZE as u64, "the earlier ones are differences: {settled:?}");
    origin.peer.deregister(&name("a")).await.unwrap();
    assert_eq!(bases(&from), []);
}

#[testkit::test(multi_thread)]
async fn bases_stay_within_what_the_user_allows() {
    let indexer = indexer(&[]).await;
    let from = Folder::new();
    let max = 5 * MIB as u64;
    let origin = from.peer_with(&[indexer.local_addr()], |config| config.keep_base = Some(max)).await;
    for text in ["large", "b", "c", "small"] {
        let len = [("large", 6 * MIB), ("small", MIB / 16)].iter().find(|(name, _)| *name == text);
        let path = from.write(text, &bytes(text.len() as u64, len.map_or(3 * MIB, |(_, len)| *len)));
        origin.publish(&path).await;
    }
    eventually(async || (!bases(&from).is_empty()).then_some(())).await;
    origin.publish(&from.write("b", &bytes(9, 4 * MIB))).await; // its base is looked at behind those of the others
    origin.publish(&from.write("c", &bytes(9, MIB))).await;
    let kept = eventually(async || Some(bases(&from)).filter(|kept| kept.len() == 2)).await;
    assert!(kept.iter().map(|(_, len)| len).sum::<u64>() <= max, "{kept:?}");
    // Fewer are allowed at the next start.
    origin.peer.shutdown().await;
    let origin = from.peer_with(&[indexer.local_addr()], |config| config.keep_base = Some(0)).await;
    eventually(async || bases(&from).is_empty().then_some(())).await;
    // And more at the one after that, which keeps what none before it did.
    origin.peer.shutdown().await;
    let _origin = from.peer_with(&[indexer.local_addr()], |config| config.keep_base = Some(max)).await;
    eventually(async || (bases(&from).len() == 2).then_some(())).await;
}

#[testkit::test]
async fn source_that_packs_nonsense_is_left_and_others_are_asked() {
    let range = |offset, len| ByteRange { offset, len };
    let after = |base, ranges: &[ByteRange]| Packing::After { base, ranges: List::first_of(ranges.to_vec()) };
    let lies: [(Packing, Vec<u8>); 7] = [
        (Packing::Plain, vec![0; 5]),
        (Packing::Frame, vec![0; 5]),
        (Packing::Frame, Vec::new()),
        (after(0, &[range(u64::MAX, 2)]), vec![1; 9]),
        (after(0, &[range(0, 1 << 40)]), vec![1; 9]),
        (after(9, &[range(0, 10)]), vec![1; 9]),
        (after(0, &[range(0, 1000)]), vec![1; 9]), // wrong for whatever reason
    ];
    for (packing, bytes_of_lie) in lies {
        let (indexer, [(to, reader)]) = network().await;
        let goods = |version| Goods::new(1, "a", version, bytes(version, MIB));
        let (first, second) = (goods(1), goods(2));
        let held = first.held(1, indexer.local_addr()).await;
        reader.get("a").await.unwrap();
        drop(held);
        let lying = move |goods: &Goods, request: &DataRequest| match request {
            DataRequest::Get { .. } => ScriptedReply::packed(&packing, &bytes_of_lie),
            _ => goods.honest(request),
        };
        let _liar = second.served(1, indexer.local_addr(), lying).await;
        let _honest = second.held(2, indexer.local_addr()).await;
        reader.gets(&to, "a", &second.bytes).await;
    }
}

/// Where the way is slow, and where packing brings something.
#[testkit::test(multi_thread)]
async fn first_download_of_text_over_a_slow_way_comes_packed() {
    let indexer = indexer(&[]).await;
    let (from, (to, reader)) = (Folder::new(), peer(&[indexer.local_addr()]).await);
    let slow = |config: &mut Config| config.limit_up = NonZeroU64::new(8 * MIB as u64);
    let origin = from.peer_with(&[indexer.local_addr()], slow).await;
    let text: String = (0..400_000).map(|line| format!("line {line}\n")).collect();
    origin.publish(&from.write("text", text.as_bytes())).await;
    origin.publish(&from.write("noise", &bytes(1, text.len()))).await;
    let done = reader.gets(&to, "text", text.as_bytes()).await;
    assert!(done.bytes_moved < text.len() as u64 * 3 / 4, "{} of {} bytes", done.bytes_moved, text.len());
    let done = reader.gets(&to, "noise", from.read("noise")).await;
    let more = done.bytes_moved as f64 / text.len() as f64;
    assert!((0.99..1.01).contains(&more), "noise is not longer packed: {more}");
}
