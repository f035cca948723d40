//! The HTTP plumbing over real sockets: what it answers, whom it refuses, and where it sends files.

use std::{convert::Infallible, fs::File, io::Write, num::NonZeroUsize};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    http::header::CONTENT_LENGTH,
    response::{IntoResponse, sse::Event},
    routing::{get, post},
};
use nekoindexer::daemon::http::{
    Authorized, FileSender, Guard, HttpConfig, HttpDoor, Token, events, guarded, send_file::FRAME_BYTES_MAX,
};
use tokio::sync::broadcast;

use crate::common::{
    http::{Client, ask},
    *,
};

fn open(router: Router, guard: Guard) -> HttpDoor {
    HttpDoor::open(HttpConfig { listen: ANY_PORT, threads: NonZeroUsize::MIN }, guarded(router, guard))
        .unwrap()
}

fn echo() -> (HttpDoor, SocketAddr) {
    let door = open(routes(), Guard::default());
    let addr = door.local_addr();
    (door, addr)
}

fn routes() -> Router {
    let change = async |_: Authorized, body: Bytes| body;
    Router::new()
        .route("/hello", get(async || "hello"))
        .route("/json", post(async |Json(value): Json<serde_json::Value>| Json(value)))
        .route("/change", post(change))
}

fn is_served(addr: SocketAddr) {
    assert_eq!(ask(addr, "GET", "/hello", &[], b"").status, 200);
}

/// Which hosts, origins and headers are refused is tested beside the guard; here, that it stands before the routes, and
/// that each error is a problem.
#[test]
fn answers_carry_the_headers_that_keep_pages_apart_and_every_error_is_a_problem() {
    let (_door, addr) = echo();
    let answer = ask(addr, "GET", "/hello", &[], b"");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    let headers = [
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; script-src 'self'"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in headers {
        assert!(answer.header(name).starts_with(value), "{name}: {}", answer.head);
    }

    let json = "content-type: application/json";
    let (long, large) = (format!("x: {}", "x".repeat(32 * 1024)), "1".repeat(2 << 20));
    let cases: [(&str, &str, &[&str], &str, u16); 10] = [
        ("GET", "/nowhere", &[], "", 404),
        ("POST", "/hello", &[], "", 405),
        ("POST", "/json", &[json], "{", 400),
        ("POST", "/json", &[], "{}", 415),
        ("POST", "/json", &[json], &large, 413),
        ("POST", "/change", &[], "x", 403),
        ("GET", "/hello", &["host: evil.example"], "", 421),
        ("GET", "http://evil.example/hello", &[], "", 400),
        ("POST", "/json", &["origin: http://evil.example"], "{}", 403),
        ("POST", "/json", &["sec-fetch-site: cross-site"], "{}", 403),
    ];
    for (method, path, headers, body, status) in cases {
        ask(addr, method, path, headers, body.as_bytes()).refused(status, "");
    }
    assert_eq!(ask(addr, "POST", "/hello", &[], b"").header("allow").to_lowercase(), "get,head");
    // A head that is too large is refused before it is read.
    let path = format!("/{}", "x".repeat(64 * 1024));
    for (path, headers) in [("/hello", vec![&long[..]]), ("/hello", vec!["x: y"; 100]), (&path[..], vec![])] {
        let status = ask(addr, "GET", path, &headers, b"").status;
        assert!(matches!(status, 414 | 431), "{status} for {} headers", headers.len());
    }
    is_served(addr);
}

#[test]
fn changing_routes_take_the_token_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let token = Arc::new(Token::load_or_create(&folder.path().join("http.token")).unwrap());
    let door = open(routes(), Guard { hosts: Vec::new(), token: Some(Arc::clone(&token)) });
    let change = |path: &str, headers: &[&str]| ask(door.local_addr(), "POST", path, headers, b"done");
    let cases: [(&str, &[&str], u16); 4] = [
        ("/change", &[], 401),
        ("/change", &["authorization: Basic eDp5"], 401),
        ("/change", &["authorization: Bearer wrong"], 403),
        (&format!("/change?token={}", token.reveal()), &[], 401),
    ];
    for (path, headers, status) in cases {
        let answer = change(path, headers);
        assert_eq!(answer.status, status, "{path} {headers:?}");
        let asks = answer.header("www-authenticate").to_lowercase().starts_with("bearer");
        assert!(asks || status != 401, "{path} {headers:?}: {}", answer.head);
    }
    let right = change("/change", &[&format!("authorization: bearer {}", token.reveal())]);
    assert_eq!((right.status, right.text()), (200, "done"));
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
    let mut client = Client::new(door.local_addr());
    client.request("GET", "/events", &[], b"");
    assert_eq!(client.head().header("content-type"), "text/event-stream");
    assert_eq!(client.event("missed")["missed"], 3);
    assert_eq!([(); 3].map(|()| client.event("number")), [3, 4, 6]);
    door.shutdown().await; // though the stream of events has no end
    drop(client.rest());
}

/// Method: more of them than there are places, all of this machine, as is who comes then.
#[test]
fn connections_that_bring_no_request_keep_nobody_out() {
    nekoproto::transport::raise_file_limit();
    let (_door, addr) = echo();
    let mut working = Client::new(addr);
    working.request("GET", "/hello", &[], b"");
    let silent: Vec<_> = (0..2500).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
    is_served(addr);
    assert_eq!(working.head().status, 200);
    drop(silent);
}

/// Method: more of them than there are connections, all of this machine, as is who comes then.
#[testkit::test]
async fn event_streams_keep_no_short_request_out() {
    nekoproto::transport::raise_file_limit();
    let news = broadcast::Sender::<u32>::new(4);
    let sender = news.clone();
    let follow = async move || events::follow(sender.subscribe(), |_| Some(Event::default().event("number")));
    let door = open(routes().route("/events", get(follow)), Guard::default());
    let addr = door.local_addr();
    let (mut clients, mut open) = (Vec::new(), 0);
    for _ in 0..2200 {
        let mut client = Client::new(addr);
        client.request("GET", "/events", &[], b"");
        open += usize::from(client.head().status == 200);
        clients.push(client);
    }
    assert_eq!(open, 1024, "as many as there may be");
    is_served(addr);
    let mut further = Client::new(addr);
    further.ask("GET", "/events", &[], b"").refused(503, "1024 event streams");
    assert_eq!(further.ask("GET", "/hello", &[], b"").status, 200, "over the same connection");
    assert_eq!(news.receiver_count(), 1024, "who is refused leaves nothing behind");
    drop(clients);
    door.shutdown().await;
}

/// Method: more of them than there are connections, short ones and some that are longer than what the system takes.
#[test]
fn unread_answers_keep_nobody_out() {
    nekoproto::transport::raise_file_limit();
    let long = Bytes::from(vec![b'x'; 1024 * 1024]);
    let door = open(routes().route("/long", get(async move || long.clone())), Guard::default());
    let addr = door.local_addr();
    for path in ["/hello", "/long"] {
        let mut unread = Vec::new();
        for _ in 0..3000 {
            let mut client = Client::new(addr);
            client.request("GET", path, &[], b"");
            assert_eq!(client.head().status, 200, "its body is not taken");
            unread.push(client);
        }
        is_served(addr);
        drop(unread);
    }
}

/// Longer than what the system takes at once, and than one frame.
const FILE_BYTES: usize = 11 * 1024 * 1024 + 3;

/// A door whose `/mixed` answers with text, a part of a file that begins with `bytes`, text, and another part.
fn mixed(bytes: &[u8]) -> HttpDoor {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let file: Arc<File> = Arc::new(file);
    let mixed = async move |Extension(files): Extension<FileSender>| {
        // Frames are made when it is their turn: a HEAD makes none.
        let pieces = stream::iter(0..5).map(move |at| {
            Ok::<_, Infallible>(match at {
                1 => files.frame(&file, 5..FILE_BYTES as u64),
                3 => files.frame(&file, 0..7),
                _ => Bytes::from_static(&b"<_|_>"[at..=at]),
            })
        });
        let len = 1 + FRAME_BYTES_MAX + 1 + 7 + 1;
        ([(CONTENT_LENGTH, len.to_string())], Body::from_stream(pieces)).into_response()
    };
    open(Router::new().route("/mixed", get(mixed)), Guard::default())
}

fn bytes() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

#[test]
fn parts_of_files_stand_where_the_body_has_them_also_in_pipelined_answers() {
    let content = bytes();
    let door = mixed(&content);
    let body = [b"<", &content[5..5 + FRAME_BYTES_MAX], b"|", &content[..7], b">"].concat();
    let mut client = Client::new(door.local_addr());
    ["GET", "HEAD", "GET"].iter().for_each(|method| client.request(method, "/mixed", &[], b""));
    let first = client.head();
    std::thread::sleep(Duration::from_millis(50)); // the door waits for the reader; nothing depends on how long
    assert!(client.body(first).body == body, "the first answer");
    assert_eq!(client.head().header("content-length"), body.len().to_string(), "to HEAD, without a body");
    let last = client.head();
    assert!(client.body(last).body == body, "the last one");
}

#[test]
fn an_answer_whose_file_is_too_short_is_cut() {
    let door = mixed(&bytes()[..1024 * 1024]);
    let answer = Client::new(door.local_addr()).ask("GET", "/mixed", &[], b"");
    assert!(answer.is_cut && answer.body.len() < 2 * 1024 * 1024, "{} bytes", answer.body.len());
    assert!(!answer.body.ends_with(b">"));
}
