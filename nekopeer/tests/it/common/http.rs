//! A plain HTTP client, which shows what a server sends and where it stops.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    time::Duration,
};

use nekoindexer::http::{HttpConfig, HttpDoor};
use nekopeer::PeerHandle;

use super::{ANY_PORT, holder::blocking};

/// Time limit of a read.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// A door to the files of `peer`.
pub(crate) fn door(peer: &PeerHandle) -> HttpDoor {
    let config = HttpConfig { listen: ANY_PORT, threads: NonZeroUsize::MIN };
    HttpDoor::open(config, nekopeer::file_routes(peer)).unwrap()
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
}

/// A connection to a server.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(READ_WITHIN)).unwrap();
        Self(stream)
    }

    /// Sends a request; `headers` are whole lines.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[&str]) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
        headers.iter().for_each(|header| text.extend([header, "\r\n"]));
        text.push_str("\r\n");
        self.0.write_all(text.as_bytes()).unwrap();
    }

    /// Receives the head of an answer.
    pub(crate) fn head(&mut self) -> Answer {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(
                self.0.read(&mut byte).unwrap(),
                1,
                "ended after {:?}",
                String::from_utf8_lossy(&head)
            );
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Answer { status, headers, ..Answer::default() }
    }

    /// Receives the body that belongs to the head.
    pub(crate) fn body(&mut self, mut answer: Answer) -> Answer {
        let len = answer.header("content-length").parse().unwrap_or(0);
        let mut piece = vec![0; 64 * 1024];
        while answer.body.len() < len {
            let end = piece.len().min(len - answer.body.len());
            match self.0.read(&mut piece[..end]) {
                Ok(read) if read > 0 => answer.body.extend(&piece[..read]),
                Ok(_) => break,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "hangs");
                    break;
                }
            }
        }
        answer.is_cut = answer.body.len() < len;
        answer
    }

    /// Sends a request and receives its answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[&str]) -> Answer {
        self.send(method, path, headers);
        let head = self.head();
        let has_body = method != "HEAD" && head.status != 304;
        if has_body { self.body(head) } else { head }
    }
}

/// The answer to one request over a connection of its own, received off the runtime's threads.
pub(crate) async fn ask(addr: SocketAddr, method: &str, path: &str, headers: &[&str]) -> Answer {
    let (method, path) = (method.to_owned(), path.to_owned());
    let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
    blocking(move || {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        Client::new(addr).ask(&method, &path, &headers)
    })
    .await
}

/// The answer to a GET without further headers.
pub(crate) async fn get(addr: SocketAddr, path: &str) -> Answer {
    ask(addr, "GET", path, &[]).await
}
