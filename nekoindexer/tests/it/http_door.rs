//! The HTTP plumbing over real sockets: what it answers, whom it refuses, and whom it cuts.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    routing::{get, post},
};
use nekoindexer::http::{Authorized, Guard, HttpConfig, HttpDoor, Token, guarded};

fn open(router: Router, guard: Guard) -> HttpDoor {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    HttpDoor::open(HttpConfig { listen, threads: NonZeroUsize::MIN }, guarded(router, guard)).unwrap()
}

fn echo() -> Router {
    let change = async |_: Authorized, body: Bytes| body;
    Router::new()
        .route("/hello", get(async || "hello"))
        .route("/json", post(async |Json(value): Json<serde_json::Value>| Json(value)))
        .route("/change", post(change))
}

/// Sends `request` and reads until the other end closes.
fn exchange(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that closes before it has read all resets the connection; what came before counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    exchange(
        addr,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        ),
    )
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// The body of a problem, after checking that the answer is one.
fn problem(answer: &str) -> serde_json::Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("content-type: application/problem+json"), "{answer}");
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["status"], status(answer), "{answer}");
    assert!(problem["title"].is_string() && problem["detail"].as_str().is_some_and(|text| !text.is_empty()));
    problem
}

#[tokio::test]
async fn answers_carry_the_headers_that_keep_pages_apart() {
    let door = open(echo(), Guard::default());
    let answer = ask(door.local_addr(), "GET", "/hello", "", "");
    assert_eq!(status(&answer), 200, "{answer}");
    for header in
        ["x-content-type-options: nosniff", "content-security-policy: default-src 'none'; script-src 'self'"]
    {
        assert!(answer.contains(header), "{answer}");
    }
    door.shutdown().await;
}

#[tokio::test]
async fn every_error_is_a_problem() {
    let door = open(echo(), Guard::default());
    let addr = door.local_addr();
    let cases = [
        (ask(addr, "GET", "/nowhere", "", ""), 404),
        (ask(addr, "POST", "/hello", "", ""), 405),
        (ask(addr, "POST", "/json", "Content-Type: application/json\r\n", "{"), 400),
        (ask(addr, "POST", "/json", "", "{}"), 415),
        (ask(addr, "POST", "/change", "", "x"), 403),
        (exchange(addr, "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"), 400),
        (exchange(addr, "GET /hello HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 421),
    ];
    for (answer, expected) in cases {
        assert_eq!(status(&answer), expected, "{answer}");
        problem(&answer);
    }
    assert!(ask(addr, "POST", "/hello", "", "").to_lowercase().contains("allow: get,head"));
    door.shutdown().await;
}

#[tokio::test]
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
