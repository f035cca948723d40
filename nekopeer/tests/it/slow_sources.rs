//! Sources that hardly send, do not answer, are busy, or promise more than fits: a download ends soon, and says why.

use crate::{common::*, program};
use nekoproto::limits::FILE_BYTES_MAX;

/// Between two bytes: longer than what any download takes that does not wait for them.
const TRICKLE: Duration = Duration::from_secs(15);

fn data_trickles(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    match request {
        DataRequest::Get { .. } => goods.honest(request).trickling(TRICKLE),
        _ => goods.honest(request),
    }
}

fn manifest_trickles(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    match request {
        DataRequest::Manifest(_) => goods.honest(request).trickling(TRICKLE),
        _ => goods.honest(request),
    }
}

/// Asserts that the download ends within `limit` after the user is told what it waits for, whereupon `is_told` is called;
/// returns why.
async fn gives_up(reader: &Node, limit: Duration, is_told: impl FnOnce()) -> String {
    let (progress, file) = (Arc::new(Progress::default()), name("a"));
    let downloading = reader.peer.download(&file, DownloadOptions::default(), &progress);
    let told = async {
        let told = eventually(async || progress.waiting_for()).await;
        is_told();
        (told, Instant::now())
    };
    let (ended, (told, began)) = tokio::join!(downloading, told);
    assert!(told.contains("waiting for") && told.contains("source"), "{told}");
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
    assert_eq!(progress.waiting_for(), None);
    ended.unwrap_err().to_string()
}

#[testkit::test]
async fn sole_holder_that_trickles_is_given_up() {
    let script = |trickles| async move {
        let (indexer, [(_to, reader)]) = network().await;
        let goods = Goods::new(1, "a", 1, bytes(1, MIB));
        let _slow = goods.served(1, indexer.local_addr(), trickles).await;
        gives_up(&reader, Duration::from_secs(30), || ()).await
    };
    let (data, manifest) = tokio::join!(script(data_trickles as fn(&_, &_) -> _), script(manifest_trickles));
    assert!(data.contains("no source sent anything of use for 20 s"), "{data}");
    for why in [data, manifest] {
        assert!(why.contains("less than 4 KiB/s"), "{why}");
    }
}

/// Method: the only source has a half of the file, which it sends until a reader waits. Both readers have it then, and ask each
/// other.
#[testkit::test(multi_thread)]
async fn readers_whose_source_is_gone_give_up_once_nothing_came_for_the_time_that_is_said() {
    let indexer = indexer(&[]).await;
    let goods = Goods::new(1, "a", 1, bytes(1, 16 * MIB));
    let (half, is_gone) = (goods.bytes.len() as u64 / 2, Arc::new(AtomicBool::new(false)));
    let gone = Arc::clone(&is_gone);
    let script = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { ranges, .. }
            if gone.load(Ordering::SeqCst) || ranges.iter().any(|range| range.offset + range.len > half) =>
        {
            ScriptedReply::refusal(FetchRefusal::NotShared)
        }
        request => goods.honest(request),
    };
    let _source = goods.served(1, indexer.local_addr(), script).await;
    let folders = [Folder::new(), Folder::new()];
    let read = folders.each_ref().map(async |folder| {
        let reader = Node::registered(folder.config(&[indexer.local_addr()])).await;
        gives_up(&reader, Duration::from_secs(35), || is_gone.store(true, Ordering::SeqCst)).await
    });
    for why in futures::future::join_all(read).await {
        assert!(why.contains("% of it did not come"), "{why}");
    }
}

/// Method: it refuses the first request only; beside it is one that hardly sends.
#[testkit::test]
async fn source_that_shares_the_file_again_is_asked_again() {
    let (indexer, [(to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, MIB));
    let shares = AtomicBool::new(false);
    let script = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { .. } if !shares.swap(true, Ordering::SeqCst) => {
            ScriptedReply::refusal(FetchRefusal::NotShared)
        }
        request => goods.honest(request),
    };
    let _again = goods.served(1, indexer.local_addr(), script).await;
    let _slow = goods.served(2, indexer.local_addr(), data_trickles).await;
    reader.gets(&to, "a", &goods.bytes).await;
}

#[testkit::test]
async fn holder_that_trickles_is_not_waited_for_when_another_is_there() {
    for trickles in [data_trickles, manifest_trickles] {
        for len in [CHUNK_BYTES / 2, MIB] {
            let goods = Goods::new(1, "a", 1, bytes(1, len));
            let (indexer, [(to, reader)]) = network().await;
            let _slow = goods.served(1, indexer.local_addr(), trickles).await;
            let _honest = goods.held(2, indexer.local_addr()).await;
            let took = reader.get("a").await.unwrap().took;
            assert!(to.read("a") == goods.bytes);
            assert!(took < TRICKLE, "{took:?} for {len} bytes");
        }
    }
}

#[testkit::test]
async fn mute_holder_of_many_small_files_is_left_for_another() {
    for delivers in [0, 1] {
        let (indexer, [(to, reader)]) = network().await;
        let goods = ["a", "b", "c", "d"].map(|text| Goods::new(2, text, 1, bytes(2, CHUNK_BYTES / 2)));
        let records = || goods.iter().map(|goods| goods.record.to_signed()).collect::<Vec<_>>();
        let (file, same, left) = (goods[0].clone(), goods[0].clone(), AtomicUsize::new(delivers));
        let mute = Holder::begin(1, move |request| {
            match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
                Ok(_) => same.honest(request),
                Err(_) => ScriptedReply::of(Vec::new()).then(Then::Hang),
            }
        });
        let honest = Holder::begin(2, move |request| file.honest(request));
        for holder in [&mute, &honest] {
            holder.register(indexer.local_addr(), records()).await;
        }
        let names = ["a", "b", "c", "d"].map(name);
        let began = Instant::now();
        let outcomes = reader.get_all(&names).await;
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "after {delivers}: {outcomes:?}");
        assert!(began.elapsed() < STALL_TIMEOUT / 2, "after {delivers}: {:?}", began.elapsed());
        assert!(to.read("d") == goods[3].bytes);
    }
}

#[testkit::test]
async fn busy_source_is_asked_again_and_is_no_failure() {
    for len in [CHUNK_BYTES / 2, MIB] {
        let (indexer, [(to, reader)]) = network().await;
        let goods = Goods::new(1, "a", 1, bytes(1, len));
        let left = AtomicUsize::new(6);
        let script = move |goods: &Goods, request: &DataRequest| {
            let is_busy = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if is_busy.is_ok() { ScriptedReply::refusal(FetchRefusal::Busy) } else { goods.honest(request) }
        };
        let _busy = goods.served(1, indexer.local_addr(), script).await;
        reader.gets(&to, "a", &goods.bytes).await;
    }
}

/// As over a link that was down for a moment: the first connections break.
#[testkit::test]
async fn sole_holder_whose_connection_broke_is_asked_for_the_list_of_chunks_again() {
    let (indexer, [(to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 2 * MIB));
    let left = AtomicUsize::new(2);
    let script = move |goods: &Goods, request: &DataRequest| {
        let is_lost = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let breaks = || goods.honest(request).cut_to(0).then(Then::Close);
        if is_lost.is_ok() { breaks() } else { goods.honest(request) }
    };
    let _holder = goods.served(1, indexer.local_addr(), script).await;
    reader.gets(&to, "a", &goods.bytes).await;
}

/// The origin sends a part and is gone; a fellow reader lacks the same, and fails later.
#[testkit::test]
async fn an_origin_that_goes_is_named_with_what_did_not_come_and_no_fellow_reader() {
    let (indexer, [(_to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 4 * MIB));
    let (cut_off, is_gone) =
        (Arc::new(AtomicUsize::new(0)), |cut: &AtomicUsize| cut.load(Ordering::Relaxed) > 3);
    let cut = Arc::clone(&cut_off);
    let goes = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { .. } if cut.fetch_add(1, Ordering::Relaxed) > 0 => {
            goods.honest(request).cut_to(0).then(Then::Close)
        }
        _ => goods.honest(request),
    };
    let lacks = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Manifest(_) => goods.honest(request),
        _ if is_gone(&cut_off) => goods.honest(request).cut_to(0).then(Then::Close),
        _ => ScriptedReply::refusal(FetchRefusal::NotYet),
    };
    let origin = goods.served(1, indexer.local_addr(), goes).await;
    let _fellow = goods.served(2, indexer.local_addr(), lacks).await;
    let why = reader.get("a").await.unwrap_err().to_string();
    assert!(why.contains(&format!("source {} at", origin.endpoint.node().short())), "{why}");
    assert!(why.contains(" % of it did not come; "), "{why}");
}

#[testkit::test]
async fn small_files_that_came_are_kept_while_another_one_is_asked_for_again() {
    let refuses = || ScriptedReply::refusal(FetchRefusal::Busy);
    let hangs = || ScriptedReply::of(Vec::new()).then(Then::Hang);
    for reply in [refuses as fn() -> ScriptedReply, hangs] {
        let (indexer, [(to, reader)]) = network().await;
        let goods = [1, 2].map(|seed| Goods::new(1, &format!("f{seed}"), 1, bytes(seed, CHUNK_BYTES / 2)));
        let first = Holder::begin(1, move |_| reply());
        first.register(indexer.local_addr(), [goods[0].record.to_signed()]).await;
        let _second = goods[1].held(2, indexer.local_addr()).await;
        let (names, options, progress) = (["f1", "f2"].map(name), DownloadOptions::default(), Arc::default());
        let began = Instant::now();
        tokio::select! {
            outcomes = reader.peer.download_all(&names, &options, &progress) => panic!("{outcomes:?}"),
            () = eventually(async || (!reader.peer.files().await.is_empty()).then_some(())) => {}
        }
        assert!(to.read("f2") == goods[1].bytes);
        let took = began.elapsed();
        assert!(took < STALL_TIMEOUT / 2, "the other source was waited for: {took:?}");
    }
}

#[testkit::test]
async fn file_larger_than_the_disk_is_refused_before_its_manifest_is_fetched() {
    let (indexer, [(to, reader)]) = network().await;
    let goods = Goods::with(1, "a", 1, bytes(1, MIB), |record| record.size = FILE_BYTES_MAX);
    let mut holder = goods.held(1, indexer.local_addr()).await;
    let disk = rustix::fs::statvfs(to.path("")).unwrap();
    if disk.f_bavail * disk.f_frsize >= FILE_BYTES_MAX {
        return; // it fits
    }
    let error = reader.get("a").await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Full, "{error}");
    assert!(error.to_string().contains("1.0 TiB"), "{error}");
    assert!(holder.asked.try_recv().is_err() && to.partials().is_empty());
}

#[test]
fn stopped_sharer_is_named_and_given_up() {
    let (_indexers, from, to) = program::two_homes();
    let sharer = from.share_file("a", b"some bytes");
    sharer.signal("STOP");
    let began = Instant::now();
    let getting = to.start_err(&["get", "a"], "waiting for a from source");
    let ended = getting.wait();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let last = ended.err.last().unwrap();
    assert!(last.contains("no source delivers a") && last.contains("does not answer"), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Each of them waited for by itself, they would take many minutes.
#[test]
fn thousands_of_files_of_a_sharer_that_stops_midway_are_given_up_together() {
    const FILES: usize = 3000;
    let (_indexers, from, to) = program::two_homes();
    (0..FILES).for_each(|n| drop(from.write(&format!("many/f{n}"), bytes(n as u64, 9000))));
    let mut sharer = from.share(&["many", "--limit-up", "2MB"]);
    let getting = to.start(&["get", "many/"]);
    let came = || std::fs::read_dir(to.path("many")).map_or(0, Iterator::count);
    program::until(&mut sharer, "the first files", || came() > FILES / 30);
    sharer.signal("STOP");
    getting.wait().ended_with(3, "none of its sources answers any more");
}
