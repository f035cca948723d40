//! Connections between nodes: listen, connect, TLS, handshake, reconnect.
//!
//! ```text
//!   Endpoint ── bind ──> Listener ── accept ──> Connection ──┬─> control::open   calls, both ways
//!       └────── dial ─────────────────────────> Connection ──┴─> DataStream      file bytes
//!       └────── Link (dials again and again) ──> control::open
//! ```
//!
//! Every connection is TLS 1.3 with raw public keys on both sides (RFC 7250), or plain TCP where
//! both ends are started with `--insecure`. Over plain TCP each side signs the hellos, which proves the ids at
//! the start; nothing is encrypted, and an active attacker on the path is not kept out. In a private network both
//! sides then prove its secret ([`NetworkSecret`]).

mod access;
mod addr;
mod backoff;
pub mod control;
mod data;
mod descriptors;
mod dial;
mod endpoint;
mod error;
mod handshake;
mod hints;
pub mod interfaces;
mod io;
mod link;
mod listener;
mod node_io;
mod pending;
mod relay;
mod remote;
pub mod rendezvous;
mod secret;
pub mod slots;
mod tls;
mod turned_away;
mod unproven;
pub mod work_permits;

pub use access::{Access, AllowError, Allowed};
pub use addr::{HostAddr, is_found, resolve, shown};
pub use backoff::Backoff;
pub use control::{
    calls::Calls,
    deadline::{call_until, call_within},
    frame::Envelope,
};
pub use data::{
    hang_up::{HangUp, HangUpOnDrop},
    stream::{DataStream, encoded},
};
pub use descriptors::{file_limit, raise_file_limit};
pub use endpoint::{Endpoint, EndpointConfig, Security};
pub use error::{ConnectError, DataError, EndpointError, FrameError};
pub use io::stop_listening;
pub use link::{Link, LinkState};
pub use listener::{ConnectionLimiter, Listener};
pub use node_io::NodeIo;
pub use relay::Relay;
pub use remote::{Connection, Remote};
pub use rendezvous::CallsBack;
pub use secret::{NetworkSecret, SecretError};
