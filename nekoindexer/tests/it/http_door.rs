//! The HTTP plumbing over real sockets: what it answers, whom it refuses, and whom it cuts.

use std::{io::Read, net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Instant};

use axum::{
    Json, Router,
    body::Bytes,
    response::sse::Event,
    routing::{get, post},
};
use nekoindexer::http::{Authorized, Guard, HttpConfig, HttpDoor, Token, events, guarded};
use tokio::sync::broadcast;

use crate::common::{
    ANY_PORT, TEST_LIMIT,
    http::{ask, exchange, problem, send, status},
};

fn open(router: Router, guard: Guard) -> HttpDoor {
    HttpDoor::open(HttpConfig { listen: ANY_PORT, threads: NonZeroUsize::MIN }, guarded(router, guard))
        .unwrap()
}

fn echo() -> Router {
    let change = async |_: Authorized, body: Bytes| body;
    Router::new()
        .route("/hello", get(async || "hello"))
        .route("/json", post(async |Json(value): Json<serde_json::Value>| Json(value)))
        .route("/change", post(change))
}

fn hello(addr: SocketAddr) -> String {
    ask(addr, "GET", "/hello", "", "")
}

#[testkit::test]
async fn answers_carry_the_headers_that_keep_pages_apart() {
    let door = open(echo(), Guard::default());
    let answer = hello(door.local_addr());
    assert_eq!(status(&answer), 200, "{answer}");
    let headers = [
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; script-src 'self'",
        "cross-origin-resource-policy: same-origin",
        "referrer-policy: no-referrer",
        "x-frame-options: DENY",
    ];
    assert!(headers.iter().all(|header| answer.contains(header)), "{answer}");
    door.shutdown().await;
}

#[testkit::test]
async fn every_error_is_a_problem() {
    let door = open(echo(), Guard::default());
    let addr = door.local_addr();
    let of_host =
        |host: &str| exchange(addr, &format!("GET /hello HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
    let cases = [
        (ask(addr, "GET", "/nowhere", "", ""), 404),
        (ask(addr, "POST", "/hello", "", ""), 405),
        (ask(addr, "POST", "/json", "Content-Type: application/json\r\n", "{"), 400),
        (ask(addr, "POST", "/json", "", "{}"), 415),
        (ask(addr, "POST", "/json", "Content-Type: application/json\r\n", &"1".repeat(2 << 20)), 413),
        (ask(addr, "POST", "/change", "", "x"), 403),
        (of_host(""), 400),
        (of_host("Host: localhost\r\nHost: localhost\r\n"), 400),
        (of_host("Host: evil.example\r\n"), 421),
        (ask(addr, "GET", "http://evil.example/hello", "", ""), 400),
        (ask(addr, "POST", "/json", "Origin: http://evil.example\r\n", "{}"), 403),
        (ask(addr, "POST", "/json", "Sec-Fetch-Site: cross-site\r\n", "{}"), 403),
    ];
    for (answer, expected) in cases {
        assert_eq!(status(&answer), expected, "{answer}");
        problem(&answer);
    }
    assert!(ask(addr, "POST", "/hello", "", "").to_lowercase().contains("allow: get,head"));
    door.shutdown().await;
}

#[testkit::test]
async fn changing_routes_take_the_token_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let token = Arc::new(Token::load_or_create(&folder.path().join("http.token")).unwrap());
    let door = open(echo(), Guard { hosts: Vec::new(), token: Some(Arc::clone(&token)) });
    let addr = door.local_addr();
    let change = |headers: &str| ask(addr, "POST", "/change", headers, "done");
    let missing = change("");
    assert_eq!(status(&missing), 401);
    assert!(missing.to_lowercase().contains("www-authenticate: bearer"), "{missing}");
    assert_eq!(status(&change("Authorization: Basic eDp5\r\n")), 401);
    assert_eq!(status(&change("Authorization: Bearer wrong\r\n")), 403);
    assert_eq!(status(&ask(addr, "POST", &format!("/change?token={}", token.reveal()), "", "")), 401);
    let right = change(&format!("Authorization: bearer {}\r\n", token.reveal()));
    assert!(right.ends_with("\r\n\r\ndone"), "{right}");
    door.shutdown().await;
}

#[testkit::test]
async fn heads_that_are_too_large_are_refused() {
    let door = open(echo(), Guard::default());
    let addr = door.local_addr();
    let large = format!("X: {}\r\n", "x".repeat(32 * 1024));
    assert_eq!(status(&ask(addr, "GET", "/hello", &large, "")), 431);
    assert_eq!(status(&ask(addr, "GET", "/hello", &"X: y\r\n".repeat(100), "")), 431);
    let path = format!("/{}", "x".repeat(64 * 1024));
    assert!(matches!(status(&ask(addr, "GET", &path, "", "")), 414 | 431));
    assert_eq!(status(&hello(addr)), 200);
    door.shutdown().await;
}

/// Clients that begin requests and never end them, at once: all are cut, and nobody waits for them.
#[testkit::test]
async fn slow_heads_are_cut_and_hold_up_nobody() {
    let door = open(echo(), Guard::default());
    let addr = door.local_addr();
    let begun = Instant::now();
    let heads = ["", "G", "GET /hello HTTP/1.1\r\n", "GET /hello HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"];
    let slow: Vec<_> = (0..100).map(|n| send(addr, heads[n % heads.len()])).collect();
    assert_eq!(status(&hello(addr)), 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // closed or reset, but not left open
    }
    assert!(begun.elapsed() < TEST_LIMIT, "cut by the client's own time limit");
    door.shutdown().await;
}

#[testkit::test]
async fn events_come_in_order_and_what_was_missed_is_told() {
    let news = broadcast::Sender::<u32>::new(4);
    let sender = news.clone();
    let follow = get(async move || {
        let receiver = sender.subscribe();
        (0..7).for_each(|n| drop(sender.send(n))); // three more than are kept
        events::follow(receiver, |n: u32| {
            (n != 5).then(|| Event::default().event("number").data(n.to_string()))
        })
    });
    let door = open(Router::new().route("/events", follow), Guard::default());
    let mut stream = send(door.local_addr(), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (mut text, mut some) = (String::new(), [0; 1024]);
    while !text.contains("data: 6") {
        let read = stream.read(&mut some).unwrap();
        assert_ne!(read, 0, "{text}");
        text.push_str(std::str::from_utf8(&some[..read]).unwrap());
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let events: Vec<_> =
        text.lines().filter(|line| line.starts_with("event:") || line.starts_with("data:")).collect();
    let number = "event: number";
    let expected =
        ["event: missed", "data: {\"missed\":3}", number, "data: 3", number, "data: 4", number, "data: 6"];
    assert_eq!(events, expected);
    door.shutdown().await; // though the stream of events has no end
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

/// Goal: connections that bring no request keep nobody out. Method: more of them than there are places, all of this
/// machine, as is who comes then.
#[test]
fn connections_that_bring_no_request_keep_nobody_out() {
    nekoproto::transport::raise_file_limit();
    let door = open(echo(), Guard::default());
    let addr = door.local_addr();
    let mut working = send(addr, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let silent: Vec<_> = (0..2500).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
    assert_eq!(status(&hello(addr)), 200);
    let mut first = [0; 15];
    working.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    drop(silent);
}
