//! What an indexer answers over HTTP: figures that are right, and the same answers as a peer gets.

use std::{
    collections::{BTreeMap, HashSet},
    io::BufReader,
    net::SocketAddr,
};

use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::transport::Security;

use crate::common::{
    ANY_PORT, Peer, config, eventually, forged, http, kept_port, name, patient, query, record, registration,
};

/// An indexer that answers HTTP, and where.
pub(crate) async fn answering(neighbors: &[SocketAddr]) -> (IndexerHandle, SocketAddr) {
    let config = Config { http: Some(ANY_PORT), ..config(Security::Insecure, neighbors) };
    let indexer = Indexer::spawn(config).await.unwrap();
    let addr = indexer.http_addr().unwrap();
    (indexer, addr)
}

/// The samples of a text of metrics, after checking it: each sample belongs to the family that was described last, no
/// family and no sample comes twice, buckets do not fall, and the end is marked.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.strip_suffix("# EOF\n").expect("the end is marked").lines();
    let (mut families, mut samples, mut family) =
        (HashSet::new(), BTreeMap::new(), (String::new(), String::new()));
    let (mut described, mut series, mut bucket) = (String::new(), String::new(), 0.0);
    for line in lines {
        if let Some(help) = line.strip_prefix("# HELP ") {
            described = help.split_once(' ').unwrap().0.to_owned();
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, described);
            assert!(families.insert(name.to_owned()), "twice: {name}");
            family = (name.to_owned(), kind.to_owned());
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(family.0.as_str()).unwrap_or_else(|| panic!("{line} of {}", family.0));
        let suffixes: &[&str] = match family.1.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{other}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        if suffix == "_bucket" {
            let of = sample.replace(sample.split("le=\"").nth(1).unwrap().split('"').next().unwrap(), "");
            if of != series {
                (series, bucket) = (of, 0.0);
            }
            assert!(value >= bucket, "{line}");
            bucket = value;
        }
        assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

/// What the indexer at this address counts.
pub(crate) async fn metrics(addr: SocketAddr) -> BTreeMap<String, f64> {
    let (status, text) = http::page(addr, "/metrics").await;
    assert_eq!(status, 200);
    parse(&text)
}

#[testkit::test]
async fn what_nodes_do_is_counted() {
    let (far, _) = answering(&[]).await;
    let (near, addr) = answering(&[far.local_addr()]).await;
    near.neighbors_reach(1).await;
    let holder = Peer::join(1, far.local_addr(), Security::Insecure).await;
    let asker = Peer::join(2, near.local_addr(), Security::Insecure).await;
    holder.client.register(patient(), registration([record(1, "a", 1)])).await.unwrap().unwrap();
    asker.client.register(patient(), registration([record(2, "b", 1)])).await.unwrap().unwrap();
    asker.client.register(patient(), registration([forged(2, 3, "c", 1)])).await.unwrap().unwrap_err();
    asker.client.query(patient(), query("a", 2)).await.unwrap().unwrap();
    let twice = query("b", 0);
    let twice = nekoproto::QueryRequest { ttl_hops: 1, ..twice };
    asker.client.query(patient(), twice.clone()).await.unwrap().unwrap();
    asker.client.query(patient(), twice).await.unwrap().unwrap();
    asker.client.search(patient(), name("b")).await.unwrap().unwrap();

    let found = metrics(addr).await;
    let counted =
        |sample: &str| found.get(sample).copied().unwrap_or_else(|| panic!("{sample} of {found:?}"));
    // And perhaps the probe of the other end, which sees a guest.
    assert!((3.0..=4.0).contains(&counted("nekop2p_indexer_requests_total{kind=\"query\"}")));
    assert_eq!(counted("nekop2p_indexer_requests_total{kind=\"search\"}"), 1.0);
    assert_eq!(counted("nekop2p_indexer_requests_total{kind=\"register\"}"), 2.0);
    assert_eq!(counted("nekop2p_indexer_drops_total{reason=\"forged\"}"), 1.0);
    assert_eq!(counted("nekop2p_indexer_drops_total{reason=\"duplicate\"}"), 1.0);
    assert!(counted("nekop2p_indexer_forwards_total") >= 1.0);
    assert!(counted("nekop2p_indexer_answer_seconds_count{from=\"neighbors\"}") >= 1.0);
    assert_eq!(counted("nekop2p_indexer_names"), 1.0);
    assert_eq!(counted("nekop2p_indexer_holders"), 1.0);
    assert_eq!(counted("nekop2p_indexer_neighbors{state=\"connected\"}"), 1.0);
    assert_eq!(counted("nekop2p_indexer_budget_used{budget=\"connections\"}"), 1.0);
    assert!(counted("process_resident_memory_bytes") > 1e6 && counted("process_open_fds") > 3.0);

    let status = http::json(addr, "/status").await;
    assert_eq!(status["node"], near.node().to_string());
    assert_eq!(status["listen"], near.local_addr().to_string());
    assert_eq!((&status["names"], &status["holders"]), (&1.into(), &1.into()));
    assert!((4..=5).contains(&status["queries"].as_u64().unwrap()), "{status}");
    assert_eq!((&status["drops"]["forged"], &status["drops"]["busy"]), (&1.into(), &0.into()));
    // The other end sees a guest, which is told of names a second later.
    let neighbor = &eventually(async || {
        let neighbor = http::json(addr, "/status").await["neighbors"][0].take();
        (neighbor["summary_trusted"] == true).then_some(neighbor)
    })
    .await;
    assert_eq!((&neighbor["standing"], &neighbor["asked"]), (&"configured".into(), &true.into()));
    assert_eq!(neighbor["addr"], far.local_addr().to_string());
    assert_eq!(neighbor["node"], far.node().to_string());
    let flags = ["connected", "configured", "late", "summary_trusted"].map(|flag| neighbor[flag] == true);
    assert_eq!(flags, [true, true, false, true], "{neighbor}");
}

#[testkit::test]
async fn a_query_over_http_gets_what_a_peer_gets() {
    let (far, _) = answering(&[]).await;
    let (near, addr) = answering(&[far.local_addr()]).await;
    near.neighbors_reach(1).await;
    let holder = Peer::join(1, far.local_addr(), Security::Insecure).await;
    let registered = record(1, "a b/ä.bin", 3);
    holder.client.register(patient(), registration([registered.clone()])).await.unwrap().unwrap();
    let found = http::json(addr, "/api/v1/query?name=a%20b/%C3%A4.bin&name=none&ttl=1").await;
    let answers = found["answers"].as_array().unwrap();
    assert_eq!((answers.len(), &answers[0]["complete"]), (2, &true.into()));
    let hit = &answers[0]["hits"][0];
    assert_eq!((&hit["name"], &hit["version"]), (&"a b/ä.bin".into(), &3.into()));
    assert_eq!(hit["origin"], registered.unverified().origin.to_string());
    assert_eq!(hit["holders"][0]["addr"], holder.holder.unwrap().addr.to_string());
    assert_eq!(answers[1]["hits"], serde_json::json!([]));
    let alone = http::json(addr, "/api/v1/query?name=a%20b/%C3%A4.bin&ttl=0").await;
    assert_eq!(alone["answers"][0]["hits"], serde_json::json!([]));
    let many = format!("/api/v1/query?{}", "name=a&".repeat(65));
    let bad = [
        "/api/v1/query",
        "/api/v1/query?name=..",
        "/api/v1/query?name=a&ttl=17",
        "/api/v1/query?nam=a",
        &many,
    ];
    for path in bad {
        let (status, problem) = http::page(addr, path).await;
        assert_eq!(status, 400, "{path}: {problem}");
    }
}

#[testkit::test]
async fn ready_is_when_every_neighbor_was_tried() {
    let (_socket, nobody) = kept_port();
    let (_indexer, addr) = answering(&[nobody]).await;
    assert_eq!(http::page(addr, "/healthz").await.0, 200);
    eventually(async || (http::page(addr, "/readyz").await.0 == 200).then_some(())).await;
    let neighbors = http::json(addr, "/api/v1/neighbors").await;
    let neighbor = &neighbors["neighbors"][0];
    assert_eq!((&neighbor["connected"], &neighbor["addr"]), (&false.into(), &nobody.to_string().into()));
    assert!(neighbor["why"].is_string(), "{neighbor}");
    assert!(metrics(addr).await["nekop2p_indexer_neighbors{state=\"away\"}"] == 1.0);
}

#[testkit::test]
async fn events_bring_new_figures_each_second() {
    let (indexer, addr) = answering(&[]).await;
    let asker = Peer::join(2, indexer.local_addr(), Security::Insecure).await;
    let request = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let next = |mut stream: BufReader<std::net::TcpStream>| {
        tokio::task::spawn_blocking(move || (http::next_event(&mut stream, "figures"), stream))
    };
    let (first, stream) = next(BufReader::new(http::send(addr, request))).await.unwrap();
    asker.client.search(patient(), name("b")).await.unwrap().unwrap();
    let (second, _) = next(stream).await.unwrap();
    assert_eq!((&first["queries"], &second["queries"]), (&0.into(), &1.into()));
    assert!(second["queries_per_s"].as_f64().unwrap() > 0.0);
    indexer.shutdown().await;
}

/// Each route is described with what it answers, and each part that a description names is there.
#[testkit::test]
async fn the_description_is_complete() {
    let (_indexer, addr) = answering(&[]).await;
    let (status, text) = http::page(addr, "/api/v1/openapi.json").await;
    let described: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &described["openapi"]), (200, &"3.1.0".into()));
    let paths = described["paths"].as_object().unwrap();
    let expected = [
        "/api/v1/events",
        "/api/v1/neighbors",
        "/api/v1/query",
        "/healthz",
        "/metrics",
        "/readyz",
        "/status",
    ];
    assert!(expected.iter().all(|path| paths.contains_key(*path)), "{:?}", paths.keys());
    for (path, methods) in paths {
        let responses = methods["get"]["responses"].as_object().unwrap();
        assert!(responses["200"]["content"].is_object() && responses.contains_key("4XX"), "{path}");
        assert!(responses.values().all(|response| response["description"].is_string()), "{path}");
    }
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(described.pointer(pointer).is_some(), "{pointer}");
    }
}
