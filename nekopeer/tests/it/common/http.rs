//! A plain HTTP client, which shows what a server sends and where it stops.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
};

use nekoindexer::daemon::http::{HttpConfig, HttpDoor};
use nekopeer::PeerHandle;
use serde_json::Value;

use super::{ANY_PORT, blocking};
use crate::program::{Home, LIMIT, Running};

/// A server of HTTP, and the token that it asks for.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) addr: SocketAddr,
    token: String,
}

/// A door to the files of `peer`, for as long as the first lives.
pub(crate) fn door(peer: &PeerHandle) -> (HttpDoor, Http) {
    let config = HttpConfig { listen: ANY_PORT, threads: NonZeroUsize::MIN };
    let door = HttpDoor::open(config, nekopeer::file_routes(peer)).unwrap();
    let http = Http { addr: door.local_addr(), token: String::new() };
    (door, http)
}

impl Http {
    /// The door of the peer of `home`, which was started with `--http IP:0`.
    pub(crate) fn of(home: &Home, running: &mut Running) -> Self {
        let line = running.out_line("http on ");
        let addr = line.trim_start_matches("http on http://").trim_end_matches('/');
        let addr = addr.replace("0.0.0.0", "127.0.0.1").parse().unwrap();
        let token = fs::read_to_string(home.path(".neko/http.token")).unwrap().trim().to_owned();
        Self { addr, token }
    }

    /// The header that changing routes ask for.
    pub(crate) fn authorization(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    /// A connection on which the head of a request was sent, with these further headers.
    pub(crate) fn begin(&self, method: &str, target: &str, headers: &[&str]) -> Client {
        let mut client = Client::new(self.addr);
        client.send(method, target, headers);
        client
    }

    /// The answer to one request over a connection of its own.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> Answer {
        let length = format!("content-length: {}", body.len());
        let mut client = self.begin(method, target, &[headers, &[&length]].concat());
        client.write(body);
        client.answer(method)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    /// A request of a changing route.
    pub(crate) fn change(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> Answer {
        let headers = [&self.authorization(), "content-type: application/json"];
        self.ask(method, target, &headers, body.as_ref())
    }

    /// The same as [`ask`](Self::ask), off the runtime's threads.
    pub(crate) async fn asks(&self, method: &'static str, target: &str, headers: &[&str]) -> Answer {
        let (http, target) = (self.clone(), target.to_owned());
        let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
        blocking(move || {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            http.ask(method, &target, &headers, b"")
        })
        .await
    }

    pub(crate) async fn gets(&self, target: &str) -> Answer {
        self.asks("GET", target, &[]).await
    }
}

/// An answer as it came.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether the connection ended before the body did.
    pub(crate) is_cut: bool,
}

impl Answer {
    /// The value of a header, which is empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The object of an answer with this status.
    pub(crate) fn done(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?} {}", self.headers, self.text());
        self.json()
    }

    /// Asserts an error with this status, whose detail contains `text`.
    pub(crate) fn refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{:?} {}", self.headers, self.text());
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(text), "{problem}");
    }
}

/// A connection to a server.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends the head of a request; `headers` are whole lines.
    pub(crate) fn send(&mut self, method: &str, target: &str, headers: &[&str]) {
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.starts_with("host:")) {
            text.push_str("host: 127.0.0.1\r\n");
        }
        headers.iter().for_each(|header| text.extend([header, "\r\n"]));
        self.write(&[text.as_bytes(), b"\r\n"].concat());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The lines that come.
    pub(crate) fn lines(self) -> impl Iterator<Item = String> {
        self.0.lines().map_while(Result::ok)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "ended in the head");
        line.trim_end().to_owned()
    }

    /// Receives the head of an answer.
    pub(crate) fn head(&mut self) -> Answer {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let lines = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty()));
        let header = |line: String| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        };
        Answer { status, headers: lines.map(header).collect(), ..Answer::default() }
    }

    /// Receives the body that belongs to the head.
    pub(crate) fn body(&mut self, mut answer: Answer) -> Answer {
        if answer.header("transfer-encoding") != "chunked" {
            let len = answer.header("content-length").parse().unwrap_or(0);
            answer.is_cut = !self.receive(len, &mut answer.body);
            return answer;
        }
        loop {
            let len = usize::from_str_radix(&self.line(), 16).unwrap();
            answer.is_cut = !self.receive(len, &mut answer.body);
            self.line();
            if len == 0 || answer.is_cut {
                return answer;
            }
        }
    }

    /// Whether `len` bytes come.
    fn receive(&mut self, len: usize, bytes: &mut Vec<u8>) -> bool {
        match self.0.by_ref().take(len as u64).read_to_end(bytes) {
            Ok(read) => read == len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "hangs");
                false
            }
        }
    }

    /// Receives the answer to a request with this method.
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let head = self.head();
        let has_body = method != "HEAD" && head.status != 304;
        if has_body { self.body(head) } else { head }
    }
}
