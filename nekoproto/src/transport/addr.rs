//! Addresses as people write them.

use std::net::{SocketAddr, ToSocketAddrs};

/// Parses `IP:PORT`, or looks up `HOST:PORT` and returns the first address found.
///
/// # Errors
/// One line for people that says what is wrong.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    if !text.contains(':') {
        return Err(format!("'{text}' has no port: expected IP:PORT or HOST:PORT"));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("cannot look up '{text}': {error}"))?;
    found.into_iter().next().ok_or_else(|| format!("'{text}' has no address"))
}
