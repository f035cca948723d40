//! [`Budget`]: the bytes that a process keeps for other nodes, and each node's share of them.
//!
//! Fair by the largest account: while there is room, whoever stays within its share gets what it asks for. When all
//! is taken, nodes without a connection make room first, then the largest account of those that came late, and only the
//! next to make room is refused. A node with small needs is served whatever the others do; and as anybody may come with
//! many keys, those that came first keep a part whatever its size.

mod account;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::account::{Account, Connected, Lease, NoRoom};
use crate::values::NodeId;

/// Bytes of a process, unless told otherwise. With the program itself it stays below 256 MiB.
pub const BUDGET_DEFAULT: usize = 160 * 1024 * 1024;
/// The smallest budget: a share of it holds a few frames of the largest size.
pub const BUDGET_MIN: usize = 16 * 1024 * 1024;
/// One of this many parts of the budget is taken beyond it while evicted accounts give theirs back.
const EXCESS_PARTS: usize = 16;
/// One of this many parts of the budget is kept by the accounts that were opened first.
const ELDERS_PARTS: usize = 2;
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
    /// Accounts that were opened so far.
    opened: AtomicU64,
    evicted: AtomicU64,
    eviction: Notify,
    refused: AtomicU64,
}

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Who {
    site: Option<IpAddr>,
    node: NodeId,
}

/// All accounts at one address.
#[derive(Debug)]
struct Site {
    addr: IpAddr,
    used: AtomicUsize,
    budget: Arc<Budget>,
}

impl Drop for Site {
    fn drop(&mut self) {
        let mut sites = self.budget.sites.lock();
        if sites.get(&self.addr).is_some_and(|site| site.strong_count() == 0) {
            sites.remove(&self.addr);
        }
    }
}

#[derive(Debug)]
struct Shared {
    who: Who,
    used: AtomicUsize,
    site: Option<Arc<Site>>,
    evicted: CancellationToken,
    is_trusted: AtomicBool,
    /// The number of accounts that were opened before.
    before: u64,
    connections: AtomicUsize,
    /// What is left of [`REFUSED_IN_A_ROW`].
    refused: AtomicU32,
    budget: Arc<Budget>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut accounts = self.budget.accounts.lock();
        // After an eviction another account may stand in its place.
        if accounts.get(&self.who).is_some_and(|account| account.strong_count() == 0) {
            accounts.remove(&self.who);
        }
    }
}

/// When an account makes room for others: the last ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It is of this node itself, or of one that the operator named.
    Trusted,
    /// It was opened before most others.
    Elder,
    Young,
    /// Its node has no connection.
    Gone,
}

/// The addresses that count as one: an IPv4 address, a /64 of IPv6. Nodes of this machine are told apart by their keys.
#[must_use]
pub fn site_of(addr: IpAddr) -> Option<IpAddr> {
    match addr.to_canonical() {
        addr if addr.is_loopback() => None,
        IpAddr::V4(addr) => Some(addr.into()),
        IpAddr::V6(addr) => {
            let mut octets = addr.octets();
            octets[8..].fill(0);
            Some(IpAddr::V6(octets.into()))
        }
    }
}

impl Budget {
    /// A budget of `max` bytes, at least [`BUDGET_MIN`], none of them taken.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(BUDGET_MIN),
            used: AtomicUsize::new(0),
            accounts: Mutex::default(),
            sites: Mutex::default(),
            opened: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            eviction: Notify::new(),
            refused: AtomicU64::new(0),
        })
    }

    /// The account of `node` at `addr`. After an eviction it is a new one.
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
            site: who.site.map(|addr| self.site(addr)),
            evicted: CancellationToken::new(),
            is_trusted: AtomicBool::new(false),
            before: self.opened.fetch_add(1, Relaxed),
            connections: AtomicUsize::new(0),
            refused: AtomicU32::new(0),
            budget: Arc::clone(self),
        });
        accounts.insert(who, Arc::downgrade(&new));
        drop(accounts); // before the evicted one: the last clone of an account takes this lock when it is dropped
        drop(before);
        Account(new)
    }

    fn site(self: &Arc<Self>, addr: IpAddr) -> Arc<Site> {
        let new = || Arc::new(Site { addr, used: AtomicUsize::new(0), budget: Arc::clone(self) });
        match self.sites.lock().entry(addr) {
            Entry::Occupied(mut known) => known.get().upgrade().unwrap_or_else(|| {
                let site = new();
                known.insert(Arc::downgrade(&site));
                site
            }),
            Entry::Vacant(free) => {
                let site = new();
                free.insert(Arc::downgrade(&site));
                site
            }
        }
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

    /// The living ones of `accounts` that have something, the next that makes room last.
    fn ranked<'a>(&self, accounts: &'a [Arc<Shared>]) -> Vec<(Rank, usize, &'a Shared)> {
        let living = accounts.iter().filter(|account| !account.evicted.is_cancelled());
        let mut living: Vec<&Shared> = living.map(AsRef::as_ref).collect();
        living.sort_unstable_by_key(|account| account.before);
        let mut elders = 0;
        let mut rank = |account: &Shared, used: usize| {
            if account.is_trusted.load(Relaxed) {
                return Rank::Trusted;
            }
            if account.connections.load(Relaxed) == 0 {
                return Rank::Gone;
            }
            let is_elder = elders + used <= self.max / ELDERS_PARTS;
            elders += if is_elder { used } else { 0 };
            if is_elder { Rank::Elder } else { Rank::Young }
        };
        let ranked = living.into_iter().map(|account| {
            let used = account.used.load(Relaxed);
            (rank(account, used), used, account)
        });
        let mut ranked: Vec<_> = ranked.filter(|(_, used, _)| *used > 0).collect();
        ranked.sort_unstable_by_key(|(rank, used, account)| (*rank, *used, account.before));
        ranked
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
        let used = self.used();
        if used > self.max + self.max / EXCESS_PARTS {
            return false;
        }
        let mut ranked = self.ranked(&all);
        // What evicted accounts have left is listed nowhere once another stands in their place: count the living.
        let living: usize = ranked.iter().map(|(_, used, _)| used).sum();
        let mut over = living.saturating_sub(self.max);
        while over > 0 {
            let next = ranked.pop().filter(|(.., next)| !std::ptr::eq(&raw const **next, asking));
            let Some((_, used, next)) = next else {
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
