//! `GET /f/NAME`: held files in whole and in part, files of other nodes while they come, and what is said about
//! their freshness.

use std::{
    io::Write,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nekopeer::Event;
use nekoproto::{DataRequest, Freshness, Mode, Policy, Records, Staleness, Verdict};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::fs::{CWD, FileType, mknodat};
use tokio::sync::Notify;

use crate::common::{
    Goods, Holder, MIB, ScriptedReply, Then, bytes, eventually,
    goods::CHUNK_BYTES,
    holder::{blocking, patient},
    http::{Client, ask, door, get},
    identity, indexer, name, peer,
};

/// A holder of these goods that is their origin, and confirms them.
async fn origin(goods: &Goods, indexer: std::net::SocketAddr) -> Holder {
    let honest = goods.clone();
    let origin = Holder::begin(identity(1), move |request| honest.honest(request));
    origin.confirms(Verdict::Current);
    origin.register(indexer, [goods.record.to_signed()]).await;
    origin
}

#[testkit::test(multi_thread)]
async fn a_held_file_is_sent_with_its_version_and_for_how_long_it_may_be_kept() {
    let (folder, node) = peer(&[]).await;
    let content = bytes(1, 3 * MIB + 7);
    let record = node.publish(&folder.write("deep/a b.bin", &content)).await;
    let door = door(&node.peer);
    let answer = get(door.local_addr(), "/f/deep/a%20b.bin").await;
    assert_eq!((answer.status, answer.is_cut), (200, false));
    assert!(answer.body == content);
    assert_eq!(answer.header("etag"), format!("\"v1-{}\"", record.content));
    assert_eq!(answer.header("cache-control"), "max-age=60, must-revalidate");
    assert_eq!(answer.header("x-neko-version"), "1");
    assert_eq!(answer.header("x-neko-origin"), node.peer.node().to_string());
    assert_eq!(answer.header("x-neko-freshness"), "fresh");
    assert_eq!(answer.header("accept-ranges"), "bytes");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(!answer.has("age") && !answer.has("warning"));
    let head = ask(door.local_addr(), "HEAD", "/f/deep%2Fa%20b.bin", &["range: bytes=0-1"]).await;
    assert_eq!((head.status, head.header("content-length")), (200, (3 * MIB + 7).to_string().as_str()));
    assert_eq!(head.header("etag"), answer.header("etag"));
    let post = ask(door.local_addr(), "POST", "/f/deep/a%20b.bin", &["content-length: 0"]).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
    // The date is said once no other version can have it.
    let path = "/f/deep/a%20b.bin";
    let dated = eventually(async || {
        Some(ask(door.local_addr(), "HEAD", path, &[]).await).filter(|head| head.has("last-modified"))
    });
    let date = format!("if-modified-since: {}", dated.await.header("last-modified"));
    assert_eq!(ask(door.local_addr(), "GET", path, &[&date]).await.status, 304);
}

#[testkit::test(multi_thread)]
async fn conditions_decide_what_is_sent() {
    let (folder, node) = peer(&[]).await;
    let record = node.publish(&folder.write("a", b"0123456789")).await;
    let door = door(&node.peer);
    let at = door.local_addr();
    let tag = format!("\"v1-{}\"", record.content);
    let ask = async |header: &str| ask(at, "GET", "/f/a", &["range: bytes=2-4", header]).await;
    let unchanged = ask(&format!("if-none-match: \"other\", W/{tag}")).await;
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, tag.as_str()));
    assert_eq!(unchanged.header("cache-control"), "max-age=60, must-revalidate");
    let other = ask("if-match: \"v0-x\"").await;
    assert_eq!((other.status, other.header("content-type")), (412, "application/problem+json"));
    assert_eq!((other.header("etag"), other.header("cache-control")), (tag.as_str(), "no-store"));
    let part = ask(&format!("if-range: {tag}")).await;
    assert_eq!((part.status, part.header("content-range")), (206, "bytes 2-4/10"));
    assert_eq!(part.body, b"234");
    let whole = ask("if-range: \"v0-x\"").await;
    assert_eq!((whole.status, whole.body), (200, b"0123456789".to_vec()));
}

#[testkit::test(multi_thread)]
async fn ranges_that_are_not_answered_say_how_long_the_file_is() {
    let (folder, node) = peer(&[]).await;
    node.publish_all(&[&folder.write("a", b"0123456789"), &folder.write("empty", b"")]).await;
    let door = door(&node.peer);
    for range in ["bytes=10-", "bytes=0-1,4-5", "bytes=5-2", "bytes=x", "bytes=-0"] {
        let answer = ask(door.local_addr(), "GET", "/f/a", &[&format!("range: {range}")]).await;
        assert_eq!((answer.status, answer.header("content-range")), (416, "bytes */10"), "{range}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    let twice = ["range: bytes=0-1", "range: bytes=4-5"];
    assert_eq!(ask(door.local_addr(), "GET", "/f/a", &twice).await.status, 416);
    let lines = ask(door.local_addr(), "GET", "/f/a", &["range: lines=0-1"]).await;
    assert_eq!((lines.status, lines.body.len()), (200, 10));
    let empty = ask(door.local_addr(), "GET", "/f/empty", &["range: bytes=0-"]).await;
    assert_eq!((empty.status, empty.header("content-range")), (416, "bytes */0"));
    let empty = get(door.local_addr(), "/f/empty").await;
    assert_eq!((empty.status, empty.header("content-length")), (200, "0"));
}

/// Goal: whatever is asked for comes, byte by byte. Method: random ranges of files around the length of a piece,
/// several requests sent before their answers are read.
#[testkit::test(multi_thread)]
async fn random_ranges_over_one_connection_are_the_bytes_of_the_file() {
    let (folder, node) = peer(&[]).await;
    let piece = 256 * 1024;
    let sizes = [1, 1000, piece - 1, piece, piece + 1, 5 * piece + 17];
    let files: Vec<_> = sizes.iter().map(|len| (format!("f{len}"), bytes(7, *len))).collect();
    for (name, content) in &files {
        node.publish(&folder.write(name, content)).await;
    }
    let door = door(&node.peer);
    let addr = door.local_addr();
    blocking(move || {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = Client::new(addr);
        for _ in 0..40 {
            let asked: Vec<_> = (0..random.random_range(1..5))
                .map(|_| {
                    let (name, content) = &files[random.random_range(0..files.len())];
                    let first = random.random_range(0..content.len());
                    let last = random.random_range(first..content.len() + 10);
                    (name, content, first, last)
                })
                .collect();
            for (name, _, first, last) in &asked {
                let range = format!("range: bytes={first}-{last}");
                client.send("GET", &format!("/f/{name}"), &[&range]);
            }
            for (name, content, first, last) in asked {
                let head = client.head();
                let answer = client.body(head);
                assert_eq!((answer.status, answer.is_cut), (206, false));
                let expected = &content[first..(last + 1).min(content.len())];
                assert!(answer.body == expected, "{name} {first}-{last}, seed {seed}");
            }
        }
    })
    .await;
}

#[testkit::test(multi_thread)]
async fn hostile_paths_are_refused_and_lead_nowhere() {
    let (folder, node) = peer(&[]).await;
    node.publish(&folder.write("a", b"public")).await;
    folder.write("secret", b"not published");
    let door = door(&node.peer);
    let broken = [
        "/f/..%2fa",
        "/f/../a",
        "/f/%2e%2e/a",
        "/f//a",
        "/f/a/",
        "/f/./a",
        "/f/%2Fetc%2Fpasswd",
        "/f/a%00",
        "/f/a%5Cb",
        "/f/%ff",
        "/f/a%0d%0aX:y",
        "/f/.neko/peer.key",
        "/f/.NEKO-part-x",
        "/f/%252e%252e/%00",
    ];
    for path in broken {
        let answer = get(door.local_addr(), path).await;
        assert_eq!(answer.status, 400, "{path}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.header("content-type"), "application/problem+json", "{path}");
    }
    // Decoded once only, and not held: nobody is asked for it without an indexer.
    for path in ["/f/secret", "/f/%252e%252e", "/f/A", "/f/a%20"] {
        let status = get(door.local_addr(), path).await.status;
        assert!(status == 404 || status == 503, "{path}: {status}");
    }
    let long = format!("/f/{}", "x".repeat(1025));
    assert_eq!(get(door.local_addr(), &long).await.status, 400);
    assert_eq!(get(door.local_addr(), "/f/").await.status, 404);
}

#[testkit::test(multi_thread)]
async fn a_file_that_a_browser_would_run_is_saved_instead() {
    let (folder, node) = peer(&[]).await;
    node.publish(&folder.write("deep/x.html", b"<script>fetch('/api/v1/stop')</script>")).await;
    let door = door(&node.peer);
    let answer = get(door.local_addr(), "/f/deep/x.html").await;
    assert_eq!(answer.header("content-disposition"), "attachment; filename*=UTF-8''x.html");
    assert!(answer.header("content-security-policy").starts_with("sandbox; default-src 'none'"));
    // A browser replaces the headers of the file that it has by those of an answer without bytes.
    let tag = format!("if-none-match: {}", answer.header("etag"));
    let unchanged = ask(door.local_addr(), "GET", "/f/deep/x.html", &[&tag]).await;
    for header in ["content-security-policy", "content-disposition"] {
        assert_eq!((unchanged.status, unchanged.header(header)), (304, answer.header(header)));
    }
}

#[testkit::test(multi_thread)]
async fn an_answer_is_cut_when_its_file_changes_meanwhile() {
    let (folder, node) = peer(&[]).await;
    let path = folder.write("a", &bytes(1, 64 * MIB));
    node.publish(&path).await;
    let door = door(&node.peer);
    for change in ["write", "shorten", "write and set the time back"] {
        let (addr, path) = (door.local_addr(), path.clone());
        let answer = blocking(move || {
            let mut client = Client::new(addr);
            client.send("GET", "/f/a", &[]);
            let head = client.head();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            match change {
                "write" => (&file).write_all(b"changed").unwrap(),
                "shorten" => file.set_len(20 * MIB as u64).unwrap(),
                _ => {
                    let modified = file.metadata().unwrap().modified().unwrap();
                    file.write_all_at(b"changed", 10 * MIB as u64).unwrap();
                    file.set_modified(modified).unwrap();
                }
            }
            client.body(head)
        })
        .await;
        assert_eq!((answer.status, answer.is_cut), (200, true), "{change}");
        // What is not as it was published is not handed out, until it is published again.
        let refused = get(door.local_addr(), "/f/a").await;
        assert_eq!(refused.status, 409, "{}", String::from_utf8_lossy(&refused.body));
        node.publish(&folder.path("a")).await;
        assert_eq!(ask(door.local_addr(), "HEAD", "/f/a", &[]).await.status, 200);
    }
}

#[testkit::test(multi_thread)]
async fn a_pipe_in_place_of_a_file_is_no_file_and_nobody_waits_for_it() {
    let (folder, node) = peer(&[]).await;
    node.publish(&folder.write("a", b"a")).await;
    std::fs::remove_file(folder.path("a")).unwrap();
    mknodat(CWD, folder.path("a"), FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0)
        .unwrap();
    let answer = get(door(&node.peer).local_addr(), "/f/a").await;
    assert_eq!(answer.status, 409, "{}", String::from_utf8_lossy(&answer.body));
}

#[testkit::test(multi_thread)]
async fn an_answer_goes_on_when_its_file_is_replaced_by_another() {
    let (folder, node) = peer(&[]).await;
    let content = bytes(1, 64 * MIB);
    node.publish(&folder.write("a", &content)).await;
    let door = door(&node.peer);
    let (addr, new, old) = (door.local_addr(), folder.write("b", b"new"), folder.path("a"));
    let answer = blocking(move || {
        let mut client = Client::new(addr);
        client.send("GET", "/f/a", &[]);
        let head = client.head();
        std::fs::rename(new, old).unwrap();
        client.body(head)
    })
    .await;
    assert!(answer.body == content, "{} bytes", answer.body.len());
}

#[testkit::test(multi_thread)]
async fn a_file_of_another_node_is_sent_while_it_comes_and_not_kept() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    for (text, len) in [("empty", 0), ("small", 100), ("large", 20 * MIB)] {
        let content = bytes(3, len);
        let record = origin.publish(&from.write(text, &content)).await;
        let path = format!("/f/{text}");
        let answer = get(door.local_addr(), &path).await;
        assert_eq!((answer.status, answer.is_cut), (200, false), "{text}");
        assert!(answer.body == content, "{text}");
        assert_eq!(answer.header("etag"), format!("\"v1-{}\"", record.content));
        assert_eq!(answer.header("cache-control"), "max-age=0, must-revalidate");
        assert!(!to.has(text) && reader.status(text).await.is_none(), "no copy is kept");
    }
    let content = bytes(3, 20 * MIB);
    for (header, part) in [
        ("range: bytes=5000000-5999999", 5_000_000..6_000_000),
        ("range: bytes=-1", 20 * MIB - 1..20 * MIB),
        ("range: bytes=0-0", 0..1),
    ] {
        let answer = ask(door.local_addr(), "GET", "/f/large", &[header]).await;
        assert_eq!((answer.status, answer.is_cut), (206, false), "{header}");
        assert!(answer.body == content[part], "{header}");
    }
}

#[testkit::test(multi_thread)]
async fn only_what_is_asked_for_is_fetched() {
    let indexer = indexer(&[]).await;
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 40 * CHUNK_BYTES));
    let mut origin = origin(&goods, indexer.local_addr()).await;
    let (_folder, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    let tag = format!("if-none-match: \"v1-{}\"", goods.record.content);
    assert_eq!(ask(door.local_addr(), "HEAD", "/f/a", &[]).await.status, 200);
    assert_eq!(ask(door.local_addr(), "GET", "/f/a", &[&tag]).await.status, 304);
    assert_eq!(ask(door.local_addr(), "GET", "/f/a", &["range: bytes=99999999-"]).await.status, 416);
    assert!(origin.asked.try_recv().is_err(), "nothing but the record is needed");
    let first = 10 * CHUNK_BYTES + 5;
    let range = format!("range: bytes={first}-{}", first + CHUNK_BYTES);
    let answer = ask(door.local_addr(), "GET", "/f/a", &[&range]).await;
    assert!(answer.body == goods.bytes[first..=first + CHUNK_BYTES]);
    let mut fetched = 0;
    while let Ok(request) = origin.asked.try_recv() {
        if let DataRequest::Get { ranges, .. } = request {
            fetched += ranges.iter().map(|range| range.len).sum::<u64>();
        }
    }
    assert_eq!(fetched, 2 * CHUNK_BYTES as u64, "the chunks that the range touches");
}

#[testkit::test(multi_thread)]
async fn what_no_source_delivers_is_an_error_and_what_breaks_off_is_cut() {
    let indexer = indexer(&[]).await;
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 200 * CHUNK_BYTES));
    // Delivers this many bytes of the file, then closes every connection.
    let left = Arc::new(AtomicUsize::new(0));
    let (honest, may) = (goods.clone(), Arc::clone(&left));
    let origin = Holder::begin(identity(1), move |request| {
        let reply = honest.honest(request);
        if !matches!(request, DataRequest::Get { .. }) {
            return reply;
        }
        let len = honest.asked(request).len();
        let taken = may.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(len));
        if taken.is_ok() { reply } else { reply.cut_to(0).then(Then::Close) }
    });
    origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (_folder, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    let nothing = get(door.local_addr(), "/f/a").await;
    assert_eq!((nothing.status, nothing.header("content-type")), (502, "application/problem+json"));
    assert!(nothing.has("retry-after"));
    left.store(5 * MIB, Ordering::SeqCst);
    let part = get(door.local_addr(), "/f/a").await;
    assert_eq!((part.status, part.is_cut), (200, true));
    assert!(goods.bytes.starts_with(&part.body) && !part.body.is_empty());
}

#[testkit::test(multi_thread)]
async fn bytes_that_are_not_the_files_are_never_sent() {
    let indexer = indexer(&[]).await;
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 20 * CHUNK_BYTES));
    let honest = goods.clone();
    let liar = Holder::begin(identity(1), move |request| {
        let mut bytes = honest.asked(request);
        if let DataRequest::Get { ranges, .. } = request {
            let mut at = 0;
            for range in ranges.iter() {
                if (range.offset..range.offset + range.len).contains(&(15 * CHUNK_BYTES as u64)) {
                    bytes[at] ^= 1;
                }
                at += usize::try_from(range.len).unwrap();
            }
        }
        ScriptedReply::of(bytes)
    });
    liar.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (_folder, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    let answer = get(door.local_addr(), "/f/a").await;
    assert!(answer.status == 502 || answer.is_cut, "{}", answer.status);
    assert!(answer.status == 502 || goods.bytes.starts_with(&answer.body));
    // An origin whose content hash is not that of its own chunks: the last bytes are held back.
    let lies = Goods::with(&identity(1), "lie", 1, bytes(2, 20 * CHUNK_BYTES), |record| {
        record.content = nekoproto::ContentHash::from_bytes([7; 32]);
    });
    let served = lies.clone();
    let origin = Holder::begin(identity(1), move |request| served.honest(request));
    origin.register(indexer.local_addr(), [lies.record.to_signed()]).await;
    let answer = get(door.local_addr(), "/f/lie").await;
    assert_eq!((answer.status, answer.is_cut), (200, true), "{:?}", String::from_utf8_lossy(&answer.body));
}

#[testkit::test(multi_thread)]
async fn a_client_that_leaves_ends_its_fetch() {
    let indexer = indexer(&[]).await;
    let goods = Goods::new(&identity(1), "a", 1, bytes(1, 20 * CHUNK_BYTES));
    let (gate, honest) = (Arc::new(Notify::new()), goods.clone());
    let closed = Arc::clone(&gate);
    let mut origin = Holder::begin(identity(1), move |request| {
        let reply = honest.honest(request);
        if matches!(request, DataRequest::Get { .. }) { reply.behind(&closed) } else { reply }
    });
    origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (from, other) = peer(&[indexer.local_addr()]).await;
    other.publish(&from.write("b", b"of another node")).await;
    let (_folder, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    // More than are fetched at once: each one that left made room.
    for _ in 0..70 {
        let mut client = Client::new(door.local_addr());
        client.send("GET", "/f/a", &[]);
        while !matches!(origin.asked.recv().await.unwrap(), DataRequest::Get { .. }) {}
        drop(client);
    }
    eventually(async || Some(get(door.local_addr(), "/f/b").await).filter(|answer| answer.status == 200))
        .await;
}

#[testkit::test(multi_thread)]
async fn names_of_several_origins_are_chosen_by_origin() {
    let indexer = indexer(&[]).await;
    let (from, one) = peer(&[indexer.local_addr()]).await;
    let (other, two) = peer(&[indexer.local_addr()]).await;
    one.publish(&from.write("a", b"one")).await;
    two.publish(&other.write("a", b"two")).await;
    let (_folder, reader) = peer(&[indexer.local_addr()]).await;
    let door = door(&reader.peer);
    let answer = get(door.local_addr(), "/f/a").await;
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!((answer.status, answer.header("content-type")), (409, "application/problem+json"));
    for (node, content) in [(&one, "one"), (&two, "two")] {
        let choice = format!("?origin={}", node.peer.node());
        assert!(text.contains(&choice), "{text}");
        for id in [node.peer.node().to_string(), node.peer.node().to_string().to_uppercase()] {
            let answer = get(door.local_addr(), &format!("/f/a?origin={id}")).await;
            assert_eq!(answer.body, content.as_bytes(), "{id}");
        }
    }
    assert_eq!(get(door.local_addr(), "/f/a?origin=zz").await.status, 404);
    assert_eq!(get(door.local_addr(), "/f/missing").await.status, 404);
}

#[testkit::test(multi_thread)]
async fn an_outdated_copy_gives_way_to_the_newest_version_and_is_sent_as_stale_where_that_cannot_be_had() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.becomes("a", Freshness::Fresh).await;
    let door = door(&reader.peer);
    let fresh = get(door.local_addr(), "/f/a").await;
    assert_eq!((fresh.header("x-neko-freshness"), &fresh.body[..]), ("fresh", &b"version 1"[..]));
    let left: u64 = fresh.header("cache-control").split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!((1..60).contains(&left), "what is left of a minute: {left}");
    origin.publish(&from.write("a", b"version two")).await;
    reader.invalidated("a", 2).await;
    let newest = get(door.local_addr(), "/f/a").await;
    assert_eq!((newest.header("x-neko-version"), &newest.body[..]), ("2", &b"version two"[..]));
    origin.peer.shutdown().await;
    assert_eq!(to.read("a"), b"version 1");
    let stale =
        eventually(async || Some(get(door.local_addr(), "/f/a").await).filter(|answer| answer.status == 200))
            .await;
    assert_eq!((stale.header("x-neko-version"), &stale.body[..]), ("1", &b"version 1"[..]));
    assert_eq!(stale.header("x-neko-freshness"), "stale");
    assert_eq!(stale.header("warning"), "110 - \"Response is Stale\"");
    assert_eq!(stale.header("cache-control"), "max-age=0, must-revalidate");
    assert!(stale.has("age"));
}

#[testkit::test(multi_thread)]
async fn a_copy_whose_origin_is_away_is_sent_as_unverified_or_not_at_all_as_its_policy_says() {
    for (staleness, status) in [(Staleness::ServeStale, 200), (Staleness::Bounded, 504)] {
        let indexer = indexer(&[]).await;
        let terms = Policy::new(Mode::Pull, 1, 1, staleness).unwrap();
        let goods = Goods::with(&identity(1), "a", 1, b"version 1".to_vec(), |record| record.policy = terms);
        let origin = origin(&goods, indexer.local_addr()).await;
        let (_folder, mut cache) = peer(&[indexer.local_addr()]).await;
        cache.get("a").await.unwrap();
        cache.becomes("a", Freshness::Fresh).await;
        let door = door(&cache.peer);
        assert_eq!(get(door.local_addr(), "/f/a").await.body, goods.bytes);
        drop(origin);
        cache.sees(&Event::OriginAway(name("a"))).await;
        cache.becomes("a", Freshness::Unverified).await;
        let answer = get(door.local_addr(), "/f/a").await;
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
        if status == 200 {
            assert_eq!(answer.header("warning"), "111 - \"Revalidation Failed\"");
            assert_eq!(answer.header("x-neko-freshness"), "unverified");
            assert!(answer.has("age"));
        } else {
            assert!(answer.has("retry-after"));
            assert_eq!(answer.header("content-type"), "application/problem+json");
        }
    }
}

#[testkit::test(multi_thread)]
async fn an_outdated_copy_is_not_sent_where_its_policy_forbids_it() {
    let indexer = indexer(&[]).await;
    let strict = Policy::new(Mode::Push, 60, 60, Staleness::Bounded).unwrap();
    let version = |number: u64| {
        let content = format!("version {number}").into_bytes();
        Goods::with(&identity(1), "a", number, content, |record| record.policy = strict)
    };
    let goods = version(1);
    let origin = origin(&goods, indexer.local_addr()).await;
    let (_folder, mut cache) = peer(&[indexer.local_addr()]).await;
    cache.get("a").await.unwrap();
    cache.becomes("a", Freshness::Fresh).await;
    let newer = Records::first_of([version(2).record.to_signed()]);
    origin.call(cache.addr()).await.invalidate(patient(), newer).await.unwrap().unwrap();
    cache.invalidated("a", 2).await;
    let door = door(&cache.peer);
    let answer = get(door.local_addr(), "/f/a").await;
    assert_eq!(answer.status, 504, "{}", String::from_utf8_lossy(&answer.body));
    assert!(answer.has("retry-after"));
}

#[testkit::test(multi_thread)]
async fn a_copy_that_a_user_changed_is_fetched_anew() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"as published")).await;
    reader.get("a").await.unwrap();
    to.write("a", b"changed by hand");
    let door = door(&reader.peer);
    assert_eq!(get(door.local_addr(), "/f/a").await.body, b"as published");
    assert_eq!(to.read("a"), b"changed by hand");
}

#[test]
fn the_door_of_the_program_sends_files() {
    let (_indexers, home) = crate::program::one_home();
    let content = crate::program::bytes(1, 3 * MIB);
    home.write("deep/a.bin", &content);
    let mut running = home.start(&["share", "deep", "--http", "127.0.0.1:0"]);
    let http = crate::http_client::Http::of(&home, &mut running);
    running.err_line("registered ");
    let answer = http.get("/f/deep/a.bin");
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert!(answer.body == content);
    // What the door says about its own pages does not hide that a file may do nothing.
    assert!(answer.head.contains("sandbox; default-src 'none'"), "{}", answer.head);
}
