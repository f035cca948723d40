//! The bytes of everything that travels, pinned in `golden.txt`.
//!
//! If this fails the wire changed: bump `PROTOCOL_VERSION` and docs/protocol.md, then write the file anew with
//! `NEKO_PIN=1 cargo test -p nekoproto --test it golden`.

use std::{env, fmt::Write, fs};

use nekoproto::{
    FetchRefusal as F, HelloRefusal as H, Refusal as R,
    probe::{ProbeEnd, ProbeReply, ProbeRequest, ProbeStop},
    summary::{Change, Filter, NameKey, SummaryNews, SummaryReply},
    transport::rendezvous::Token,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::common::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden.txt");
const CONTENT: ContentHash = ContentHash::from_bytes([0xc0; 32]);
const MANIFEST: ManifestHash = ManifestHash::from_bytes([0xd0; 32]);
const MSG_ID: MsgId = MsgId::from_u128(0x0102_0304);
const TIME_MS: u64 = 1_795_000_000_000;

#[derive(Default)]
struct Pins(String);

impl Pins {
    fn pin_bytes(&mut self, name: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!self.0.contains(&format!("{name}: ")), "{name}: two values have this name");
        writeln!(self.0, "{name}: {hex}").unwrap();
    }

    /// `value` is encoded so, and read back as itself.
    fn pin<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        let bytes = codec::encode(value).unwrap();
        self.pin_bytes(name, &bytes);
        let again = codec::decode::<T>(&bytes).and_then(|value| codec::encode(&value));
        assert!(again.is_ok_and(|again| again == bytes), "{name}: is not read back");
    }

    fn call(&mut self, name: &str, call: Ask) {
        self.pin(&format!("call: {name}"), &ToIndexer::Request { id: 1, deadline_ms: 2000, call });
    }

    fn answer(&mut self, name: &str, answer: Answer) {
        self.pin(&format!("answer: {name}"), &ToPeer::Response { id: 1, answer: Ok(answer) });
    }

    fn call_of_peer(&mut self, name: &str, call: AskPeer) {
        self.pin(&format!("call of a peer: {name}"), &ToPeer::Request { id: 1, deadline_ms: 2000, call });
    }

    fn answer_of_peer(&mut self, name: &str, answer: PeerAnswer) {
        self.pin(&format!("answer of a peer: {name}"), &ToIndexer::Response { id: 1, answer: Ok(answer) });
    }
}

#[test]
fn everything_that_travels_is_pinned() {
    let mut pins = Pins::default();
    values(&mut pins);
    calls(&mut pins);
    summaries(&mut pins);
    answers(&mut pins);
    traces_and_probes(&mut pins);
    calls_of_a_peer(&mut pins);
    handshakes_and_refusals(&mut pins);
    data_messages(&mut pins);
    if env::var_os("NEKO_PIN").is_some() {
        return fs::write(FILE, &pins.0).unwrap();
    }
    let pinned = fs::read_to_string(FILE).unwrap();
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let before = pinned.lines().filter(|line| lacks(&pins.0, line)).map(|line| format!("-{line}\n"));
    let after = pins.0.lines().filter(|line| lacks(&pinned, line)).map(|line| format!("+{line}\n"));
    assert!(pins.0 == pinned, "the wire changed:\n{}", before.chain(after).collect::<String>());
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32])
}

fn node(seed: u8) -> NodeId {
    identity(seed).id()
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
        published_ms: TIME_MS,
    };
    record.sign(&identity(1)).unwrap().to_signed()
}

fn at() -> NodeAddrs {
    NodeAddrs::new(node(1), [SocketAddr::from(([127, 0, 0, 1], 4000))])
}

fn found() -> QueryReply {
    let v6 = NodeAddrs::new(node(2), [SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 80))]);
    let via = Via::Indexer(IndexerAddr { addr: "192.0.2.7:7707".parse().unwrap(), node: node(1) });
    let v6 = ListedHolder { partial: true, via, ..ListedHolder::new(v6) };
    let hit = Hit { record: record(), holders: List::first_of([ListedHolder::new(at()), v6]) };
    QueryReply { hits: List::first_of([hit]), complete: true, messages: 9, ..QueryReply::default() }
}

fn values(pins: &mut Pins) {
    pins.pin("protocol version", &PROTOCOL_VERSION);
    pins.pin("node 1", &node(1));
    pins.pin("node 2", &node(2));
    pins.pin("node tag", &node(1).tag());
    pins.pin("record", &record());
    for mode in [Mode::Push, Mode::Pull, Mode::Hybrid] {
        let policy = Policy::new(mode, 1, 604_800, Staleness::Bounded).unwrap();
        pins.pin(&format!("policy {mode:?}"), &policy);
    }
    let stale = Policy::new(Mode::Push, 1, 2, Staleness::ServeStale).unwrap();
    pins.pin("policy of a set", &stale.of_set(true));
    pins.pin("policy of a withdrawal", &stale.of_withdrawal());
    let chunk = |len, byte| Chunk { len, hash: ChunkHash::from_bytes([byte; 32]) };
    let manifest = Manifest::new(vec![chunk(65_536, 0xc0), chunk(1, 0xd0)]).unwrap();
    let (bytes, hash) = manifest.encode().unwrap();
    pins.pin_bytes("manifest", &bytes);
    pins.pin("manifest's hash", &hash);
    pins.pin_bytes("manifest of an executable file", &manifest.of_executable(true).encode().unwrap().0);
}

fn calls(pins: &mut Pins) {
    let records = List::first_of([record()]);
    let covered = List::first_of([node(1).tag(), node(2).tag()]);
    let names = List::first_of([name("a"), name("b/c")]);
    let query = QueryRequest { covered: covered.clone(), ..QueryRequest::new(MSG_ID, name("a"), 3) };
    pins.call("query with a trace", Ask::Query { request: QueryRequest { trace: true, ..query.clone() } });
    pins.call("query of a guest", Ask::Query { request: QueryRequest { from_guest: true, ..query.clone() } });
    let visited = List::first_of([node(1).tag()]);
    let probe = ProbeRequest { visited, payload: vec![0xaa; 2], ..ProbeRequest::new(MSG_ID, 10) };
    pins.call("probe", Ask::Probe { request: probe });
    for (text, announce, partial) in [("register", true, false), ("register a part", false, true)] {
        let request = RegisterRequest { records: records.clone(), announce, partial };
        pins.call(text, Ask::Register { request });
    }
    pins.call("deregister", Ask::Deregister { names: names.clone() });
    pins.call("deregister all", Ask::DeregisterAll {});
    pins.call("renew", Ask::Renew {});
    pins.call("query", Ask::Query { request: query.clone() });
    let origin = IdDigits::try_from("8a".to_owned()).ok();
    let wishes = QueryRequest { origin, without: List::first_of([node(2).tag()]), ..query };
    pins.call("query with wishes", Ask::Query { request: wishes });
    let request = CallBack { holder: node(1), port: Some(4000), token: Token::from_bytes([0xb0; 16]) };
    pins.call("call back", Ask::CallBack { request });
    let request = InvalidateRequest { msg_id: MSG_ID, records, ttl_hops: 2, covered, from_guest: true };
    pins.call("invalidate", Ask::Invalidate { request });
    let request = QueryAllRequest { msg_id: MSG_ID, names, ttl_hops: 3 };
    pins.call("query for many", Ask::QueryAll { request });
    let search = Search {
        terms: List::first_of(["*.bin", "a"].map(|term| Term::new(term).unwrap())),
        min_size: 300,
        published_from_ms: 1,
        origin: Some("8a8".to_owned().try_into().unwrap()),
    };
    let (after, covered) = (Position { name: name("a"), origin: node(1) }, List::first_of([node(1).tag()]));
    let request = FindRequest {
        msg_id: MSG_ID,
        search,
        after: Some(after),
        limit: 50,
        ttl_hops: 3,
        covered,
        from_guest: true,
    };
    pins.call("find", Ask::Find { request });
    let request = ToIndexer::Request { id: u64::MAX, deadline_ms: u32::MAX, call: Ask::Renew {} };
    pins.pin("envelope: request", &request);
    pins.pin("envelope: cancel", &ToIndexer::Cancel { id: 251 });
    for fault in [Fault::Busy, Fault::Internal] {
        pins.pin(&format!("envelope: {fault:?}"), &ToPeer::Response { id: 0, answer: Err(fault) });
    }
}

fn summaries(pins: &mut Pins) {
    let news = |changes| SummaryNews { echo_ms: 300, number: 7, begins: false, is_all: true, changes };
    pins.call("summaries, nothing new", Ask::Summarize { news: news(List::new()) });
    let filter = Filter::for_keys(1);
    (0..100).for_each(|n| filter.insert(NameKey::of(&name(&n.to_string())))); // so that the word has bits
    let mut part = filter.parts().next().unwrap();
    part.words = List::first_of(part.words.iter().copied().take(1));
    let changes = [
        Change::Added(List::first_of([NameKey::of(&name("a"))])),
        Change::Filter { epoch: 7, count: 2, part },
        Change::Neighbors(List::first_of([node(1).tag()])),
        Change::ManyNeighbors,
    ];
    let news = news(List::first_of(changes));
    pins.call("summaries, changes", Ask::Summarize { news });
}

fn answers(pins: &mut Pins) {
    let lease = LeaseReply { lease_ms: 60_000, names: 2 };
    let (newer, unlisted) = (List::first_of([record()]), List::first_of([name("b")]));
    pins.answer("registered", Answer::Register(Ok(RegisterReply { lease, newer, unlisted })));
    pins.answer("deregistered", Answer::Deregister(Ok(())));
    pins.answer("renewed", Answer::Renew(Ok(lease)));
    pins.answer("found", Answer::Query(Ok(found())));
    pins.answer("nothing", Answer::Query(Ok(QueryReply::default())));
    pins.answer("invalidated", Answer::Invalidate(Ok(())));
    let reply = SummaryReply { clock_ms: 300, is_taken: true, confirms: 7 };
    pins.answer("summaries taken", Answer::Summarize(Ok(reply)));
    let none_and_nothing = List::first_of([None, Some(QueryReply::default())]);
    pins.answer("answers", Answer::QueryAll(Ok(none_and_nothing)));
    let hits = List::first_of(found().hits);
    let answered = List::first_of([node(1).tag()]);
    let silent = List::first_of([NodeTag::of_addr(at().addrs()[0])]);
    let next = Some(Position::of(record().unverified()));
    let matches =
        FindReply { hits, next, complete: true, guests_unheard: true, messages: 9, answered, silent };
    pins.answer("matches", Answer::Find(Ok(matches)));
    pins.answer("refused", Answer::Query(Err(Refusal::TtlTooLarge(17))));
}

fn traces_and_probes(pins: &mut Pins) {
    let found = List::first_of([TraceFound { origin: node(1).tag(), version: version(3), holders: 2 }]);
    let unasked = Unasked { node: None, addr: Some("[::1]:80".parse().unwrap()), why: WhyUnasked::RuledOut };
    let unasked = List::first_of([unasked]);
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
    let trace = Some(Box::new(TraceReply { hops, whole: true }));
    pins.answer("way", Answer::Query(Ok(QueryReply { trace, ..QueryReply::default() })));
    let stop = ProbeStop { node: node(1).tag(), again: true, own_ns: 300, waited_us: 5, next: None };
    let next = ProbeStop { next: Some("127.0.0.1:80".parse().unwrap()), again: false, ..stop };
    let stops = List::first_of([next, stop]);
    let cases = [("way of a probe", ProbeEnd::Hops), ("way of a lost probe", ProbeEnd::Lost(NoAnswer::Late))];
    for (text, end) in cases {
        pins.answer(text, Answer::Probe(Ok(ProbeReply { stops: stops.clone(), end })));
    }
}

fn calls_of_a_peer(pins: &mut Pins) {
    pins.call_of_peer("invalidate", AskPeer::Invalidate { records: List::first_of([record()]) });
    let held = Held { name: name("a"), version: version(300), content: CONTENT };
    pins.call_of_peer("confirm", AskPeer::Confirm { held: List::first_of([held]) });
    let wanted = Numbered { origin: node(1), name: name("a"), version: version(300) };
    pins.call_of_peer("lend", AskPeer::Lend { wanted });
    let (at, token) = ("127.0.0.1:4000".parse().unwrap(), Token::from_bytes([0xb0; 16]));
    pins.call_of_peer("dial back", AskPeer::DialBack { at: Some(at), token });
    pins.call_of_peer("reached", AskPeer::Reached { at, is_reached: false });
    let label = Label::try_from("desk-3".to_owned()).unwrap();
    pins.call_of_peer("introduce", AskPeer::Introduce { label });
    pins.answer_of_peer("introduced", PeerAnswer::Introduce(Ok(())));
    pins.answer_of_peer("lent", PeerAnswer::Lend(Ok(Some(Box::new(record())))));
    pins.answer_of_peer("noted", PeerAnswer::Invalidate(Ok(())));
    let newer = Verdict::Newer(Box::new(record()));
    let verdicts = [Verdict::Current, newer, Verdict::Unpublished, Verdict::Unknown];
    pins.answer_of_peer("verdicts", PeerAnswer::Confirm(Ok(List::first_of(verdicts))));
    pins.answer_of_peer("refused", PeerAnswer::Confirm(Err(Refusal::Busy)));
}

fn handshakes_and_refusals(pins: &mut Pins) {
    let (listen_port, nonce) = (4000, [0xd0; 32]);
    let hello = |role, purpose| Hello { node: node(1), role, purpose, listen_port, nonce, ..self::hello(1) };
    pins.pin("hello of a peer", &hello(Role::Peer, Purpose::Data));
    let hints = List::first_of(["192.0.2.7".parse().unwrap()]);
    pins.pin("hello of an open peer", &Hello { is_open: true, hints, ..self::hello(1) });
    pins.pin("hello of an indexer", &Ok::<_, H>(hello(Role::Indexer, Purpose::Control)));
    let refusals = [H::OtherNetwork, H::NotYourKey, H::Yourself, H::WrongPurpose, H::SecretMissing];
    for refusal in refusals.into_iter().chain([H::SecretUnasked, H::SecretWrong, H::NotAllowed]) {
        pins.pin(&format!("hello refused: {refusal:?}"), &Err::<Hello, _>(refusal));
    }
    let in_use = R::KeyInUse { at: "127.0.0.1:4000".parse().unwrap(), for_ms: 300_000 };
    let refusals = [R::TtlTooLarge(255), R::Forged, R::NotListening, R::Busy, R::WrongRole, R::BadPattern];
    for refusal in refusals.into_iter().chain([R::NoRoom, R::NotCalled, R::ProbeTooLarge, in_use]) {
        pins.pin(&format!("refusal: {refusal:?}"), &refusal);
    }
}

fn data_messages(pins: &mut Pins) {
    pins.pin("data: manifest", &DataRequest::Manifest(MANIFEST));
    let ranges = [(0, 1), (250, 251), (1 << 16, 1 << 32)].map(|(offset, len)| ByteRange { offset, len });
    pins.pin("data: get", &DataRequest::Get { content: CONTENT, ranges: List::first_of(ranges) });
    pins.pin("data: have", &DataRequest::Have(CONTENT));
    pins.pin("data: outboard", &DataRequest::Outboard(MANIFEST));
    let held = Held { name: name("a/b"), version: Version::FIRST, content: CONTENT };
    pins.pin("data: confirm", &DataRequest::Confirm(held));
    let range = ByteRange { offset: 250, len: 1 << 20 };
    let bases = List::first_of([CONTENT]);
    pins.pin("data: packed", &DataRequest::Packed { content: CONTENT, range, bases });
    let after = Packing::After { base: 1, ranges: List::first_of(ranges) };
    for (name, packing) in [("plain", Packing::Plain), ("frame", Packing::Frame), ("after", after)] {
        pins.pin_bytes(&format!("data packed: {name}"), &packing.before(&[7]).unwrap());
    }
    for freshness in [Freshness::Fresh, Freshness::Unverified, Freshness::Stale] {
        let grant = DataReply::Ok(Grant { len: 70_000, freshness, portion: None });
        pins.pin(&format!("data granted: {freshness:?}"), &grant);
    }
    let portion = Some(Portion { place: 3, of: 40 });
    let grant = DataReply::Ok(Grant { len: 70_000, freshness: Freshness::Fresh, portion });
    pins.pin("data granted: a portion", &grant);
    let refusals = [F::NotShared, F::Changed, F::Outdated(Version::FIRST), F::Unverified, F::BadRange];
    for refusal in refusals.into_iter().chain([F::Busy, F::Unreadable, F::NotYet]) {
        pins.pin(&format!("data refused: {refusal:?}"), &DataReply::Err(refusal));
    }
}

/// What the commonest messages cost, the four bytes of the length prefix not counted.
#[test]
fn frames_are_small() {
    let len = |pinned: &dyn Fn(&mut Pins)| {
        let mut pins = Pins::default();
        pinned(&mut pins);
        (pins.0.trim().rsplit(' ').next().unwrap().len()) / 2
    };
    let query = QueryRequest::new(MSG_ID, name("a"), 3);
    assert_eq!(len(&|pins| pins.call("query", Ask::Query { request: query.clone() })), 31);
    assert_eq!(len(&|pins| pins.answer("nothing", Answer::Query(Ok(QueryReply::default())))), 10);
    assert_eq!(len(&|pins| pins.pin("record", &record())), 193);
    assert_eq!(len(&|pins| pins.pin("holder", &ListedHolder::new(at()))), 45);
    let longest = (60_000..=u16::MAX).map(|port| SocketAddr::from(([u16::MAX; 8], port)));
    let via = Via::Indexer(IndexerAddr { addr: SocketAddr::from(([u16::MAX; 8], u16::MAX)), node: node(1) });
    let longest = ListedHolder { via, ..ListedHolder::new(NodeAddrs::new(node(1), longest)) };
    assert_eq!(len(&|pins| pins.pin("the longest holder", &longest)), HOLDER_BYTES_MAX);
}
