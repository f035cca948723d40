//! Corrupt, failing or hanging holders and indexers: a download ends with the right file or with none.

use std::net::SocketAddr;

use crate::common::{
    Folder, Goods, Holder, MIB, Node, ScriptedReply, Then, bytes, fake_indexer::FakeIndexer, goods, identity,
    indexer, name, peer,
};
use nekoindexer::IndexerHandle;
use nekopeer::{DownloadError, DownloadOptions, Downloaded};
use nekoproto::{ContentHash, DataRequest, FetchRefusal, Hit, List, SignedRecord, limits::TTL_DEFAULT};

/// How a hostile origin replies to data requests.
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
        let indexer = indexer(&[]).await;
        let (to, reader) = peer(&[indexer.local_addr()]).await;
        let script = goods.clone();
        let origin = Holder::begin(identity(1), move |request| trick(&script, request));
        origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
        Self { indexer, goods, _origin: origin, to, reader }
    }

    /// An origin with an honest reply for the manifest and a trick for the chunks.
    async fn with_chunks(trick: Trick) -> Self {
        Self::set(file(), move |goods, request| match request {
            DataRequest::Manifest(_) | DataRequest::Have(_) | DataRequest::Outboard(_) => {
                goods.honest(request)
            }
            DataRequest::Get { .. } => trick(goods, request),
        })
        .await
    }

    /// Adds an honest holder of the same file.
    async fn honest_holder(&self) -> Holder {
        let goods = self.goods.clone();
        let honest = Holder::begin(identity(2), move |request| goods.honest(request));
        honest.register(self.indexer.local_addr(), [self.goods.record.to_signed()]).await;
        honest
    }

    /// Asserts that the file arrives, from an honest holder.
    async fn completes(&self) -> Downloaded {
        let _honest = self.honest_holder().await;
        let done = self.reader.get("a").await.unwrap();
        assert_eq!(done.bytes_moved, self.goods.bytes.len() as u64, "only verified bytes count");
        let of_sources: u64 = done.sources.iter().map(|source| source.bytes).sum();
        assert_eq!(of_sources, done.bytes_moved, "{:?}", done.sources);
        assert!(self.to.read("a") == self.goods.bytes);
        done
    }

    /// Asserts that nothing arrives; returns the message that the user sees.
    async fn fails(&self) -> String {
        let error = self.reader.get("a").await.unwrap_err();
        assert!(!self.to.has("a"));
        assert!(self.reader.peer.files().await.is_empty());
        match error {
            DownloadError::SourcesExhausted { why, .. } => why,
            error => panic!("{error}"),
        }
    }
}

fn file() -> Goods {
    Goods::new(&identity(1), "a", 1, bytes(1, 2 * MIB + 17))
}

fn corrupts_the_third_chunk(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    let mut bytes = goods.asked(request);
    let at = (2 * goods::CHUNK_BYTES).min(bytes.len() - 1);
    bytes[at] ^= 1;
    ScriptedReply::of(bytes)
}

fn dies_in_the_third_chunk(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    goods.honest(request).cut_to(2 * goods::CHUNK_BYTES + 1).then(Then::Close)
}

fn dies_at_once(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    goods.honest(request).cut_to(0).then(Then::Close)
}

fn grants_one_byte_more(goods: &Goods, request: &DataRequest) -> ScriptedReply {
    let bytes = goods.asked(request);
    ScriptedReply::granting(bytes.len() as u64 + 1, bytes)
}

fn grants_next_to_everything(_: &Goods, _: &DataRequest) -> ScriptedReply {
    ScriptedReply::granting(u64::MAX, Vec::new())
}

fn refuses(_: &Goods, _: &DataRequest) -> ScriptedReply {
    ScriptedReply::refusal(FetchRefusal::Unreadable)
}

#[testkit::test]
async fn corrupt_chunk_is_fetched_from_another_source() {
    Stage::with_chunks(corrupts_the_third_chunk).await.completes().await;
}

#[testkit::test]
async fn corrupt_source_alone_puts_nothing_in_place() {
    let why = Stage::with_chunks(corrupts_the_third_chunk).await.fails().await;
    assert!(why.contains("corrupt"), "{why}");
}

#[testkit::test]
async fn source_that_dies_is_made_up_for_by_another() {
    Stage::with_chunks(dies_in_the_third_chunk).await.completes().await;
}

#[testkit::test]
async fn source_that_dies_at_once_alone_leaves_nothing() {
    let why = Stage::with_chunks(dies_at_once).await.fails().await;
    assert!(why.contains("the connection broke"), "{why}");
}

#[testkit::test]
async fn source_that_always_dies_halfway_is_asked_again_and_again_until_all_is_there() {
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 5 * goods::CHUNK_BYTES));
    let stage = Stage::set(goods, |goods, request| match request {
        DataRequest::Manifest(_) | DataRequest::Have(_) | DataRequest::Outboard(_) => goods.honest(request),
        DataRequest::Get { .. } => dies_in_the_third_chunk(goods, request),
    })
    .await;
    assert_eq!(stage.reader.get("a").await.unwrap().bytes_moved, stage.goods.bytes.len() as u64);
    assert!(stage.to.read("a") == stage.goods.bytes);
}

#[testkit::test]
async fn source_that_grants_another_length_is_left_alone() {
    for trick in [grants_one_byte_more, grants_next_to_everything] as [Trick; 2] {
        Stage::with_chunks(trick).await.completes().await;
        let why = Stage::with_chunks(trick).await.fails().await;
        assert!(why.contains("it offered"), "{why}");
    }
}

#[testkit::test]
async fn source_that_refuses_is_left_alone() {
    Stage::with_chunks(refuses).await.completes().await;
    let why = Stage::with_chunks(refuses).await.fails().await;
    assert!(why.contains("cannot read the file"), "{why}");
}

#[testkit::test]
async fn manifest_of_other_bytes_is_not_believed() {
    let other = Goods::new(&identity(1), "a", 1, bytes(9, 2 * MIB + 17));
    let trick = move |_: &Goods, request: &DataRequest| other.honest(request);
    let stage = Stage::set(file(), trick).await;
    let why = stage.fails().await;
    assert!(why.contains("the manifest is not the one"), "{why}");
    stage.completes().await;
}

#[testkit::test]
async fn manifest_of_a_length_over_the_limit_is_refused_before_it_is_read() {
    let why = Stage::set(file(), grants_next_to_everything).await.fails().await;
    assert!(why.contains("it offered"), "{why}");
}

#[testkit::test]
async fn record_that_contradicts_its_own_chunks_puts_nothing_in_place() {
    let goods = Goods::with(&identity(1), "a", 1, bytes(1, MIB), |record| {
        record.content = ContentHash::from_bytes([9; 32]);
    });
    let stage = Stage::set(goods, Goods::honest).await;
    let error = stage.reader.get("a").await.unwrap_err();
    assert!(matches!(error, DownloadError::OriginLies(_)), "{error}");
    assert!(!stage.to.has("a") && stage.to.partials().is_empty());
}

#[testkit::test]
async fn record_with_another_size_than_its_chunks_puts_nothing_in_place() {
    let goods = Goods::with(&identity(1), "a", 1, bytes(1, MIB), |record| record.size -= 1);
    let why = Stage::set(goods, Goods::honest).await.fails().await;
    assert!(why.contains("the chunks add up to"), "{why}");
}

/// When nothing else is missing, the other source takes over the chunks leased to the stuck holder, before
/// that one is given up.
#[testkit::test]
async fn source_that_accepts_and_never_answers_is_overtaken() {
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 18 * MIB));
    let stage = Stage::set(goods, Goods::honest).await;
    let mut stuck = Holder::begin(identity(2), |_| ScriptedReply::of(Vec::new()).then(Then::Hang));
    stuck.register(stage.indexer.local_addr(), [stage.goods.record.to_signed()]).await;
    let done = stage.reader.get("a").await.unwrap();
    assert!(stage.to.read("a") == stage.goods.bytes);
    assert!(done.took < nekoproto::limits::STALL_TIMEOUT / 2, "{:?}", done.took);
    assert!(stuck.asked.try_recv().is_ok(), "the stuck holder was never asked, so nothing was tested");
}

/// A malicious indexer's hit: this record, held by this node at this address.
fn hit(record: SignedRecord, node: u16, addr: SocketAddr) -> Hit {
    Hit {
        record,
        holders: List::first_of([nekoproto::ListedHolder::new(identity(node).fresh_reach([addr]))]),
    }
}

#[testkit::test]
async fn another_node_at_the_listed_address_is_not_asked() {
    let goods = file();
    let script = goods.clone();
    let mut impostor = Holder::begin(identity(66), move |request| script.honest(request));
    let indexer = FakeIndexer::says(vec![hit(goods.record.to_signed(), 1, impostor.addr)]);
    let (to, reader) = peer(&[indexer.addr]).await;
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains("expected node"), "{error}");
    assert!(impostor.asked.try_recv().is_err() && !to.has("a"));
}

#[testkit::test]
async fn forged_and_misnamed_hits_are_left_out_and_make_the_answer_incomplete() {
    let goods = file();
    let misnamed = Goods::new(&identity(3), "b", 7, Vec::new());
    let script = goods.clone();
    let honest = Holder::begin(identity(1), move |request| script.honest(request));
    let liar = FakeIndexer::says(vec![
        hit(goods::forged(&goods.record, 9), 66, honest.addr),
        hit(misnamed.record.to_signed(), 3, honest.addr),
    ]);
    let indexer = indexer(&[]).await;
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (to, reader) = peer(&[liar.addr, indexer.local_addr()]).await;
    let answer = reader.peer.query(&name("a"), TTL_DEFAULT).await.unwrap();
    assert!(!answer.complete);
    let records: Vec<_> = answer.candidates.into_iter().map(|found| found.record).collect();
    assert_eq!(records, std::slice::from_ref(&goods.record));
    reader.get("a").await.unwrap();
    assert!(to.read("a") == goods.bytes);
}

#[testkit::test]
async fn indexer_that_hides_the_newest_version_is_outvoted_by_one_that_knows() {
    let (old, new) = (file(), Goods::new(&identity(1), "a", 2, bytes(2, MIB)));
    let script = new.clone();
    let honest = Holder::begin(identity(1), move |request| script.honest(request));
    let liar = FakeIndexer::says(vec![hit(old.record.to_signed(), 1, honest.addr)]);
    let indexer = indexer(&[]).await;
    honest.register(indexer.local_addr(), [new.record.to_signed()]).await;
    let (to, reader) = peer(&[liar.addr, indexer.local_addr()]).await;
    assert_eq!(reader.get("a").await.unwrap().record, new.record);
    assert!(to.read("a") == new.bytes);
}

#[testkit::test]
async fn holders_at_impossible_addresses_are_left_out() {
    let addrs = ["127.0.0.1:0", "0.0.0.0:80", "224.0.0.1:80"].map(|addr| addr.parse().unwrap());
    let holders = addrs.map(|addr| nekoproto::ListedHolder::new(identity(1).fresh_reach([addr])));
    let hit = Hit { record: file().record.to_signed(), holders: List::first_of(holders) };
    let indexer = FakeIndexer::says(vec![hit]);
    let (_to, reader) = peer(&[indexer.addr]).await;
    let answer = reader.peer.query(&name("a"), 0).await.unwrap();
    assert!(answer.candidates[0].holders.is_empty(), "{answer:?}");
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains("it has no source"), "{error}");
}

/// Goal: holders of somebody's making, all at the address of a third party, cost that party two connections and the reader
/// no download. Method: an indexer names sixteen before an honest indexer names the real holder.
#[testkit::test]
async fn made_up_holders_send_no_crowd_to_a_third_party() {
    let third_party = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = third_party.local_addr().unwrap();
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = third_party.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            drop(stream); // it has nothing to do with all this
        }
    });
    let goods = file();
    let made_up = |seed| nekoproto::ListedHolder::new(identity(seed).fresh_reach([addr]));
    let holders = List::first_of((100..116).map(made_up));
    let liar = FakeIndexer::says(vec![Hit { record: goods.record.to_signed(), holders }]);
    let indexer = indexer(&[]).await;
    let script = goods.clone();
    let honest = Holder::begin(identity(2), move |request| script.honest(request));
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (to, reader) = peer(&[liar.addr, indexer.local_addr()]).await;
    reader.get("a").await.unwrap();
    assert!(to.read("a") == goods.bytes);
    let connections = connections.load(std::sync::atomic::Ordering::Relaxed);
    assert!(connections <= 2, "{connections} connections");
}

/// Goal: many who publish under a name do not hide the origin that is asked for.
#[testkit::test]
async fn origin_that_is_asked_for_is_found_among_many() {
    let goods = file();
    let indexer = indexer(&[]).await;
    let mut crowd = Vec::new();
    for seed in 100..140 {
        let other = Goods::new(&identity(seed), "a", 1, Vec::new());
        let holder = Holder::idle(identity(seed));
        holder.register(indexer.local_addr(), [other.record.to_signed()]).await;
        crowd.push(holder);
    }
    let script = goods.clone();
    let origin = Holder::begin(identity(1), move |request| script.honest(request));
    let reply = origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    assert!(reply.unlisted.is_empty());
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let answer = reader.peer.query(&name("a"), 0).await.unwrap();
    assert!(!answer.complete, "not all have room");
    let wanted =
        |node: nekoproto::NodeId| DownloadOptions { origin: Some(node.short()), ..Default::default() };
    let nobody =
        reader.peer.download(&name("a"), wanted(identity(99).id()), &<_>::default()).await.unwrap_err();
    assert!(matches!(nobody, DownloadError::NotOfOrigin { complete: true, .. }), "{nobody}");
    reader.peer.download(&name("a"), wanted(identity(1).id()), &<_>::default()).await.unwrap();
    assert!(to.read("a") == goods.bytes);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let done = reader.peer.download_all(&[name("a")], &wanted(identity(1).id()), &<_>::default()).await;
    assert!(done[0].1.is_ok(), "one of many: {done:?}");
    assert!(to.read("a") == goods.bytes);
}
