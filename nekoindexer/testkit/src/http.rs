//! An HTTP client that sends exactly what it is told to, and shows what came and where it ended.

use std::{
    collections::{BTreeMap, HashSet},
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::TEST_LIMIT;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body, without the marks of its chunks.
    pub body: Vec<u8>,
    /// Whether the connection ended before the body did.
    pub is_cut: bool,
}

impl Answer {
    /// The value of a header; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn done(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it is a problem with this status, whose detail contains `text`.
    pub fn refused(&self, status: u16, text: &str) {
        let problem = self.done(status);
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.head);
        assert!(problem["status"] == status && problem["title"].is_string(), "{problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(!detail.is_empty() && detail.contains(text), "{problem}");
    }

    /// The samples of a page of metrics, after checking it: each sample belongs to the family that was described last, no
    /// family and no sample comes twice, buckets do not fall, and the end is marked.
    pub fn samples(&self) -> BTreeMap<String, f64> {
        assert_eq!(self.status, 200);
        assert!(self.header("content-type").starts_with("application/openmetrics-text"));
        let lines =
            self.text().strip_suffix("# EOF\n").unwrap_or_else(|| panic!("the end is not marked")).lines();
        let (mut families, mut samples) = (HashSet::new(), BTreeMap::new());
        let (mut described, mut family, mut kind, mut series, mut bucket) = ("", "", "", String::new(), 0.0);
        for line in lines {
            if let Some(help) = line.strip_prefix("# HELP ") {
                described = help.split_once(' ').unwrap().0;
                continue;
            }
            if let Some(described_kind) = line.strip_prefix("# TYPE ") {
                (family, kind) = described_kind.split_once(' ').unwrap();
                assert_eq!(family, described);
                assert!(families.insert(family), "twice: {family}");
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let suffix = sample.split('{').next().unwrap().strip_prefix(family);
            let suffix = suffix.unwrap_or_else(|| panic!("{line} of {family}"));
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{other}"),
            };
            assert!(suffixes.contains(&suffix), "{line}");
            if suffix == "_bucket" {
                let of = sample.replace(sample.split("le=\"").nth(1).unwrap().split('"').next().unwrap(), "");
                assert!(value >= bucket || of != series, "{line}");
                (series, bucket) = (of, value);
            }
            assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
        }
        samples
    }
}

#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(TEST_LIMIT)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends bytes. A server that refuses them by their beginning does not read the rest.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Sends a request. `headers` are whole lines; the host is the server's, and the length the body's, unless they say so.
    pub fn request(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.to_lowercase().starts_with("host:")) {
            text += &format!("host: {}\r\n", self.0.get_ref().peer_addr().unwrap());
        }
        headers.iter().for_each(|header| text.extend([header, "\r\n"]));
        let is_framed = headers
            .iter()
            .any(|header| header.starts_with("content-length:") || header.starts_with("transfer-"));
        if !is_framed && (!body.is_empty() || matches!(method, "POST" | "PUT")) {
            text += &format!("content-length: {}\r\n", body.len());
        }
        self.send(&[text.as_bytes(), b"\r\n", body].concat());
    }

    pub fn head(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).is_ok_and(|read| read > 0), "ended after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: Vec::new(), is_cut: false }
    }

    pub fn body(&mut self, mut answer: Answer) -> Answer {
        let is_chunked = answer.header("transfer-encoding") == "chunked";
        let len = answer.header("content-length").parse().unwrap_or(u64::MAX);
        loop {
            let mut line = String::new();
            let len = if is_chunked {
                let _ = self.0.read_line(&mut line); // an answer that is cut
                u64::from_str_radix(line.trim(), 16).unwrap_or(u64::MAX)
            } else {
                len
            };
            let before = answer.body.len();
            if let Err(error) = self.0.by_ref().take(len).read_to_end(&mut answer.body) {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "hangs");
            }
            answer.is_cut = (answer.body.len() - before) as u64 != len && (is_chunked || len != u64::MAX);
            let _ = is_chunked && self.0.read_line(&mut line).is_ok();
            if !is_chunked || len == 0 || answer.is_cut {
                return answer;
            }
        }
    }

    pub fn answer(&mut self) -> Answer {
        let head = self.head();
        self.body(head)
    }

    pub fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        self.request(method, path, headers, body);
        let head = self.head();
        if method == "HEAD" || matches!(head.status, 204 | 304) { head } else { self.body(head) }
    }

    pub fn event(&mut self, kind: &str) -> Value {
        let mut lines = self.0.by_ref().lines().map(Result::unwrap);
        assert!(lines.any(|line| line == format!("event: {kind}")), "the stream ended");
        serde_json::from_str(lines.next().unwrap().strip_prefix("data: ").unwrap()).unwrap()
    }

    /// All that comes until the other end closes or resets the connection.
    pub fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "hangs");
        }
        rest
    }
}

pub fn ask(addr: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
    Client::new(addr).ask(method, path, &[headers, &["connection: close"]].concat(), body)
}

/// The answer to a GET, received off the runtime's threads.
pub async fn get(addr: SocketAddr, path: &str) -> Answer {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || ask(addr, "GET", &path, &[], b"")).await.unwrap()
}
