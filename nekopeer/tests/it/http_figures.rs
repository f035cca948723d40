//! What a running peer tells of itself over HTTP.

use crate::program::*;

#[test]
fn a_download_shows_in_the_figures_of_both_ends() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("large", bytes(1, 3 * MIB));
    origin.write("small", "small");
    let mut sharing = origin.start_err(&["share", "large", "small", "--http", "127.0.0.1:0"], "serving on ");
    let here = Http::of(&origin, &mut sharing);
    let (mut reading, there) = Http::serving(&reader, &[]);
    assert_eq!(there.get("/status").done(200)["files"]["copies"], 0);
    reader.done(&["get", "large", "small"]);

    let moved = f64::from(u32::try_from(3 * MIB + 5).unwrap());
    let (up, down) = (here.get("/metrics").samples(), there.get("/metrics").samples());
    let sent = up["nekop2p_peer_file_bytes_total{direction=\"up\"}"]; // the list of chunks too
    assert!((moved..moved * 1.01).contains(&sent), "{sent}");
    assert_eq!(down["nekop2p_peer_file_bytes_total{direction=\"down\"}"], moved);
    assert!(up["nekop2p_peer_requests_total{outcome=\"answered\"}"] >= 2.0);
    assert_eq!(up["nekop2p_peer_files{role=\"own\"}"], 2.0);
    assert_eq!(down["nekop2p_peer_downloads_total"], 2.0);
    assert_eq!(down["nekop2p_peer_indexers{state=\"connected\"}"], 1.0);
    assert_eq!(down["nekop2p_peer_commands"], 0.0);
    assert!(down["process_resident_memory_bytes"] > 1e6);

    // A count is some seconds old.
    until(&mut reading, "the files are counted anew", || {
        there.get("/metrics").samples()["nekop2p_peer_files{role=\"copy\"}"] == 2.0
    });
    let plain = there.ask("GET", "/metrics", &["accept: text/plain"], b"");
    assert_eq!(plain.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let (text, mut family) = (plain.text(), String::new());
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", name, _, ..] => family = name.to_owned(),
            ["#", "TYPE", name, "counter" | "gauge"] => assert_eq!(name, family),
            _ => assert_eq!(line.split(['{', ' ']).next().unwrap(), family, "{line}"),
        }
    }
    assert!(text.contains("\nnekop2p_peer_downloads_total 2\n"), "{text}");
    let status = there.get("/status").done(200);
    assert_eq!((&status["files"]["copies"], &status["files"]["fresh"]), (&2.into(), &2.into()), "{status}");
    assert_eq!(status["traffic"]["bytes_down"], 3 * MIB + 5);
    assert!((1..600_000).contains(&status["uptime_ms"].as_u64().unwrap()), "{status}");
    assert!(status["memory"]["used_bytes"].as_u64() < status["memory"]["max_bytes"].as_u64(), "{status}");
    let limits = ["limit_up_bytes_per_s", "limit_down_bytes_per_s", "paused"]
        .map(|key| status["traffic"][key].clone());
    assert_eq!(limits, [serde_json::Value::Null, serde_json::Value::Null, false.into()]);
    assert_eq!((&status["indexers"][0]["connected"], &status["network"]), (&true.into(), &"nekop2p".into()));
    assert_eq!(there.get("/metrics").samples()["nekop2p_peer_copies_confirmed_within{seconds=\"300\"}"], 2.0);
}

#[test]
fn ready_is_a_peer_that_can_be_found_or_wants_no_indexer() {
    let cut_off = Home::with(&["--indexer", "127.0.0.1:1"]);
    let mut serving = cut_off.start(&["serve", "--http", "127.0.0.1:0"]);
    let http = Http::of(&cut_off, &mut serving);
    assert_eq!(http.get("/healthz").status, 200);
    http.get("/readyz").refused(503, "/status");
    let status = http.get("/status").done(200);
    assert_eq!(status["indexers"][0]["connected"], false);
    let (_indexers, home, _) = two_homes();
    let (mut serving, http) = Http::serving(&home, &[]);
    until(&mut serving, "it is connected", || http.get("/readyz").status == 200);
    let described = http.get("/api/v1/openapi.json").done(200);
    for path in ["/status", "/metrics", "/healthz", "/readyz"] {
        assert!(described["paths"][path]["get"]["responses"]["200"].is_object(), "{path}");
    }
}
