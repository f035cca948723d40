//! Which guests have a place: a bounded number, and of those at one address fewer. The least worthy makes room.

use std::{net::SocketAddr, time::Instant};

use nekoproto::budget::site_of;

/// Guests that have a place; further ones are served but neither asked nor told of names until one is free.
pub const GUESTS_MAX: usize = 256;
/// Those of them from one address or, with IPv6, from one /64. Loopback addresses are not grouped.
pub const GUESTS_OF_SITE_MAX: usize = 64;

/// What a guest is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// It had time to prove that it answers, and did not.
    Unproven,
    /// It answers, and has found nothing for a while.
    Idle,
    /// It has just come.
    Proving,
    /// It keeps its place.
    Kept,
}

/// A guest among those that have a place.
#[derive(Clone, Copy, Debug)]
pub struct Seated<K> {
    /// Who it is.
    pub who: K,
    /// Where it connected from.
    pub addr: SocketAddr,
    /// Since when it has the place.
    pub since: Instant,
    /// What it is worth.
    pub worth: Worth,
}

/// Whose place a newcomer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<K> {
    /// One that is free.
    Free,
    /// That of this guest.
    Of(K),
    /// None at the moment.
    None,
}

/// Finds a place for a newcomer from `addr`: a free one, or that of the least worthy, and of these the oldest.
#[must_use]
pub fn place_for<K: Copy>(seated: &[Seated<K>], addr: SocketAddr) -> Place<K> {
    let site = site_of(addr.ip());
    let is_of_site = |one: &&Seated<K>| site.is_some() && site_of(one.addr.ip()) == site;
    let is_site_full = seated.iter().filter(is_of_site).count() >= GUESTS_OF_SITE_MAX;
    if !is_site_full && seated.len() < GUESTS_MAX {
        return Place::Free;
    }
    let candidates = seated.iter().filter(|one| !is_site_full || is_of_site(one));
    let least = candidates.min_by_key(|one| (one.worth, one.since));
    least.filter(|one| one.worth < Worth::Kept).map_or(Place::None, |one| Place::Of(one.who))
}

#[cfg(test)]
mod tests;
