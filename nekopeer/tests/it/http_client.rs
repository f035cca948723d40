//! A small HTTP client of the tests: one request on one connection, as bytes.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::Value;

use crate::program::{Home, LIMIT, Running};

/// A peer's HTTP door.
pub(crate) struct Http {
    addr: String,
    token: String,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// The door of the peer of `home`, which was started with `--http 127.0.0.1:0`.
    pub(crate) fn of(home: &Home, running: &mut Running) -> Self {
        let line = running.out_line("http on ");
        let addr = line.trim_start_matches("http on http://").trim_end_matches('/').to_owned();
        let token = String::from_utf8(home.read(".neko/http.token")).unwrap().trim().to_owned();
        Self { addr, token }
    }

    /// A connection on which the head of a request was sent, with these further headers.
    pub(crate) fn begin(&self, method: &str, target: &str, headers: &[&str]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let host = if headers.iter().any(|header| header.starts_with("host:")) { "" } else { &self.addr };
        let host = if host.is_empty() { String::new() } else { format!("host: {host}\r\n") };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        write!(stream, "{method} {target} HTTP/1.1\r\n{host}{headers}\r\n").unwrap();
        stream
    }

    /// The header that changing routes ask for.
    pub(crate) fn authorization(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> Answer {
        let length = format!("content-length: {}", body.len());
        let mut stream = self.begin(method, target, &[headers, &["connection: close", &length]].concat());
        stream.write_all(body).unwrap();
        Answer::read(&mut stream)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    /// A request of a changing route.
    pub(crate) fn change(&self, method: &str, target: &str, body: &[u8]) -> Answer {
        self.ask(method, target, &[&self.authorization(), "content-type: application/json"], body)
    }
}

impl Answer {
    /// Reads an answer to the end of the connection.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = bytes.split_off(end + 4);
        let is_chunked = head.contains("transfer-encoding: chunked");
        Self { status, body: if is_chunked { joined(&body) } else { body }, head }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts an error with this status, whose detail contains `text`.
    pub(crate) fn refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(text), "{problem}");
    }

    /// The object of an answer with this status.
    pub(crate) fn done(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self.json()
    }
}

/// The bytes of a chunked body.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").expect("a body that is not cut off");
        let len = usize::from_str_radix(str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return all;
        }
        all.extend_from_slice(&body[end + 2..end + 2 + len]);
        body = &body[end + 2 + len + 2..];
    }
}
