//! `GET /f/NAME`: held files in whole and in part, files of other nodes while they come, and what is said about
//! their freshness.

use std::{fs::OpenOptions, io::Write, os::unix::fs::FileExt};

use crate::common::{
    http::{Client, door},
    *,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

#[testkit::test(multi_thread)]
async fn a_held_file_is_sent_with_its_version_and_for_how_long_it_may_be_kept() {
    let (folder, node) = peer(&[]).await;
    let content = bytes(1, 3 * MIB + 7);
    let record = node.publish(&folder.write("deep/a b.bin", &content)).await;
    let (_door, http) = door(&node.peer);
    let path = "/f/deep/a%20b.bin";
    let answer = http.get(path);
    assert_eq!((answer.status, answer.is_cut), (200, false));
    assert!(answer.body == content);
    for (header, value) in [
        ("etag", &*format!("\"v1-{}\"", record.content)),
        ("cache-control", "max-age=60, must-revalidate"),
        ("x-neko-version", "1"),
        ("x-neko-origin", &node.peer.node().to_string()),
        ("x-neko-freshness", "fresh"),
        ("accept-ranges", "bytes"),
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(header), value, "{header}");
    }
    assert_eq!((answer.header("age"), answer.header("warning")), ("", ""));
    let head = http.ask("HEAD", "/f/deep%2Fa%20b.bin", &["range: bytes=0-1"], b"");
    assert_eq!((head.status, head.header("content-length")), (200, (3 * MIB + 7).to_string().as_str()));
    assert_eq!(head.header("etag"), answer.header("etag"));
    let post = http.ask("POST", path, &[], b"");
    assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
    let unchanged = http.ask("GET", path, &["if-none-match: *"], b"");
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, answer.header("etag")));
    assert_eq!(unchanged.header("cache-control"), "max-age=60, must-revalidate");
    let other = http.ask("GET", path, &["if-match: \"v0-x\""], b"");
    other.refused(412, "another version");
    assert_eq!((other.header("etag"), other.header("cache-control")), (answer.header("etag"), "no-store"));
    // The date is said once no other version can have it.
    let dated = eventually(async || {
        Some(http.ask("HEAD", path, &[], b"")).filter(|head| !head.header("last-modified").is_empty())
    });
    let date = format!("if-modified-since: {}", dated.await.header("last-modified"));
    assert_eq!(http.ask("GET", path, &[&date], b"").status, 304);
}

/// Requests of a file of ten bytes, published at `{at}` or not to be dated: the status, and the bytes that come or how the
/// detail begins; then the file and the headers, of the last of which each value is tried.
const REQUESTS: &str = r#"
304 <- a | if-none-match: {tag} OR * OR W/{tag} OR "x",{tag} OR  "a,b" , W/"c", {tag}
304 <- a | if-none-match: "x" | if-none-match: {tag}
200 0123456789 <- a | if-none-match: "v0-x" OR  OR {bare} OR "{bare} OR "x" y {tag} OR w/{tag}
304 <- a | if-modified-since: {at}
200 0123456789 <- a | if-modified-since: {before} OR {after} OR yesterday
200 0123456789 <- a | if-unmodified-since: {at} OR yesterday
412 the file <- a | if-unmodified-since: {before} OR {after}
200 0123456789 <- a | if-none-match: "x" | if-modified-since: {at}
200 0123456789 <- a | if-match: * | if-unmodified-since: {before}
200 0123456789 <- undated | if-modified-since: {at}
412 the file <- undated | if-unmodified-since: {at}
200 0123456789 <- a | if-match: {tag}
412 the file <- a | if-match: W/{tag} OR "v0-x"
412 the file <- a | if-match: "v0-x" | if-none-match: *
304 <- a | if-match: * | if-none-match: *
206 234 <- a | range: bytes=2-4 | if-range: {tag} OR {at}
200 0123456789 <- a | range: bytes=2-4 | if-range:  OR "v0-x" OR W/{tag} OR {before} OR {after} OR *
200 0123456789 <- undated | range: bytes=2-4 | if-range: {at}
206 0 <- a | range: bytes=0-0
206 234 <- a | range: bytes=2-4
206 23456789 <- a | range: bytes=2-99
206 9 <- a | range: bytes=9-
206 789 <- a | range: bytes=-3
206 0123456789 <- a | range: bytes=-99 OR bytes=-99999999999999999999999
206 01234 <- a | range: Bytes = 0-4 ,,
206 123456789 <- a | range: bytes=1-99999999999999999999999
200 0123456789 <- a | range: lines=1-2
416 no byte <- a | range: bytes=10- OR bytes=10-12 OR bytes=-0 OR bytes=99999999999999999999999-
200 <- empty | range: bytes=0- OR bytes=0-1023 OR bytes=-1 OR bytes=5-
416 this is <- empty | range: bytes=x
200 0123456789 <- a | range: bytes=0-1,4-5 OR bytes=0-0,0-0 OR bytes=0-,-1 OR bytes=0-1,x
200 0123456789 <- a | range: bytes=0-1 | range: bytes=4-5
416 this is <- a | range:  OR bytes OR bytes= OR bytes=, OR bytes=- OR bytes=5-2 OR bytes=a-b OR bytes=+1-2
416 this is <- a | range: bytes=1 OR bytes=1--2 OR bytes=0x1- OR bytes= - OR bytes=1 -2
"#;

/// RFC 9110, sections 13 and 14.
#[testkit::test(multi_thread)]
async fn conditions_and_ranges_decide_what_is_sent() {
    let (indexer, [(_folder, reader)]) = network().await;
    let files =
        [("a", "0123456789", 1_600_000_000), ("undated", "0123456789", 4_000_000_000), ("empty", "", 0)];
    let mut origins = Vec::new();
    for ((text, content, published), seed) in files.into_iter().zip(1..) {
        let goods =
            Goods::with(seed, text, 1, content.into(), |record| record.published_ms = published * 1000);
        origins.push(goods.held(seed, indexer.local_addr()).await);
        reader.get(text).await.unwrap();
    }
    let (_door, http) = door(&reader.peer);
    let tag = http.get("/f/a").header("etag").to_owned();
    let requests = REQUESTS.replace("{tag}", &tag).replace("{bare}", tag.trim_matches('"'));
    let [before, at, after] = [11, 12, 13].map(|hour| format!("Sun, 13 Sep 2020 {hour}:26:40 GMT"));
    let requests = requests.replace("{before}", &before).replace("{at}", &at).replace("{after}", &after);
    for line in requests.lines().filter(|line| !line.is_empty()) {
        let (expected, request) = line.split_once(" <- ").unwrap();
        let mut headers: Vec<&str> = request.split(" | ").collect();
        let (name, (header, values)) = (headers.remove(0), headers.pop().unwrap().split_once(": ").unwrap());
        for value in values.split(" OR ") {
            let last = format!("{header}: {value}");
            let answer = http.ask("GET", &format!("/f/{name}"), &[&headers[..], &[&last]].concat(), b"");
            let said = match answer.status {
                400.. => answer.done(answer.status)["detail"].as_str().unwrap().to_owned(),
                _ => answer.text().to_owned(),
            };
            let answered = format!("{} {said}", answer.status);
            let is_it = if answer.status < 400 {
                answered.trim() == expected
            } else {
                answered.starts_with(expected)
            };
            assert!(is_it, "{answered} for {line}: {value}");
            let range = match answer.status {
                206 if last == "range: bytes=2-4" => "bytes 2-4/10",
                416 if name == "a" => "bytes */10",
                416 => "bytes */0",
                _ => answer.header("content-range"),
            };
            assert_eq!(answer.header("content-range"), range, "{line}: {value}");
        }
    }
    let empty = http.get("/f/empty");
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
    let (_door, http) = door(&node.peer);
    blocking(move || {
        let seed = rand::random();
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = Client::new(http.addr);
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
                client.request("GET", &format!("/f/{name}"), &[&range], b"");
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
    let (_door, http) = door(&node.peer);
    let broken = "/f/..%2fa /f/../a /f/%2e%2e/a /f//a /f/a/ /f/./a /f/%2Fetc%2Fpasswd /f/a%00 /f/a%5Cb /f/%ff \
                  /f/a%0d%0aX:y /f/.neko/peer.key /f/.NEKO-part-x /f/%252e%252e/%00";
    for path in broken.split(' ') {
        http.get(path).refused(400, "");
    }
    // Decoded once only, and not held: nobody is asked for it without an indexer.
    for path in ["/f/secret", "/f/%252e%252e", "/f/A", "/f/a%20"] {
        let status = http.get(path).status;
        assert!(status == 404 || status == 503, "{path}: {status}");
    }
    let long = format!("/f/{}", "x".repeat(1025));
    assert_eq!(http.get(&long).status, 400);
    assert_eq!(http.get("/f/").status, 404);
}

#[testkit::test(multi_thread)]
async fn a_file_that_a_browser_would_run_is_saved_instead() {
    let (folder, node) = peer(&[]).await;
    node.publish(&folder.write("deep/x.html", b"<script>fetch('/api/v1/stop')</script>")).await;
    let (_door, http) = door(&node.peer);
    let answer = http.get("/f/deep/x.html");
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=\"x.html\"; filename*=UTF-8''x.html"
    );
    assert!(answer.header("content-security-policy").starts_with("sandbox; default-src 'none'"));
    // A browser replaces the headers of the file that it has by those of an answer without bytes.
    let tag = format!("if-none-match: {}", answer.header("etag"));
    let unchanged = http.ask("GET", "/f/deep/x.html", &[&tag], b"");
    for header in ["content-security-policy", "content-disposition"] {
        assert_eq!((unchanged.status, unchanged.header(header)), (304, answer.header(header)));
    }
}

#[testkit::test(multi_thread)]
async fn an_answer_is_cut_when_its_file_changes_meanwhile_and_goes_on_when_it_is_replaced() {
    let (folder, node) = peer(&[]).await;
    let (path, content) = (folder.path("a"), bytes(1, 24 * MIB)); // more than the sockets take
    let (_door, http) = door(&node.peer);
    for change in ["write", "shorten", "write and set the time back", "replace"] {
        node.publish(&folder.write("a", &content)).await;
        let (mut client, path, new) = (Client::new(http.addr), path.clone(), folder.write("b", b"new"));
        let answer = blocking(move || {
            client.request("GET", "/f/a", &[], b"");
            let head = client.head();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            match change {
                "write" => (&file).write_all(b"changed").unwrap(),
                "shorten" => file.set_len(8 * MIB as u64).unwrap(),
                "replace" => fs::rename(new, &path).unwrap(),
                _ => {
                    let modified = file.metadata().unwrap().modified().unwrap();
                    file.write_all_at(b"changed", 10 * MIB as u64).unwrap();
                    file.set_modified(modified).unwrap();
                }
            }
            client.body(head)
        })
        .await;
        assert_eq!((answer.status, answer.is_cut), (200, change != "replace"), "{change}");
        assert!(answer.is_cut || answer.body == content);
        // What is not as it was published is not handed out, until it is published again.
        http.get("/f/a").refused(409, "");
        node.publish(&folder.path("a")).await;
        assert_eq!(http.ask("HEAD", "/f/a", &[], b"").status, 200);
    }
    // Nobody waits for a pipe in its place.
    fs::remove_file(&path).unwrap();
    testkit::pipe(&path);
    http.get("/f/a").refused(409, "");
}

#[testkit::test(multi_thread)]
async fn a_file_of_another_node_is_sent_while_it_comes_and_not_kept() {
    let (_indexer, [(from, origin), (to, reader), (_folder, holder)]) = network().await;
    let (_door, http) = door(&reader.peer);
    for (text, len) in [("empty", 0), ("small", 100), ("large", 20 * MIB)] {
        let content = bytes(3, len);
        let record = origin.publish(&from.write(text, &content)).await;
        let answer = http.get(&format!("/f/{text}"));
        assert_eq!((answer.status, answer.is_cut), (200, false), "{text}");
        assert!(answer.body == content, "{text}");
        assert_eq!(answer.header("etag"), format!("\"v1-{}\"", record.content));
        // The origin was asked.
        assert_eq!(answer.header("x-neko-freshness"), "fresh");
        let left: u64 = answer.header("cache-control").split(['=', ',']).nth(1).unwrap().parse().unwrap();
        assert!((1..=60).contains(&left), "what is left of a minute: {left}");
        assert_eq!((answer.header("age"), answer.header("warning")), ("", ""));
        assert!(!to.has(text) && reader.status(text).await.is_none(), "no copy is kept");
    }
    let content = bytes(3, 20 * MIB);
    for (header, part) in [
        ("range: bytes=5000000-5999999", 5_000_000..6_000_000),
        ("range: bytes=-1", 20 * MIB - 1..20 * MIB),
        ("range: bytes=0-0", 0..1),
    ] {
        let answer = http.ask("GET", "/f/large", &[header], b"");
        assert_eq!((answer.status, answer.is_cut), (206, false), "{header}");
        assert!(answer.body == content[part], "{header}");
    }
    holder.get("small").await.unwrap();
    origin.peer.shutdown().await;
    // It may not be kept without asking again, but it is not called stale.
    let answer = http.get("/f/small");
    assert_eq!((answer.status, answer.header("x-neko-freshness")), (200, "unverified"));
    assert_eq!(answer.header("cache-control"), "max-age=0, must-revalidate");
    assert_eq!((answer.header("age"), answer.header("warning")), ("", ""));
}

#[testkit::test(multi_thread)]
async fn only_what_is_asked_for_is_fetched() {
    let (indexer, [(_folder, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 40 * CHUNK_BYTES));
    let mut origin = goods.held(1, indexer.local_addr()).await;
    let (_door, http) = door(&reader.peer);
    let tag = format!("if-none-match: \"v1-{}\"", goods.record.content);
    assert_eq!(http.ask("HEAD", "/f/a", &[], b"").status, 200);
    assert_eq!(http.ask("GET", "/f/a", &[&tag], b"").status, 304);
    assert_eq!(http.ask("GET", "/f/a", &["range: bytes=99999999-"], b"").status, 416);
    assert!(origin.asked.try_recv().is_err(), "nothing but the record is needed");
    let first = 10 * CHUNK_BYTES + 5;
    let range = format!("range: bytes={first}-{}", first + CHUNK_BYTES);
    let answer = http.ask("GET", "/f/a", &[&range], b"");
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
    let (indexer, [(_folder, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 200 * CHUNK_BYTES));
    // Delivers this many bytes of the file, then closes every connection.
    let left = Arc::new(AtomicUsize::new(0));
    let may = Arc::clone(&left);
    let script = move |goods: &Goods, request: &DataRequest| {
        let reply = goods.honest(request);
        if !matches!(request, DataRequest::Get { .. }) {
            return reply;
        }
        let len = goods.asked(request).len();
        let taken = may.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(len));
        if taken.is_ok() { reply } else { reply.cut_to(0).then(Then::Close) }
    };
    let _origin = goods.served(1, indexer.local_addr(), script).await;
    let (_door, http) = door(&reader.peer);
    let nothing = http.get("/f/a");
    nothing.refused(502, "");
    assert_ne!(nothing.header("retry-after"), "");
    left.store(5 * MIB, Ordering::SeqCst);
    let part = http.get("/f/a");
    assert_eq!((part.status, part.is_cut), (200, true));
    assert!(goods.bytes.starts_with(&part.body) && !part.body.is_empty());
}

#[testkit::test(multi_thread)]
async fn bytes_that_are_not_the_files_are_never_sent() {
    let (indexer, [(_folder, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 20 * CHUNK_BYTES));
    let lies = |goods: &Goods, request: &DataRequest| {
        let mut wrong = goods.clone();
        wrong.bytes[15 * CHUNK_BYTES] ^= 1;
        wrong.honest(request)
    };
    let liar = goods.served(1, indexer.local_addr(), lies).await;
    let (_door, http) = door(&reader.peer);
    let answer = http.get("/f/a");
    assert!(answer.status == 502 || answer.is_cut, "{}", answer.status);
    assert!(answer.status == 502 || goods.bytes.starts_with(&answer.body));
    drop(liar);
    // An origin whose content hash is not that of its own chunks: the last bytes are held back.
    let lies = Goods::with(1, "lie", 1, bytes(2, 20 * CHUNK_BYTES), |record| {
        record.content = nekoproto::ContentHash::from_bytes([7; 32]);
    });
    let _origin = lies.held(1, indexer.local_addr()).await;
    let answer = http.get("/f/lie");
    assert_eq!((answer.status, answer.is_cut), (200, true), "{}", answer.text());
}

#[testkit::test(multi_thread)]
async fn a_client_that_leaves_ends_its_fetch() {
    let (indexer, [(from, other), (_folder, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 20 * CHUNK_BYTES));
    let closed = Arc::new(Notify::new());
    let script = move |goods: &Goods, request: &DataRequest| {
        let reply = goods.honest(request);
        if matches!(request, DataRequest::Get { .. }) { reply.behind(&closed) } else { reply }
    };
    let mut origin = goods.served(1, indexer.local_addr(), script).await;
    other.publish(&from.write("b", b"of another node")).await;
    let (_door, http) = door(&reader.peer);
    // More than are fetched at once: each one that left made room.
    for _ in 0..70 {
        let client = http.begin("GET", "/f/a", &[]);
        while !matches!(origin.asked.recv().await.unwrap(), DataRequest::Get { .. }) {}
        drop(client);
    }
    eventually(async || Some(http.get("/f/b")).filter(|answer| answer.status == 200)).await;
}

#[testkit::test(multi_thread)]
async fn names_of_several_origins_are_chosen_by_origin() {
    let (_indexer, [(from, one), (other, two), (_folder, reader)]) = network().await;
    one.publish(&from.write("a", b"one")).await;
    two.publish(&other.write("a", b"two")).await;
    let (_door, http) = door(&reader.peer);
    let ambiguous = http.get("/f/a");
    for (node, content) in [(&one, "one"), (&two, "two")] {
        let id = node.peer.node().to_string();
        ambiguous.refused(409, &format!("?origin={id}"));
        for id in [id.to_uppercase(), id] {
            assert_eq!(http.get(&format!("/f/a?origin={id}")).text(), content, "{id}");
        }
    }
    assert_eq!(http.get("/f/a?origin=zz").status, 404);
    assert_eq!(http.get("/f/missing").status, 404);
}

#[testkit::test(multi_thread)]
async fn an_outdated_or_changed_copy_gives_way_to_the_newest_version_and_is_sent_as_stale_where_that_cannot_be_had()
 {
    let (_indexer, [(from, origin), (to, mut reader)]) = network().await;
    origin.publish_all(&[&from.write("a", b"version 1"), &from.write("b", b"as published")]).await;
    reader.get("a").await.unwrap();
    reader.get("b").await.unwrap();
    reader.becomes("a", Freshness::Fresh).await;
    let (_door, http) = door(&reader.peer);
    to.write("b", b"changed by hand");
    assert_eq!(http.get("/f/b").body, b"as published");
    assert_eq!(to.read("b"), b"changed by hand");
    let fresh = http.get("/f/a");
    assert_eq!((fresh.header("x-neko-freshness"), fresh.text()), ("fresh", "version 1"));
    let left: u64 = fresh.header("cache-control").split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!((1..60).contains(&left), "what is left of a minute: {left}");
    origin.publish(&from.write("a", b"version two")).await;
    reader.invalidated("a", 2).await;
    let newest = http.get("/f/a");
    assert_eq!((newest.header("x-neko-version"), newest.text()), ("2", "version two"));
    assert_eq!(newest.header("x-neko-freshness"), "fresh", "the origin was asked");
    origin.peer.shutdown().await;
    assert_eq!(to.read("a"), b"version 1");
    let stale = eventually(async || Some(http.get("/f/a")).filter(|answer| answer.status == 200)).await;
    assert_eq!((stale.header("x-neko-version"), stale.text()), ("1", "version 1"));
    assert_eq!(stale.header("x-neko-freshness"), "stale");
    assert_eq!(stale.header("warning"), "110 - \"Response is Stale\"");
    assert_eq!(stale.header("cache-control"), "max-age=0, must-revalidate");
    assert_ne!(stale.header("age"), "");
}

async fn copy(terms: Policy) -> (nekoindexer::IndexerHandle, Goods, Holder, Folder, Node) {
    let (indexer, [(folder, cache)]) = network().await;
    let goods = Goods::with(1, "a", 1, b"version 1".to_vec(), |record| record.policy = terms);
    let origin = goods.held(1, indexer.local_addr()).await;
    cache.get("a").await.unwrap();
    cache.becomes("a", Freshness::Fresh).await;
    (indexer, goods, origin, folder, cache)
}

#[testkit::test(multi_thread)]
async fn a_copy_whose_origin_is_away_is_sent_as_unverified_or_not_at_all_as_its_policy_says() {
    for (staleness, status) in [(Staleness::ServeStale, 200), (Staleness::Bounded, 504)] {
        let terms = Policy::new(Mode::Pull, 1, 1, staleness).unwrap();
        let (_indexer, goods, origin, folder, mut cache) = copy(terms).await;
        let (_door, http) = door(&cache.peer);
        assert_eq!(http.get("/f/a").body, goods.bytes);
        drop(origin);
        cache.sees(&Event::OriginAway(name("a"))).await;
        cache.becomes("a", Freshness::Unverified).await;
        assert_eq!(folder.read("a"), goods.bytes, "it is kept");
        let answer = http.get("/f/a");
        if status == 200 {
            assert_eq!((answer.status, answer.header("x-neko-freshness")), (200, "unverified"));
            assert_eq!(answer.header("warning"), "111 - \"Revalidation Failed\"");
            assert_ne!(answer.header("age"), "");
        } else {
            answer.refused(504, "");
            assert_ne!(answer.header("retry-after"), "");
        }
    }
}

#[testkit::test(multi_thread)]
async fn an_outdated_copy_is_not_sent_where_its_policy_forbids_it() {
    let strict = Policy::new(Mode::Push, 60, 60, Staleness::Bounded).unwrap();
    let (_indexer, _goods, origin, _folder, mut cache) = copy(strict).await;
    origin
        .tell(cache.addr(), [Goods::new(1, "a", 2, b"version 2".to_vec()).record.to_signed()])
        .await
        .unwrap();
    cache.invalidated("a", 2).await;
    let (_door, http) = door(&cache.peer);
    let answer = http.get("/f/a");
    answer.refused(504, "");
    assert_ne!(answer.header("retry-after"), "");
}
