//! Corrupt, failing or hanging holders and indexers: a download ends with the right file or with none.

use crate::common::*;

type Trick = fn(&Goods, &DataRequest) -> ScriptedReply;

/// A hostile origin and a reader. The origin is the first source, so it is asked for the manifest and the
/// first chunks.
struct Stage {
    indexer: IndexerHandle,
    goods: Goods,
    _origin: Holder,
    to: Folder,
    reader: Node,
}

impl Stage {
    async fn set(
        goods: Goods,
        trick: impl Fn(&Goods, &DataRequest) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        let (indexer, [(to, reader)]) = network().await;
        let origin = goods.served(1, indexer.local_addr(), trick).await;
        Self { indexer, goods, _origin: origin, to, reader }
    }

    async fn with_chunks(goods: Goods, trick: Trick) -> Self {
        Self::set(goods, move |goods, request| match request {
            DataRequest::Get { .. } => trick(goods, request),
            _ => goods.honest(request),
        })
        .await
    }

    async fn completes(&self) {
        let _honest = self.goods.held(2, self.indexer.local_addr()).await;
        let done = self.reader.get("a").await.unwrap();
        assert_eq!(done.bytes_moved, self.goods.bytes.len() as u64, "only verified bytes count");
        let of_sources: u64 = done.sources.iter().map(|source| source.bytes).sum();
        assert_eq!(of_sources, done.bytes_moved, "{:?}", done.sources);
        assert!(self.to.read("a") == self.goods.bytes);
    }

    async fn fails(&self, expected: &str) {
        let error = self.reader.get("a").await.unwrap_err();
        assert!(!self.to.has("a"));
        assert!(self.reader.peer.files().await.is_empty());
        assert_eq!(error.reason, Reason::NoSource, "{error}");
        assert!(error.message.contains(expected), "{expected}: {error}");
    }
}

fn file() -> Goods {
    Goods::new(1, "a", 1, bytes(1, 2 * MIB + 17))
}

fn dies_in_the_third_chunk(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    goods.honest(request).cut_to(2 * CHUNK_BYTES + 1).then(Then::Close)
}

#[testkit::test(multi_thread)]
async fn source_that_is_wrong_is_made_up_for_by_another_and_alone_puts_nothing_in_place() {
    let tricks: [(Trick, &str); 6] = [
        (
            |goods, request| {
                let mut bytes = goods.asked(request);
                let at = (2 * CHUNK_BYTES).min(bytes.len() - 1);
                bytes[at] ^= 1;
                ScriptedReply::of(bytes)
            },
            "corrupt",
        ),
        (dies_in_the_third_chunk, ""),
        (|goods, request| goods.honest(request).cut_to(0).then(Then::Close), "the connection broke"),
        (
            |goods, request| {
                let bytes = goods.asked(request);
                ScriptedReply::granting(bytes.len() as u64 + 1, bytes)
            },
            "it offered",
        ),
        (|_, _| ScriptedReply::granting(u64::MAX, Vec::new()), "it offered"),
        (|_, _| ScriptedReply::refusal(FetchRefusal::Unreadable), "cannot read the file"),
    ];
    join_all(tricks.map(async |(trick, why)| {
        if !why.is_empty() {
            Stage::with_chunks(file(), trick).await.fails(why).await;
        }
        Stage::with_chunks(file(), trick).await.completes().await;
    }))
    .await;
    let goods = Goods::new(1, "a", 1, bytes(1, 5 * CHUNK_BYTES));
    let stage = Stage::with_chunks(goods, dies_in_the_third_chunk).await;
    let done = stage.reader.get("a").await.unwrap();
    assert_eq!(done.bytes_moved, stage.goods.bytes.len() as u64, "it is asked until all is there");
    assert!(stage.to.read("a") == stage.goods.bytes);
}

#[testkit::test]
async fn manifest_and_record_that_contradict_each_other_put_nothing_in_place() {
    let other = Goods::new(1, "a", 1, bytes(9, 2 * MIB + 17));
    let stage = Stage::set(file(), move |_, request| other.honest(request)).await;
    stage.fails("the manifest is not the one").await;
    stage.completes().await;
    let endless: Trick = |_, _| ScriptedReply::granting(u64::MAX, Vec::new());
    Stage::set(file(), endless).await.fails("it offered").await;
    let goods = Goods::with(1, "a", 1, bytes(1, MIB), |record| record.size -= 1);
    Stage::set(goods, Goods::honest).await.fails("the chunks add up to").await;
    let goods = Goods::with(1, "a", 1, bytes(1, MIB), |record| {
        record.content = ContentHash::from_bytes([9; 32]);
    });
    let stage = Stage::set(goods, Goods::honest).await;
    let error = stage.reader.get("a").await.unwrap_err();
    assert_eq!(error.reason, Reason::OriginLies, "{error}");
    assert!(!stage.to.has("a") && stage.to.partials().is_empty());
}

/// When nothing else is missing, the other source takes over the chunks leased to the stuck holder, before
/// that one is given up.
#[testkit::test]
async fn source_that_accepts_and_never_answers_is_overtaken() {
    let goods = Goods::new(1, "a", 1, bytes(1, 18 * MIB));
    let stage = Stage::set(goods, Goods::honest).await;
    let hangs = |_: &Goods, _: &DataRequest| ScriptedReply::of(Vec::new()).then(Then::Hang);
    let mut stuck = stage.goods.served(2, stage.indexer.local_addr(), hangs).await;
    let done = stage.reader.gets(&stage.to, "a", &stage.goods.bytes).await;
    assert!(done.took < nekoproto::limits::STALL_TIMEOUT / 2, "{:?}", done.took);
    assert!(stuck.asked.try_recv().is_ok(), "the stuck holder was never asked, so nothing was tested");
}

#[testkit::test]
async fn another_node_at_the_listed_address_is_not_asked() {
    let goods = file();
    let script = goods.clone();
    let mut impostor = Holder::begin(66, move |request| script.honest(request));
    let indexer = Fake::of_peers(Habit::says([hit(goods.record.to_signed(), 1, impostor.addr)]));
    let (to, reader) = peer(&[indexer.addr]).await;
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains("expected node"), "{error}");
    assert!(impostor.asked.try_recv().is_err() && !to.has("a"));
}

#[testkit::test]
async fn forged_and_misnamed_hits_are_left_out_and_make_the_answer_incomplete() {
    let (goods, misnamed, indexer) = (file(), Goods::new(3, "b", 7, Vec::new()), indexer(&[]).await);
    let honest = goods.held(1, indexer.local_addr()).await;
    let liar = Fake::of_peers(Habit::says([
        hit(forged(99, 1, "a", 9), 66, honest.addr),
        hit(misnamed.record.to_signed(), 3, honest.addr),
    ]));
    let (to, reader) = peer(&[liar.addr, indexer.local_addr()]).await;
    let answer = reader.peer.query(&name("a"), TTL_DEFAULT).await.unwrap();
    assert!(!answer.complete);
    let records: Vec<_> = answer.candidates.into_iter().map(|found| found.record).collect();
    assert_eq!(records, std::slice::from_ref(&goods.record));
    reader.gets(&to, "a", &goods.bytes).await;
}

#[testkit::test]
async fn holders_at_impossible_addresses_are_left_out() {
    let addrs = ["127.0.0.1:0", "0.0.0.0:80", "224.0.0.1:80"].map(|addr| addr.parse().unwrap());
    let holders = addrs.map(|addr| testkit::values::listed(1, addr));
    let hit = Hit { record: file().record.to_signed(), holders: List::first_of(holders) };
    let indexer = Fake::of_peers(Habit::says([hit]));
    let (_to, reader) = peer(&[indexer.addr]).await;
    let answer = reader.peer.query(&name("a"), 0).await.unwrap();
    assert!(answer.candidates[0].holders.is_empty(), "{answer:?}");
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains("it has no source"), "{error}");
}

async fn third_party() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let third_party = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = third_party.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = third_party.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    (addr, connections)
}

/// Goal: a holder that is said to be behind an indexer which is itself costs two connections and no more.
#[testkit::test]
async fn holder_behind_itself_is_given_up() {
    let (addr, connections) = third_party().await;
    let via = nekoproto::Via::Indexer(IndexerAddr { addr, node: identity(100).id() });
    let holder = ListedHolder { via, unreachable: true, ..testkit::values::listed(100, addr) };
    let hit = Hit { record: file().record.to_signed(), holders: List::first_of([holder]) };
    let liar = Fake::of_peers(Habit::says([hit]));
    let (_to, reader) = peer(&[liar.addr]).await;
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    tokio::spawn(async move {
        loop {
            let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            seen.fetch_max(tasks, Ordering::Relaxed);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    reader.get("a").await.unwrap_err();
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    let most = most.load(Ordering::Relaxed);
    assert!(most < 100, "{most} tasks at once: each waits for the next");
}

/// Goal: holders of somebody's making, all at the address of a third party, cost that party two connections and the reader
/// no download. Method: an indexer names sixteen before an honest indexer names the real holder.
#[testkit::test]
async fn made_up_holders_send_no_crowd_to_a_third_party() {
    let (addr, connections) = third_party().await;
    let (goods, indexer) = (file(), indexer(&[]).await);
    let holders = List::first_of((100..116).map(|seed| testkit::values::listed(seed, addr)));
    let liar = Fake::of_peers(Habit::says([Hit { record: goods.record.to_signed(), holders }]));
    let _honest = goods.held(2, indexer.local_addr()).await;
    let (to, reader) = peer(&[liar.addr, indexer.local_addr()]).await;
    reader.gets(&to, "a", &goods.bytes).await;
    let connections = connections.load(Ordering::Relaxed);
    assert!(connections <= 2, "{connections} connections");
}

#[testkit::test]
async fn origin_that_is_asked_for_is_found_among_many() {
    let (goods, (indexer, [(to, reader), (other_folder, other)])) = (file(), network().await);
    let mut crowd = Vec::new();
    for seed in 100..140 {
        crowd.push(Goods::new(seed, "a", 1, Vec::new()).held(seed, indexer.local_addr()).await);
    }
    let script = goods.clone();
    let origin = Holder::begin(1, move |request| script.honest(request));
    let reply = origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    assert!(reply.unlisted.is_empty());
    let answer = reader.peer.query(&name("a"), 0).await.unwrap();
    assert!(!answer.complete, "not all have room");
    let wanted = |node: NodeId| DownloadOptions { origin: Some(node.short()), ..Default::default() };
    let nobody = reader.get_with("a", wanted(identity(99).id())).await.unwrap_err();
    assert!(matches!(nobody.reason, Reason::NotOfOrigin { complete: true, .. }), "{nobody}");
    reader.get_with("a", wanted(identity(1).id())).await.unwrap();
    assert!(to.read("a") == goods.bytes);
    let done = other.peer.download_all(&[name("a")], &wanted(identity(1).id()), &<_>::default()).await;
    assert!(done[0].1.is_ok(), "one of many: {done:?}");
    assert!(other_folder.read("a") == goods.bytes);
}
