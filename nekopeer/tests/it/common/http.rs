//! The doors of peers, and requests to them.

use std::{fs, net::SocketAddr, num::NonZeroUsize};

use nekoindexer::daemon::http::{HttpConfig, HttpDoor};
use nekopeer::PeerHandle;
pub(crate) use testkit::http::{Answer, Client, ask};
use tokio::task::block_in_place;

use super::ANY_PORT;
use crate::program::{Home, Running};

pub(crate) struct Http {
    pub(crate) addr: SocketAddr,
    pub(crate) token: String,
}

/// A door to the files of `peer`, for as long as the first lives.
pub(crate) fn door(peer: &PeerHandle) -> (HttpDoor, Http) {
    let config = HttpConfig { listen: ANY_PORT, threads: NonZeroUsize::MIN };
    let door = HttpDoor::open(config, nekopeer::file_routes(peer)).unwrap();
    let http = Http { addr: door.local_addr(), token: String::new() };
    (door, http)
}

impl Http {
    pub(crate) fn serving(home: &Home, flags: &[&str]) -> (Running, Self) {
        let mut running = home.serve(&[&["--http", "127.0.0.1:0"], flags].concat());
        let http = Self::of(home, &mut running);
        (running, http)
    }

    /// The door of the peer of `home`, which was started with `--http IP:0`.
    pub(crate) fn of(home: &Home, running: &mut Running) -> Self {
        let line = running.out_line("http on ");
        let addr = line.trim_start_matches("http on http://").trim_end_matches('/');
        let addr = addr.replace("0.0.0.0", "127.0.0.1").parse().unwrap();
        let token = fs::read_to_string(home.path(".neko/http.token")).unwrap().trim().to_owned();
        Self { addr, token }
    }

    pub(crate) fn authorization(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    pub(crate) fn begin(&self, method: &str, target: &str, headers: &[&str]) -> Client {
        let mut client = Client::new(self.addr);
        client.request(method, target, headers, b"");
        client
    }

    /// The answer to one request over a connection of its own, also where the peer runs on this thread's runtime.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> Answer {
        block_in_place(|| ask(self.addr, method, target, headers, body))
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    pub(crate) fn change(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> Answer {
        let headers = [&self.authorization(), "content-type: application/json"];
        self.ask(method, target, &headers, body.as_ref())
    }
}
