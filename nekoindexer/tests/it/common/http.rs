//! An HTTP client that sends exactly what it is told to.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::TEST_LIMIT;

/// A connection to `addr` on which `request` was sent.
pub(crate) fn send(addr: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TEST_LIMIT)).unwrap();
    // A server that has refused it by its beginning does not read the rest.
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// Sends `request` and reads until the other end closes.
pub(crate) fn exchange(addr: SocketAddr, request: &str) -> String {
    let mut answer = Vec::new();
    // A server that closes before it has read all resets the connection; what came before counts.
    let _ = send(addr, request).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request with further `headers`, each with its end of line.
pub(crate) fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n");
    exchange(addr, &format!("{head}Content-Length: {length}\r\n{headers}\r\n{body}"))
}

/// The status and the body of a page, off the threads that serve.
pub(crate) async fn page(addr: SocketAddr, path: &str) -> (u16, String) {
    let path = path.to_owned();
    let answer = tokio::task::spawn_blocking(move || ask(addr, "GET", &path, "", "")).await.unwrap();
    (status(&answer), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// A page that is there, and JSON.
pub(crate) async fn json(addr: SocketAddr, path: &str) -> serde_json::Value {
    let (status, body) = page(addr, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// The body of a problem, after checking that the answer is one.
pub(crate) fn problem(answer: &str) -> serde_json::Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("content-type: application/problem+json"), "{answer}");
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["status"], status(answer), "{answer}");
    assert!(problem["title"].is_string() && problem["detail"].as_str().is_some_and(|text| !text.is_empty()));
    problem
}

/// The data of the next event of this kind.
pub(crate) fn next_event(stream: &mut BufReader<TcpStream>, kind: &str) -> serde_json::Value {
    let mut lines = stream.lines().map(Result::unwrap);
    lines.find(|line| *line == format!("event: {kind}")).expect("the stream goes on");
    let data = lines.next().unwrap();
    serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
}
