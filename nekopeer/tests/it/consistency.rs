//! News of a newer version: how it reaches copies, and what readers do with them.

use crate::common::*;

struct Stage {
    indexer: IndexerHandle,
    from: Folder,
    origin: Node,
    to: Folder,
    reader: Node,
}

impl Stage {
    async fn set(policy: Policy, change: impl FnOnce(&mut Config)) -> Self {
        let indexer = indexer(&[]).await;
        let (from, to) = (Folder::new(), Folder::new());
        let origin = from.peer_with(&[indexer.local_addr()], |config| config.policy = policy).await;
        origin.publish(&from.write("a", b"version 1")).await;
        let reader = to.peer_with(&[indexer.local_addr()], change).await;
        reader.get("a").await.unwrap();
        reader.peer.check_copies().await;
        assert!(reader.is("a", Freshness::Fresh).await);
        Self { indexer, from, origin, to, reader }
    }

    async fn publish(&self, version: u64) {
        let content = format!("version {version}");
        let record = self.origin.publish(&self.from.write("a", content.as_bytes())).await;
        assert_eq!(record.version.get(), version);
    }
}

fn lazy_pull() -> Policy {
    policy(Mode::Pull, 600)
}

fn lasting_push() -> Policy {
    policy(Mode::Push, 600)
}

#[testkit::test]
async fn push_reaches_holders_two_indexers_away() {
    let first = indexer(&[]).await;
    let second = indexer(&[first.local_addr()]).await;
    let third = indexer(&[second.local_addr()]).await;
    // Each is a guest of the one before it.
    second.neighbors_reach(1).await;
    third.neighbors_reach(1).await;
    let from = Folder::new();
    let origin = from.peer_with(&[first.local_addr()], |config| config.policy = lasting_push()).await;
    let (_to, mut reader) = peer(&[third.local_addr()]).await;
    let record = origin.publish(&from.write("a", b"version 1")).await;
    // A holder that never calls the origin: only its indexer tells it.
    let mut remote = Holder::idle(2);
    remote.register(third.local_addr(), [record.to_signed()]).await;
    reader.get("a").await.unwrap();
    let newer = origin.publish(&from.write("a", b"version 2")).await;
    reader.invalidated("a", 2).await;
    assert!(reader.is("a", Freshness::Stale).await);
    assert_eq!(remote.told.recv().await.unwrap().into_vec(), [newer.to_signed()]);
}

/// An origin behind one indexer knows who confirmed a copy; a holder behind another one never asks it, so only indexers
/// tell that one.
#[testkit::test]
async fn update_goes_to_subscribers_alone_and_through_indexers_if_one_is_silent_or_the_origin_starts() {
    /// Outlasts the rounds in which the origin tells a silent subscriber before it has the indexers told.
    const LEASE_SECS: u32 = 9;
    let first = indexer(&[]).await;
    let second = indexer(&[first.local_addr()]).await;
    second.neighbors_reach(1).await;
    let from = Folder::new();
    let config = || Config { policy: policy(Mode::Push, LEASE_SECS), ..from.config(&[first.local_addr()]) };
    let origin = Node::registered(config()).await;
    let record = origin.publish(&from.write("a", b"version 1")).await;
    let (mut unknown, mut known) = (Holder::idle(2), Holder::idle(3));
    unknown.register(second.local_addr(), [record.to_signed()]).await;
    // Until then a copy may be fresh that was confirmed before the origin began.
    tokio::time::sleep(Duration::from_secs(LEASE_SECS.into())).await;
    let second = origin.publish(&from.write("a", b"version 2")).await;
    known.subscribe(origin.addr(), &second).await;
    let third = origin.publish(&from.write("a", b"version 3")).await;
    assert_eq!(known.told.recv().await.unwrap().into_vec(), [third.to_signed()]);
    known.subscribe(origin.addr(), &third).await;
    known.hangs();
    let fourth = origin.publish(&from.write("a", b"version 4")).await;
    assert_eq!(known.told.recv().await.unwrap().into_vec(), [fourth.to_signed()]);
    assert_eq!(unknown.told.recv().await.unwrap().into_vec(), [fourth.to_signed()], "and of no other");
    drop(known);
    let fifth = origin.publish(&from.write("a", b"version 5")).await;
    origin.peer.abort().await;
    assert!(unknown.told.try_recv().is_err());
    let _origin = Node::registered(config()).await;
    assert_eq!(unknown.told.recv().await.unwrap().into_vec(), [fifth.to_signed()]);
}

#[testkit::test]
async fn lost_push_is_made_up_for_within_the_lease() {
    const LEASE_SECS: u32 = 2;
    let (_port, listen) = kept_port();
    let indexer = indexer(&[]).await;
    let from = Folder::new();
    let policy = policy(Mode::Push, LEASE_SECS);
    let config = |indexers: &[_]| Config { policy, listen: Some(listen), ..from.config(indexers) };
    let origin = Node::registered(config(&[indexer.local_addr()])).await;
    let (_to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.peer.check_copies().await;
    assert!(reader.is("a", Freshness::Fresh).await);
    // No indexer, and a restarted origin without subscribers: nobody sends an invalidation.
    indexer.shutdown().await;
    origin.peer.abort().await;
    let origin = Node::start(config(&[])).await;
    origin.publish(&from.write("a", b"version 2")).await;
    let since = Instant::now();
    reader.invalidated("a", 2).await;
    assert!(since.elapsed() < Duration::from_secs(LEASE_SECS.into()) * 5, "{:?}", since.elapsed());
}

#[testkit::test]
async fn pull_pushes_nothing_and_finds_and_refetches_the_newer_version() {
    let refetch = |config: &mut Config| config.on_stale = OnStale::Refetch;
    let mut stage = Stage::set(policy(Mode::Pull, 1), refetch).await;
    let mut watcher = Holder::idle(2);
    let held = stage.reader.status("a").await.unwrap().record;
    watcher.register(stage.indexer.local_addr(), [held.to_signed()]).await;
    stage.publish(2).await;
    let (version, moved) = stage.reader.event(refreshed).await;
    assert_eq!((version, moved), (2, 9));
    assert_eq!(stage.to.read("a"), b"version 2");
    assert_eq!(stage.reader.status("a").await.unwrap().record.version.get(), 2);
    assert!(watcher.told.try_recv().is_err(), "holders under pull receive no invalidation");
}

fn refreshed(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::Refreshed { version, bytes_moved, .. } => Some((version.get(), *bytes_moved)),
        Event::Failed { why, .. } => panic!("{why}"),
        _ => None,
    }
}

#[testkit::test]
async fn stricter_reader_asks_before_the_policy_requires_it() {
    let strict = |config: &mut Config| config.ttr = Some(Duration::from_secs(1));
    let mut stage = Stage::set(lazy_pull(), strict).await;
    stage.publish(2).await;
    stage.reader.invalidated("a", 2).await;
}

#[testkit::test]
async fn pushed_refetch_replaces_a_copy_each_time_wherever_it_is() {
    let elsewhere = Folder::new();
    let refetch = |config: &mut Config| config.on_stale = OnStale::Refetch;
    let mut stage = Stage::set(lasting_push(), refetch).await;
    stage.origin.publish(&stage.from.write("b", b"version 1")).await;
    let output = Some(elsewhere.path("copy"));
    let options = nekopeer::DownloadOptions { output, ..Default::default() };
    stage.reader.get_with("b", options).await.unwrap();
    stage.reader.peer.check_copies().await;
    for version in 2..6 {
        let content = format!("version {version}");
        stage.origin.publish(&stage.from.write("b", content.as_bytes())).await;
        assert_eq!(stage.reader.event(refreshed).await.0, version);
        assert_eq!(elsewhere.read("copy"), content.as_bytes());
    }
    assert!(!stage.to.has("b"));
}

#[testkit::test]
async fn refetch_that_finds_nothing_newer_is_tried_again_until_it_does() {
    let indexer = indexer(&[]).await;
    let [old, new, last] = [1, 2, 3].map(|version| Goods::new(1, "a", version, bytes(version, 9)));
    let (scripts, to) = ([old.clone(), new.clone(), last.clone()], Folder::new());
    let has_new = Arc::new(AtomicBool::new(false));
    let serves = Arc::clone(&has_new);
    let origin = Holder::begin(1, move |request| match request {
        DataRequest::Get { content, .. } if *content == scripts[0].record.content => {
            scripts[0].honest(request)
        }
        DataRequest::Get { content, .. } if *content == scripts[2].record.content => {
            scripts[2].honest(request)
        }
        _ if serves.load(Ordering::Relaxed) => scripts[1].honest(request),
        _ => ScriptedReply::refusal(FetchRefusal::NotShared),
    });
    origin.register(indexer.local_addr(), [old.record.to_signed()]).await;
    let refetch = |config: &mut Config| config.on_stale = OnStale::Refetch;
    let mut reader = to.peer_with(&[indexer.local_addr()], refetch).await;
    reader.get("a").await.unwrap();
    origin.tell(reader.addr(), [new.record.to_signed()]).await.unwrap(); // it is nowhere
    let failed = |event: &Event| match event {
        Event::Failed { why, .. } => Some(why.clone()),
        _ => None,
    };
    assert_eq!(reader.event(failed).await, "only version 1 can be found");
    assert_eq!(to.read("a"), old.bytes);
    has_new.store(true, Ordering::Relaxed);
    origin.register(indexer.local_addr(), [new.record.to_signed()]).await;
    assert_eq!(reader.event(refreshed).await.0, 2);
    assert_eq!(to.read("a"), new.bytes);
    origin.tell(reader.addr(), [last.record.to_signed()]).await.unwrap();
    assert_eq!(reader.event(refreshed).await.0, 3, "from who told it: it is listed nowhere");
    assert_eq!(to.read("a"), last.bytes);
}

#[testkit::test]
async fn outdated_copy_is_dropped_where_configured_also_if_it_is_gone_from_disk_unless_somebody_changed_it() {
    let drops = |config: &mut Config| config.on_stale = OnStale::Drop;
    for is_gone in [false, true] {
        let mut stage = Stage::set(lasting_push(), drops).await;
        if is_gone {
            fs::remove_file(stage.to.path("a")).unwrap(); // as a drop that was killed leaves it
        }
        stage.publish(2).await;
        stage.reader.sees(&Event::Dropped(name("a"))).await;
        assert!(!stage.to.has("a"));
        assert!(stage.reader.peer.files().await.is_empty());
    }

    let mut stage = Stage::set(lasting_push(), drops).await;
    stage.to.write("a", b"my own work");
    stage.publish(2).await;
    let kept = |event: &Event| match event {
        Event::Failed { why, .. } => Some(why.clone()),
        Event::Dropped(_) => panic!("it was dropped"),
        _ => None,
    };
    let why = stage.reader.event(kept).await;
    assert!(why.contains("kept"), "{why}");
    assert_eq!(stage.to.read("a"), b"my own work");
}

/// Goal: large files leave turns to small ones. Method: as many origins as have turns hang with a large file each.
#[testkit::test]
async fn small_copy_is_refetched_while_large_ones_have_their_turns() {
    let indexer = indexer(&[]).await;
    let to = Folder::new();
    let mut reader = to.peer_with(&[indexer.local_addr()], |config| config.on_stale = OnStale::Refetch).await;
    let mut holders = Vec::new();
    for (seed, len) in (1..).zip([2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB, 9]) {
        let of_version = |n| Goods::new(seed, &seed.to_string(), n, bytes(u64::from(seed) * 10 + n, len));
        let (old, new, is_new) = (of_version(1), of_version(2), Arc::new(AtomicBool::new(false)));
        let (records, is_newer) = ([&old, &new].map(|goods| goods.record.to_signed()), Arc::clone(&is_new));
        let mut holder = Holder::begin(seed, move |request| match is_newer.load(Ordering::Relaxed) {
            false => old.honest(request),
            true if len > MIB => ScriptedReply::granting(1, Vec::new()).then(Then::Hang),
            true => new.honest(request),
        });
        let [first, second] = records;
        holder.register(indexer.local_addr(), [first]).await;
        reader.get(&seed.to_string()).await.unwrap();
        while holder.asked.try_recv().is_ok() {}
        is_new.store(true, Ordering::Relaxed);
        holder.register(indexer.local_addr(), [second]).await;
        holder.asked.recv().await.unwrap();
        holders.push(holder);
    }
    assert_eq!(reader.event(refreshed).await, (2, 9), "the small one");
}

#[testkit::test]
async fn download_that_finds_its_copy_outdated_is_not_dropped_itself() {
    let mut stage = Stage::set(lazy_pull(), |config| config.on_stale = OnStale::Drop).await;
    for version in 2..6 {
        stage.publish(version).await;
        // The copy may just be dropped.
        let got = eventually(async || match stage.reader.get("a").await {
            Err(Failure { reason: Reason::AlreadyRunning, .. }) => None,
            got => Some(got),
        });
        assert_eq!(got.await.unwrap().record.version.get(), version);
        stage.reader.peer.check_copies().await;
        assert!(stage.reader.is("a", Freshness::Fresh).await, "{:?}", stage.reader.unseen());
        assert_eq!(stage.to.read("a"), format!("version {version}").as_bytes());
    }
}

/// A connection that was closed meanwhile is made anew.
#[testkit::test]
async fn the_next_version_comes_over_the_connection_of_the_one_before() {
    for (len, closes) in
        [CHUNK_BYTES / 2, 3 * CHUNK_BYTES].into_iter().flat_map(|len| [(len, false), (len, true)])
    {
        let indexer = indexer(&[]).await;
        let [old, new] = [1, 2].map(|number| Goods::new(1, "a", number, bytes(number, len)));
        let (first, next) = (old.clone(), new.clone());
        let origin = Holder::begin(1, move |request| match request {
            DataRequest::Confirm(_) => {
                let current = ScriptedReply::of(codec::encode(&Verdict::Current).unwrap());
                current.then(if closes { Then::Close } else { Then::GoOn })
            }
            DataRequest::Get { content, .. } if *content == first.record.content => first.honest(request),
            DataRequest::Manifest(hash) if *hash == first.record.manifest => first.honest(request),
            _ => next.honest(request),
        });
        origin.register(indexer.local_addr(), [old.record.to_signed()]).await;
        let refetch = |config: &mut Config| config.on_stale = OnStale::Refetch;
        let to = Folder::new();
        let mut reader = to.peer_with(&[indexer.local_addr()], refetch).await;
        reader.get("a").await.unwrap();
        origin.tell(reader.addr(), [new.record.to_signed()]).await.unwrap();
        reader.event(|event| matches!(event, Event::Refreshed { .. }).then_some(())).await;
        assert!(to.read("a") == new.bytes);
        // A list of chunks that does not come in time is asked for over another one too.
        let most = 1 + usize::from(closes) + usize::from(len > CHUNK_BYTES);
        let streams = origin.streamed.load(Ordering::SeqCst);
        assert!((1 + usize::from(closes)..=most).contains(&streams), "{len} bytes, {closes}: {streams}");
    }
}
