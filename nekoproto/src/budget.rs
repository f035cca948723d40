//! [`Budget`]: the bytes that a process keeps for other nodes, and each node's share of them.
//!
//! Bytes are counted in four scopes: all, an address, a node there, and each [`Reservation`] of the node. While there is room, a
//! node takes what it asks for, up to its share. When all is taken, the address that has most makes room: of its nodes
//! the one that has most and is not trusted. Only that one is refused itself. So a node at another address is served
//! whatever many keys at one address do.

mod account;
mod reservation;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::account::{Shared, Site, Who};
pub use self::{
    account::Account,
    reservation::{NoRoom, Reservation, SharedQuota},
};
use crate::values::NodeId;

/// Bytes of a process, unless told otherwise. With the program itself it stays below 256 MiB.
pub const BUDGET_DEFAULT: usize = 160 * 1024 * 1024;
/// The smallest budget: a share of it holds a few frames of the largest size.
pub const BUDGET_MIN: usize = 16 * 1024 * 1024;
/// One of this many parts of the budget is the share of one node.
const ACCOUNT_PARTS: usize = 3;
/// One of this many parts of the budget is taken beyond it while evicted accounts give theirs back.
const EXCESS_PARTS: usize = 16;
/// Requests of an account that was refused, as it was the next to make room, that are refused without a look at all others:
/// that takes longer than what it asks for.
const REFUSED_IN_A_ROW: u32 = 128;

/// The bytes that a process keeps for other nodes. It outlives its accounts.
#[derive(Debug)]
pub struct Budget {
    max: usize,
    used: AtomicUsize,
    accounts: Mutex<HashMap<Who, Weak<Shared>>>,
    sites: Mutex<HashMap<IpAddr, Weak<Site>>>,
    evicted: AtomicU64,
    eviction: Notify,
    refused: AtomicU64,
}

/// The addresses that count as one: an IPv4 address, a /64 of IPv6. This machine under IPv6 is 127.0.0.1.
#[must_use]
pub fn site_of(addr: IpAddr) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
        addr => addr,
    }
}

impl Budget {
    /// A budget of `max` bytes, at least [`BUDGET_MIN`], none of them taken.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        let (used, accounts, sites, evicted, eviction, refused) = <_>::default();
        Arc::new(Self { max: max.max(BUDGET_MIN), used, accounts, sites, evicted, eviction, refused })
    }

    /// The account of `node` at `addr`. After an eviction it is a new one, while what the evicted one took is given back.
    #[must_use]
    pub fn account(self: &Arc<Self>, addr: IpAddr, node: NodeId) -> Account {
        let who = Who { site: site_of(addr), node };
        let mut accounts = self.accounts.lock();
        let before = accounts.get(&who).and_then(Weak::upgrade);
        if let Some(known) = before.as_ref().filter(|known| !known.evicted.is_cancelled()) {
            return Account(Arc::clone(known));
        }
        let new = Arc::new(Shared {
            who,
            used: AtomicUsize::new(0),
            site: self.site(who.site),
            evicted: CancellationToken::new(),
            is_trusted: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            budget: Arc::clone(self),
        });
        accounts.insert(who, Arc::downgrade(&new));
        drop(accounts); // before the evicted one: the last clone of an account takes this lock when it is dropped
        drop(before);
        Account(new)
    }

    fn site(self: &Arc<Self>, addr: IpAddr) -> Arc<Site> {
        let mut sites = self.sites.lock();
        sites.get(&addr).and_then(Weak::upgrade).unwrap_or_else(|| {
            let site = Arc::new(Site { addr, used: AtomicUsize::new(0), budget: Arc::clone(self) });
            sites.insert(addr, Arc::downgrade(&site));
            site
        })
    }

    /// Its bytes.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Accounts that were evicted so far.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Waits until some account is evicted.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn eviction(&self) {
        self.eviction.notified().await;
    }

    /// Bytes that were refused so far, in times.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Makes room for what `asking` has taken already: evicts accounts. False if `asking` is the next itself, or if what is
    /// evicted does not come back.
    fn make_room(&self, asking: &Shared) -> bool {
        if asking.refused.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return false;
        }
        let accounts = self.accounts.lock();
        let all: Vec<_> = accounts.values().filter_map(Weak::upgrade).collect();
        drop(accounts); // the last clone of an account takes this lock when it is dropped
        if self.used() > self.max + self.max / EXCESS_PARTS {
            return false;
        }
        // What evicted accounts have left is listed nowhere once another stands in their place: count the living.
        let living = all.iter().filter(|account| !account.evicted.is_cancelled());
        let mut ranked: Vec<_> = living.map(|account| (account.rank(), account)).collect();
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        let mut over = ranked.iter().map(|((.., used), _)| used).sum::<usize>().saturating_sub(self.max);
        while over > 0 {
            let next = ranked.pop().filter(|(_, next)| !std::ptr::eq(&raw const ***next, asking));
            let Some(((.., used), next)) = next else {
                asking.refused.store(REFUSED_IN_A_ROW, Relaxed);
                return false;
            };
            next.evicted.cancel();
            self.evicted.fetch_add(1, Relaxed);
            self.eviction.notify_one();
            over = over.saturating_sub(used);
        }
        true
    }
}
