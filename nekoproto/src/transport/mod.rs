//! Connections between nodes: listen, connect, secure, say hello, keep connected.
//!
//! ```text
//!   Endpoint ── bind ──> Listener ── accept ──> Connection ──┬─> control::open   calls, both ways
//!       └────── dial ─────────────────────────> Connection ──┴─> DataStream      file bytes
//!       └────── Link (dials again and again) ──> control::open
//! ```
//!
//! Every connection is TLS 1.3 with raw public keys on both sides (RFC 7250), or plain TCP where
//! both ends say `--insecure`; there, each side signs the hellos, so ids are proved at the start
//! but nothing is hidden and an active attacker in between is not kept out.

mod addr;
mod backoff;
mod calls;
pub mod control;
mod data;
mod driver;
mod endpoint;
mod frame;
mod handshake;
mod io;
mod link;
mod listener;
mod serving;
mod tls;
mod wire;

pub use addr::resolve;
pub use backoff::Backoff;
pub use calls::Calls;
pub use data::{DataError, DataStream, HangUp, HangUpOnDrop};
pub use endpoint::{Connection, Endpoint, EndpointConfig, EndpointError, Remote, Security};
pub use frame::{Envelope, FrameError, call_until};
pub use handshake::ConnectError;
pub use io::Io;
pub use link::{Link, LinkState};
pub use listener::{Listener, raise_file_limit};
