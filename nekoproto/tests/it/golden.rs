//! The bytes of everything that travels, pinned.
//!
//! If this fails the wire changed: bump `PROTOCOL_VERSION` and docs/protocol.md, then re-pin from
//! the message. In the pinned text spaces part the fields, and a capital letter stands for a value
//! that is pinned by itself: `N` node 1, `M` node 2, `R` the record, `C` and `D` 32 bytes
//! `c0` and `d0`, each with its length before it.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::{fmt::Write, net::SocketAddr};

use nekoproto::{
    ByteRange, Chunk, ChunkHash, ContentHash, DataReply, DataRequest, Fault, FetchRefusal, FileName,
    FindReply, FindRequest, Freshness, Grant, Held, Hello, HelloRefusal, Hit, IdDigits, Identity,
    Introduction, InvalidateRequest, LeaseReply, List, ListedHolder, Manifest, ManifestHash, Mode, MsgId,
    NetworkName, NoAnswer, NodeId, Numbered, PROTOCOL_VERSION, Policy, Position, Purpose, QueryAllRequest,
    QueryReply, QueryRequest, Record, Refusal, RegisterReply, RegisterRequest, Role, Search, SignedRecord,
    Staleness, Term, TraceAnswer, TraceFound, TraceHop, TraceReply, Unasked, Verdict, VerifiedReach, Version,
    WhyUnasked, codec,
    indexer::{IndexerServiceRequest as Ask, IndexerServiceResponse as Answer},
    limits::{REACH_ADDRS_MAX, REACH_BYTES_MAX},
    peer::{PeerServiceRequest as AskPeer, PeerServiceResponse as PeerAnswer},
    probe::{ProbeEnd, ProbeReply, ProbeRequest, ProbeStop},
    summary::{Change, Filter, NameKey, SummaryNews, SummaryReply, What},
    transport::Envelope,
};
use serde::{Serialize, de::DeserializeOwned};

/// What a peer writes on a control connection.
type ToIndexer = Envelope<Ask, PeerAnswer>;
/// What an indexer writes to a peer.
type ToPeer = Envelope<AskPeer, Answer>;

const NODE_1: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
const NODE_2: &str = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";
/// Origin, name, version, size, content, manifest, policy (mode, lease, TTR, flags), time; signature.
const RECORD: &str = "N 07612f622e62696e 03 fc70110100 C D 01 3c fb2c01 01 fd005e56eea1010000 \
    40 75d433cb03152aeec2cfb18711cebd44326531cc57664be4aa5e2479d8c3c2dd \
    68e0d81e0da308728ddc21d2833152b9b14738ed3c4d48161f923468bf38020a";
/// Node, addresses, end; signature.
const REACH: &str = "N 01 00 7f000001 fba00f fd005e56eea1010000 \
    40 ccab1db7286e5356892aa6c0d9c8d919b1eadcf8b11ac0781b7281a98a4b83ec \
    f791b5cb13612766b63852177800335f583861f2ee6b0621afdc9f01c7bb0a04";
const CONTENT: ContentHash = ContentHash::from_bytes([0xc0; 32]);
const MANIFEST: ManifestHash = ManifestHash::from_bytes([0xd0; 32]);

/// Collects every difference, so that one run tells all that changed.
#[derive(Default)]
struct Pins {
    differences: String,
}

impl Pins {
    /// `value` is encoded as `golden`, and read back as itself.
    fn pin<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T, golden: &str) {
        let bytes = codec::encode(value).unwrap();
        self.pin_bytes(name, &bytes, golden);
        let again = codec::decode::<T>(&bytes).and_then(|value| codec::encode(&value));
        if !again.is_ok_and(|again| again == bytes) {
            writeln!(self.differences, "{name}: is not read back").unwrap();
        }
    }

    fn pin_bytes(&mut self, name: &str, bytes: &[u8], golden: &str) {
        let golden = golden
            .replace('R', RECORD)
            .replace('W', REACH)
            .replace('N', &of_32(NODE_1))
            .replace('M', &of_32(NODE_2));
        let golden = golden
            .replace('C', &of_32(&"c0".repeat(32)))
            .replace('D', &of_32(&"d0".repeat(32)))
            .replace(' ', "");
        let actual = hex(bytes);
        if actual != golden {
            writeln!(self.differences, "{name}: {actual}").unwrap();
        }
    }

    fn assert(self) {
        assert!(
            self.differences.is_empty(),
            "the wire changed; these are the bytes now:\n{}",
            self.differences
        );
    }
}

/// 32 bytes with the length before them.
fn of_32(bytes: &str) -> String {
    format!("20{bytes}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn node(seed: u8) -> NodeId {
    Identity::from_seed(&[seed; 32]).id()
}

fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn record() -> SignedRecord {
    let record = Record {
        origin: node(1),
        name: name("a/b.bin"),
        version: version(3),
        size: 70_000,
        content: CONTENT,
        manifest: MANIFEST,
        policy: Policy::new(Mode::Pull, 60, 300, Staleness::ServeStale).unwrap(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&Identity::from_seed(&[1; 32])).unwrap().to_signed()
}

fn reach() -> VerifiedReach {
    let v4 = SocketAddr::from(([127, 0, 0, 1], 4000));
    Identity::from_seed(&[1; 32]).sign_reach([v4], 1_795_000_000_000)
}

fn found() -> QueryReply {
    let v6 = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 80));
    let v6 = Identity::from_seed(&[2; 32]).sign_reach([v6], 1_795_000_000_000);
    let v6 = ListedHolder { partial: true, ..ListedHolder::new(v6) };
    let hit = Hit { record: record(), holders: List::first_of([ListedHolder::new(reach()), v6]) };
    QueryReply { hits: List::first_of([hit]), complete: true, messages: 9 }
}

fn ask(call: Ask) -> ToIndexer {
    ToIndexer::Request { id: 1, deadline_ms: 2000, call }
}

fn answer(answer: Answer) -> ToPeer {
    ToPeer::Response { id: 1, answer: Ok(answer) }
}

fn ask_peer(call: AskPeer) -> ToPeer {
    ToPeer::Request { id: 1, deadline_ms: 2000, call }
}

fn peer_answer(answer: PeerAnswer) -> ToIndexer {
    ToIndexer::Response { id: 1, answer: Ok(answer) }
}

#[test]
fn values_are_pinned() {
    let mut pins = Pins::default();
    pins.pin("protocol version", &PROTOCOL_VERSION, "0d");
    pins.pin("node 1", &node(1), "N");
    pins.pin("node 2", &node(2), "M");
    pins.pin("node tag", &node(1).tag(), "08 8a88e3dd7409f195");
    pins.pin("record", &record(), "R");
    for (mode, golden) in [
        (Mode::Push, "00 01 fc803a0900 00"),
        (Mode::Pull, "01 01 fc803a0900 00"),
        (Mode::Hybrid, "02 01 fc803a0900 00"),
    ] {
        pins.pin("policy", &Policy::new(mode, 1, 604_800, Staleness::Bounded).unwrap(), golden);
    }
    pins.pin(
        "set",
        &Policy::new(Mode::Push, 1, 2, Staleness::ServeStale).unwrap().of_set(true),
        "00 01 02 03",
    );
    pins.pin(
        "withdrawal",
        &Policy::new(Mode::Push, 1, 2, Staleness::ServeStale).unwrap().of_withdrawal(),
        "00 01 02 09",
    );
    let chunk = |len, byte| Chunk { len, hash: ChunkHash::from_bytes([byte; 32]) };
    let manifest = Manifest::new(vec![chunk(65_536, 0xc0), chunk(1, 0xd0)]).unwrap();
    let (bytes, hash) = manifest.encode().unwrap();
    pins.pin_bytes("manifest", &bytes, "02 fc00000100 C 01 D");
    pins.pin("manifest's hash", &hash, "20 f610edd6762664ad381d15b510c5abf58eaa98a31f2431b551629dca607ba4aa");
    pins.assert();
}

#[test]
fn calls_of_an_indexer_are_pinned() {
    let records = List::first_of([record()]);
    let msg_id = MsgId::from_u128(0x0102_0304);
    let covered = List::first_of([node(1).tag(), node(2).tag()]);
    let register = |announce, partial| RegisterRequest { records: records.clone(), announce, partial };
    let query = QueryRequest { covered: covered.clone(), ..QueryRequest::new(msg_id, name("a"), 3) };
    let invalidate = InvalidateRequest { msg_id, records: records.clone(), ttl_hops: 2, covered };
    let mut pins = Pins::default();
    let trace = Ask::Trace { request: query.clone() };
    pins.pin(
        "trace",
        &ask(trace),
        "00 01 fbd007 0b 10 04030201000000000000000000000000 0161 03 10 8a88e3dd7409f195 8139770ea87d175f 00 00",
    );
    let visited = List::first_of([node(1).tag()]);
    let probe = ProbeRequest { visited, payload: vec![0xaa; 2], ..ProbeRequest::new(msg_id, 10) };
    pins.pin(
        "probe",
        &ask(Ask::Probe { request: probe }),
        "00 01 fbd007 0d 10 04030201000000000000000000000000 0a 08 8a88e3dd7409f195 02 aaaa",
    );
    pins.pin(
        "register",
        &ask(Ask::Register { request: register(true, false) }),
        "00 01 fbd007 00 01 R 01 00",
    );
    let partial = ask(Ask::Register { request: register(false, true) });
    pins.pin("register a part", &partial, "00 01 fbd007 00 01 R 00 01");
    let names = List::first_of([name("a"), name("b/c")]);
    pins.pin("deregister", &ask(Ask::Deregister { names }), "00 01 fbd007 01 02 0161 03622f63");
    pins.pin("deregister all", &ask(Ask::DeregisterAll {}), "00 01 fbd007 09");
    pins.pin("renew", &ask(Ask::Renew {}), "00 01 fbd007 02");
    pins.pin("search", &ask(Ask::Search { name: name("a") }), "00 01 fbd007 03 0161");
    pins.pin(
        "query",
        &ask(Ask::Query { request: query.clone() }),
        "00 01 fbd007 04 10 04030201000000000000000000000000 0161 03 10 8a88e3dd7409f195 8139770ea87d175f 00 00",
    );
    let wanted = IdDigits::try_from("8a".to_owned()).ok();
    let query = QueryRequest { origin: wanted, without: List::first_of([node(2).tag()]), ..query };
    pins.pin("query with wishes", &ask(Ask::Query { request: query }), "00 01 fbd007 04 10 04030201000000000000000000000000 0161 03 10 8a88e3dd7409f195 8139770ea87d175f 01 02 3861 \
         08 8139770ea87d175f");
    pins.pin("introduce", &ask(Ask::Introduce { reach: reach().into_signed() }), "00 01 fbd007 0c W");
    pins.pin(
        "invalidate",
        &ask(Ask::Invalidate { request: invalidate }),
        "00 01 fbd007 05 10 04030201000000000000000000000000 01 R 02 10 8a88e3dd7409f195 8139770ea87d175f",
    );
    let names = List::first_of([name("a"), name("b/c")]);
    pins.pin(
        "search for many",
        &ask(Ask::SearchAll { names: names.clone() }),
        "00 01 fbd007 07 02 0161 03622f63",
    );
    pins.pin(
        "query for many",
        &ask(Ask::QueryAll { request: QueryAllRequest { msg_id, names, ttl_hops: 3 } }),
        "00 01 fbd007 08 10 04030201000000000000000000000000 02 0161 03622f63 03",
    );
    pins.assert();
}

#[test]
fn summaries_are_pinned() {
    let mut pins = Pins::default();
    let news = |changes| SummaryNews { echo_ms: 300, number: 7, begins: false, is_all: true, changes };
    let heartbeat = Ask::Summarize { news: news(List::new()) };
    pins.pin("summaries, nothing new", &ask(heartbeat), "00 01 fbd007 06 fb2c01 07 00 01 00");
    let change = |what| Change { of: node(2).tag(), hops: 1, what };
    let mut part = Filter::for_keys(1).parts().next().unwrap();
    part.words = List::first_of(part.words.iter().copied().take(1));
    let tags = || List::first_of([node(1).tag()]);
    let changes = [
        What::Added(List::first_of([NameKey::of(&name("a"))])),
        What::Whole { epoch: 7, count: 2, part, neighbors: tags() },
        What::Neighbors { added: tags(), removed: List::new() },
        What::Withdrawn,
    ];
    pins.pin(
        "summaries, changes",
        &ask(Ask::Summarize { news: news(List::first_of(changes.map(change))) }),
        "00 01 fbd007 06 fb2c01 07 00 01 04 \
         08 8139770ea87d175f 01 00 10 17762fddd969a453925d65717ac3eea2 \
         08 8139770ea87d175f 01 01 07 02 07 a0 00 01 08 0000000000000000 08 8a88e3dd7409f195 \
         08 8139770ea87d175f 01 02 08 8a88e3dd7409f195 00 \
         08 8139770ea87d175f 01 03",
    );
    pins.assert();
}

#[test]
fn search_by_pattern_is_pinned() {
    let mut pins = Pins::default();
    let msg_id = MsgId::from_u128(0x0102_0304);
    let search = Search {
        terms: List::first_of(["*.bin", "a"].map(|term| Term::new(term).unwrap())),
        min_size: 300,
        published_from_ms: 1,
        origin: Some("8a8".to_owned().try_into().unwrap()),
    };
    let after = Some(Position { name: name("a"), origin: node(1) });
    let covered = List::first_of([node(1).tag()]);
    let find = FindRequest { msg_id, search, after, limit: 50, ttl_hops: 3, covered };
    pins.pin("find", &ask(Ask::Find { request: find }), "00 01 fbd007 0a 10 04030201000000000000000000000000 02 052a2e62696e 0161 fb2c01 01 01 03386138 01 0161 N 32 03 08 8a88e3dd7409f195");
    pins.assert();
}

#[test]
fn answers_of_an_indexer_are_pinned() {
    let mut pins = Pins::default();
    let lease = LeaseReply { lease_ms: 60_000, names: 2 };
    let registered =
        RegisterReply { lease, newer: List::first_of([record()]), unlisted: List::first_of([name("b")]) };
    pins.pin(
        "registered",
        &answer(Answer::Register(Ok(registered))),
        "02 01 00 00 00 fb60ea 02 01 R 01 0162",
    );
    pins.pin("deregistered", &answer(Answer::Deregister(Ok(()))), "02 01 00 01 00");
    pins.pin("renewed", &answer(Answer::Renew(Ok(lease))), "02 01 00 02 00 fb60ea 02");
    pins.pin(
        "found",
        &answer(Answer::Search(Ok(found()))),
        "02 01 00 03 00 02 W M 01 01 fe800000000000000000000000000001 50 fd005e56eea1010000 40 64af031a8b05c8e197f0e19432a1cf7b \
    01534c24066df406ec10f775a60d0acb664a659e718272e5c4b142af20b211ca2df86862aa699bafce09f8b234fdea01 01 R 02 00 01 00 01 01 01 01 09",
    );
    pins.pin("nothing", &answer(Answer::Query(Ok(QueryReply::default()))), "02 01 00 04 00 00 00 00 00");
    pins.pin("invalidated", &answer(Answer::Invalidate(Ok(()))), "02 01 00 05 00");
    let reply = SummaryReply { clock_ms: 300, is_taken: true, confirms: 7 };
    pins.pin("summaries taken", &answer(Answer::Summarize(Ok(reply))), "02 01 00 06 00 fb2c01 01 07");
    let none_and_nothing = List::first_of([None, Some(QueryReply::default())]);
    pins.pin(
        "answers",
        &answer(Answer::SearchAll(Ok(none_and_nothing))),
        "02 01 00 07 00 02 00 01 00 00 00 00",
    );
    let seen_at = std::net::IpAddr::from([127, 0, 0, 1]);
    pins.pin(
        "introduced",
        &answer(Answer::Introduce(Ok(Introduction { seen_at, listed_at: 1 }))),
        "02 01 00 0c 00 00 7f000001 01",
    );
    let QueryReply { hits, .. } = found();
    let hits = List::first_of(hits);
    let matches = FindReply { hits, more: true, complete: true, messages: 9 };
    pins.pin(
        "matches",
        &answer(Answer::Find(Ok(matches))),
        "02 01 00 0a 00 02 W M 01 01 fe800000000000000000000000000001 50 fd005e56eea1010000 40 64af031a8b05c8e197f0e19432a1cf7b \
    01534c24066df406ec10f775a60d0acb664a659e718272e5c4b142af20b211ca2df86862aa699bafce09f8b234fdea01 01 R 02 00 01 00 01 01 01 01 01 09",
    );
    let found = TraceFound { origin: node(1).tag(), version: version(3), holders: 2 };
    let unasked = Unasked { node: None, addr: Some("[::1]:80".parse().unwrap()), why: WhyUnasked::RuledOut };
    let (found, unasked) = (List::first_of([found]), List::first_of([unasked]));
    let known = TraceAnswer { found, again: true, took_us: 300, own_us: 7, unasked, unasked_more: 1 };
    let late = TraceHop {
        depth: 1,
        node: Some(node(2)),
        addr: None,
        waited_us: 5,
        despite_summary: true,
        answer: Err(NoAnswer::Refused(Refusal::Busy)),
    };
    let hops = List::first_of([TraceHop::of(Ok(known)), late]);
    pins.pin(
        "way",
        &answer(Answer::Trace(Ok(TraceReply { hops, whole: true }))),
        "02 01 00 0b 00 02 00 00 00 00 00 00 01 08 8a88e3dd7409f195 03 02 01 fb2c01 07 \
         01 00 01 01 00000000000000000000000000000001 50 02 01 01 01 M 00 05 01 01 04 03 01",
    );
    let stop = ProbeStop { node: node(1).tag(), again: true, own_ns: 300, waited_us: 5, next: None };
    let next = ProbeStop { next: Some("127.0.0.1:80".parse().unwrap()), again: false, ..stop };
    let stops = List::first_of([next, stop]);
    let way = |end| answer(Answer::Probe(Ok(ProbeReply { stops: stops.clone(), end })));
    pins.pin("way of a probe", &way(ProbeEnd::Hops), "02 01 00 0d 00 02 08 8a88e3dd7409f195 00 fb2c01 05 01 00 7f000001 50 08 8a88e3dd7409f195 01 fb2c01 05 00 00");
    pins.pin("way of a lost probe", &way(ProbeEnd::Lost(NoAnswer::Late)), "02 01 00 0d 00 02 08 8a88e3dd7409f195 00 fb2c01 05 01 00 7f000001 50 08 8a88e3dd7409f195 01 fb2c01 05 00 02 02");
    pins.pin("refused", &answer(Answer::Query(Err(Refusal::TtlTooLarge(17)))), "02 01 00 04 01 00 11");
    pins.assert();
}

#[test]
fn calls_of_a_peer_are_pinned() {
    let held = Held { name: name("a"), version: version(300), content: CONTENT };
    let newer = Verdict::Newer(Box::new(record()));
    let verdicts = [Verdict::Current, newer, Verdict::Unpublished, Verdict::Unknown, Verdict::Unsettled];
    let mut pins = Pins::default();
    let invalidate = AskPeer::Invalidate { records: List::first_of([record()]) };
    pins.pin("invalidate", &ask_peer(invalidate), "00 01 fbd007 00 01 R");
    pins.pin(
        "confirm",
        &ask_peer(AskPeer::Confirm { held: List::first_of([held]) }),
        "00 01 fbd007 01 01 0161 fb2c01 C",
    );
    let wanted = Numbered { origin: node(1), name: name("a"), version: version(300) };
    pins.pin("lend", &ask_peer(AskPeer::Lend { wanted }), "00 01 fbd007 02 N 0161 fb2c01");
    let lent = PeerAnswer::Lend(Ok(Some(Box::new(record()))));
    pins.pin("lent", &peer_answer(lent), "02 01 00 02 00 01 R");
    pins.pin("noted", &peer_answer(PeerAnswer::Invalidate(Ok(()))), "02 01 00 00 00");
    pins.pin(
        "verdicts",
        &peer_answer(PeerAnswer::Confirm(Ok(List::first_of(verdicts)))),
        "02 01 00 01 00 05 00 01 R 02 03 04",
    );
    pins.pin("refused", &peer_answer(PeerAnswer::Confirm(Err(Refusal::Busy))), "02 01 00 01 01 03");
    pins.assert();
}

#[test]
fn envelopes_are_pinned() {
    let mut pins = Pins::default();
    let renew = Ask::Renew {};
    pins.pin(
        "request",
        &ToIndexer::Request { id: u64::MAX, deadline_ms: u32::MAX, call: renew },
        "00 fdffffffffffffffff fcffffffff 02",
    );
    pins.pin("cancel", &ToIndexer::Cancel { id: 251 }, "01 fbfb00");
    for (fault, golden) in [(Fault::Busy, "02 00 01 00"), (Fault::Internal, "02 00 01 01")] {
        pins.pin("fault", &ToPeer::Response { id: 0, answer: Err(fault) }, golden);
    }
    pins.assert();
}

#[test]
fn hellos_are_pinned() {
    let hello = |role, purpose| Hello {
        node: node(1),
        role,
        purpose,
        network: NetworkName::default(),
        private: false,
        listen_port: 4000,
        nonce: [0xd0; 32],
    };
    let mut pins = Pins::default();
    pins.pin("hello of a peer", &hello(Role::Peer, Purpose::Data), "N 01 01 076e656b6f703270 00 fba00f D");
    let taken: Result<Hello, HelloRefusal> = Ok(hello(Role::Indexer, Purpose::Control));
    pins.pin("hello of an indexer", &taken, "00 N 00 00 076e656b6f703270 00 fba00f D");
    let refusals = [
        (HelloRefusal::OtherNetwork, "01 00"),
        (HelloRefusal::NotYourKey, "01 01"),
        (HelloRefusal::Yourself, "01 02"),
        (HelloRefusal::WrongPurpose, "01 03"),
        (HelloRefusal::SecretMissing, "01 04"),
        (HelloRefusal::SecretUnasked, "01 05"),
        (HelloRefusal::SecretWrong, "01 06"),
        (HelloRefusal::NotAllowed, "01 07"),
    ];
    for (refusal, golden) in refusals {
        pins.pin("hello refusal", &Err::<Hello, _>(refusal), golden);
    }
    pins.assert();
}

#[test]
fn refusals_are_pinned() {
    let mut pins = Pins::default();
    let refusals = [
        (Refusal::TtlTooLarge(255), "00 ff"),
        (Refusal::Forged, "01"),
        (Refusal::NotListening, "02"),
        (Refusal::Busy, "03"),
        (Refusal::WrongRole, "04"),
        (Refusal::BadPattern, "05"),
        (Refusal::ClocksApart, "06"),
        (Refusal::NoRoom, "07"),
        (Refusal::ProbeTooLarge, "08"),
    ];
    for (refusal, golden) in refusals {
        pins.pin("refusal", &refusal, golden);
    }
    let refusals = [
        (FetchRefusal::NotShared, "01 00"),
        (FetchRefusal::Changed, "01 01"),
        (FetchRefusal::Outdated(Version::FIRST), "01 02 01"),
        (FetchRefusal::Unverified, "01 03"),
        (FetchRefusal::BadRange, "01 04"),
        (FetchRefusal::Busy, "01 05"),
        (FetchRefusal::Unreadable, "01 06"),
        (FetchRefusal::NotYet, "01 07"),
    ];
    for (refusal, golden) in refusals {
        pins.pin("data reply", &DataReply::Err(refusal), golden);
    }
    pins.assert();
}

#[test]
fn data_messages_are_pinned() {
    let mut pins = Pins::default();
    let manifest = DataRequest::Manifest(MANIFEST);
    pins.pin("manifest", &manifest, "00 D");
    let ranges = List::first_of(
        [(0, 1), (250, 251), (1 << 16, 1 << 32)].map(|(offset, len)| ByteRange { offset, len }),
    );
    let get = DataRequest::Get { content: CONTENT, ranges };
    pins.pin("get", &get, "01 C 03 00 01 fa fbfb00 fc00000100 fd0000000001000000");
    pins.pin("have", &DataRequest::Have(CONTENT), "02 C");
    pins.pin("outboard", &DataRequest::Outboard(MANIFEST), "03 D");
    let grants = [
        (Freshness::Fresh, "00 fc70110100 00"),
        (Freshness::Unverified, "00 fc70110100 01"),
        (Freshness::Stale, "00 fc70110100 02"),
    ];
    for (freshness, golden) in grants {
        pins.pin("grant", &DataReply::Ok(Grant { len: 70_000, freshness }), golden);
    }
    pins.assert();
}

/// What the commonest messages cost, the four bytes of the length prefix not counted.
#[test]
fn frames_are_small() {
    let search = ask(Ask::Search { name: name("a") });
    let nothing = answer(Answer::Search(Ok(QueryReply::default())));
    assert_eq!(codec::encode(&search).unwrap().len(), 8);
    assert_eq!(codec::encode(&nothing).unwrap().len(), 9);
    assert_eq!(codec::encode(&record()).unwrap().len(), 193);
    let longest = SocketAddr::from(([u16::MAX; 8], u16::MAX));
    let reach = Identity::from_seed(&[1; 32]).sign_reach([longest; REACH_ADDRS_MAX], u64::MAX);
    assert_eq!(codec::encode(reach.signed()).unwrap().len(), REACH_BYTES_MAX);
    assert_eq!(codec::encode(self::reach().signed()).unwrap().len(), 116);
}
