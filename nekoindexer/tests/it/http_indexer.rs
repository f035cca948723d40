//! What an indexer answers over HTTP: figures that are right, and the same answers as a peer gets.

use crate::common::*;

pub(crate) async fn answering(neighbors: &[SocketAddr]) -> (IndexerHandle, SocketAddr) {
    let config = Config { http: Some(ANY_PORT), ..config(CLEAR, neighbors) };
    let indexer = Indexer::spawn(config).await.unwrap();
    let addr = indexer.http_addr().unwrap();
    (indexer, addr)
}

pub(crate) async fn metrics(addr: SocketAddr) -> BTreeMap<String, f64> {
    http::get(addr, "/metrics").await.samples()
}

async fn json_of(addr: SocketAddr, path: &str) -> serde_json::Value {
    http::get(addr, path).await.done(200)
}

#[testkit::test]
async fn what_nodes_do_is_counted() {
    let (far, _) = answering(&[]).await;
    let (near, addr) = answering(&[far.local_addr()]).await;
    far.reload(&[near.local_addr()], None).unwrap();
    near.neighbors_reach(1).await;
    let _holder = holder(1, &far, CLEAR).await;
    let asker = Peer::join(2, near.local_addr(), CLEAR).await;
    asker.register([record(2, "b", 1)]).await;
    asker.client.register(patient(), registration([forged(2, 3, "c", 1)])).await.unwrap().unwrap_err();
    asker.query("a", 2).await;
    let twice = query("b", 1);
    for _ in 0..2 {
        asker.client.query(patient(), twice.clone()).await.unwrap().unwrap();
    }
    asker.query("b", 0).await;

    let found = metrics(addr).await;
    let cases = [
        ("indexer_requests_total{kind=\"query\"}", 3.0..=3.0),
        ("indexer_requests_total{kind=\"search\"}", 1.0..=1.0),
        ("indexer_requests_total{kind=\"register\"}", 2.0..=2.0),
        ("indexer_drops_total{reason=\"forged\"}", 1.0..=1.0),
        ("indexer_drops_total{reason=\"duplicate\"}", 1.0..=1.0),
        ("indexer_forwards_total", 1.0..=9.0),
        ("indexer_answer_seconds_count{from=\"neighbors\"}", 1.0..=9.0),
        ("indexer_names", 1.0..=1.0),
        ("indexer_holders", 1.0..=1.0),
        ("indexer_neighbors{state=\"connected\"}", 1.0..=1.0),
        ("indexer_budget_used{budget=\"connections\"}", 1.0..=2.0),
    ];
    for (sample, expected) in cases {
        let counted =
            found.get(&format!("nekop2p_{sample}")).unwrap_or_else(|| panic!("{sample} of {found:?}"));
        assert!(expected.contains(counted), "{sample}: {counted}");
    }
    assert!(found["process_resident_memory_bytes"] > 1e6 && found["process_open_fds"] > 3.0);

    let status = json_of(addr, "/status").await;
    let node = json!([near.node().to_string(), near.local_addr(), 1, 1]);
    assert_eq!(json!([status["node"], status["listen"], status["names"], status["holders"]]), node);
    assert_eq!(status["queries"], json!(4));
    assert_eq!(json!([status["drops"]["forged"], status["drops"]["busy"]]), json!([1, 0]));
    let budget = &status["budget"];
    assert!(budget["memory"]["max_bytes"].is_u64() && budget["connections"]["max"].is_u64(), "{budget}");
    assert_eq!(status["latency"]["buckets"][23]["le_ms"], json!(8388.608));
    let neighbor = eventually(async || {
        let neighbor = json_of(addr, "/status").await["neighbors"][0].take();
        (neighbor["summary_current"] == true).then_some(neighbor)
    })
    .await;
    let cases = [
        ("standing", json!("configured")),
        ("asked", json!(true)),
        ("addr", json!(far.local_addr())),
        ("node", json!(far.node().to_string())),
        ("connected", json!(true)),
        ("late", json!(false)),
    ];
    for (key, expected) in cases {
        assert_eq!(neighbor[key], expected, "{key}: {neighbor}");
    }
}

#[testkit::test]
async fn a_query_over_http_gets_what_a_peer_gets() {
    let (far, _) = answering(&[]).await;
    let (near, addr) = answering(&[far.local_addr()]).await;
    near.neighbors_reach(1).await;
    let holder = Peer::join(1, far.local_addr(), CLEAR).await;
    let registered = record(1, "a b/ä.bin", 3);
    holder.register([registered.clone()]).await;
    let found = json_of(addr, "/api/v1/query?name=a%20b/%C3%A4.bin&name=none&ttl=1").await;
    let answers = found["answers"].as_array().unwrap();
    assert_eq!((answers.len(), &answers[0]["complete"]), (2, &json!(true)));
    let hit = &answers[0]["hits"][0];
    let origin = registered.unverified().origin.to_string();
    assert_eq!(json!([hit["name"], hit["version"], hit["origin"]]), json!(["a b/ä.bin", 3, origin]));
    assert_eq!(hit["holders"][0]["addr"], json!(holder.holder.unwrap().addr));
    assert_eq!(answers[1]["hits"], json!([]));
    let alone = json_of(addr, "/api/v1/query?name=a%20b/%C3%A4.bin&ttl=0").await;
    assert_eq!(alone["answers"][0]["hits"], json!([]));
    let many = format!("?{}", "name=a&".repeat(65));
    for query in ["", "?name=..", "?name=a&ttl=17", "?nam=a", &many] {
        http::get(addr, &format!("/api/v1/query{query}")).await.refused(400, "");
    }
}

#[testkit::test]
async fn ready_is_when_every_neighbor_was_tried() {
    let (_socket, nobody) = kept_port();
    let (_indexer, addr) = answering(&[nobody]).await;
    assert_eq!(http::get(addr, "/healthz").await.status, 200);
    eventually(async || (http::get(addr, "/readyz").await.status == 200).then_some(())).await;
    let neighbor = json_of(addr, "/api/v1/neighbors").await["neighbors"][0].take();
    assert_eq!(json!([neighbor["connected"], neighbor["addr"]]), json!([false, nobody]));
    assert!(neighbor["why"].is_string(), "{neighbor}");
    assert_eq!(metrics(addr).await["nekop2p_indexer_neighbors{state=\"away\"}"], 1.0);
}

#[testkit::test]
async fn events_bring_new_figures_each_second() {
    let (indexer, addr) = answering(&[]).await;
    let asker = Peer::join(2, indexer.local_addr(), CLEAR).await;
    let mut client = http::Client::new(addr);
    client.request("GET", "/api/v1/events", &[], b"");
    let next =
        |mut client: http::Client| tokio::task::spawn_blocking(move || (client.event("figures"), client));
    let (first, client) = next(client).await.unwrap();
    asker.query("b", 0).await;
    let (second, _) = next(client).await.unwrap();
    assert_eq!(json!([first["queries"], second["queries"]]), json!([0, 1]));
    assert!(second["queries_per_s"].as_f64().unwrap() > 0.0);
    indexer.shutdown().await;
}

#[testkit::test]
async fn the_description_is_complete() {
    let (_indexer, addr) = answering(&[]).await;
    let answer = http::get(addr, "/api/v1/openapi.json").await;
    let described = answer.done(200);
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    let api = ["events", "neighbors", "query"].map(|name| format!("/api/v1/{name}"));
    let others = ["/healthz", "/metrics", "/readyz", "/status"].map(str::to_owned);
    assert!(api.iter().chain(&others).all(|path| paths.contains_key(path)), "{:?}", paths.keys());
    for (path, methods) in paths {
        let responses = methods["get"]["responses"].as_object().unwrap();
        assert!(responses["200"]["content"].is_object() && responses.contains_key("4XX"), "{path}");
        assert!(responses.values().all(|response| response["description"].is_string()), "{path}");
    }
    for reference in answer.text().split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(described.pointer(pointer).is_some(), "{pointer}");
    }
}
