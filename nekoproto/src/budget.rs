//! [`Budget`]: the bytes that a process keeps for other nodes, and each node's share of them.
//!
//! Fair by the largest account: while there is room, whoever stays within its share gets what it asks for. When all
//! is taken, nodes without a connection make room first, then the largest account of those that came late, and only the
//! next to make room is refused. A node with small needs is served whatever the others do; and as anybody may come with
//! many keys, those that came first keep a part whatever its size.

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

use crate::{turns::Flow, values::NodeId};

/// Bytes of a process, unless told otherwise. With the program itself it stays below 256 MiB.
pub const BUDGET_DEFAULT: usize = 160 * 1024 * 1024;
/// The smallest budget: a share of it holds a few frames of the largest size.
pub const BUDGET_MIN: usize = 16 * 1024 * 1024;
/// One of this many parts of the budget is the share of one account.
const ACCOUNT_PARTS: usize = 3;
/// One of this many parts of the budget is the share of all accounts at one address.
const SITE_PARTS: usize = 2;
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
    flow: Flow,
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

/// What is kept for one node at one address. Clones are the same account; it ends with the last of them and of its
/// leases.
#[derive(Clone, Debug)]
pub struct Account(Arc<Shared>);

/// A connection of the node of an account, until dropped.
#[derive(Debug)]
pub struct Connected(Account);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Relaxed);
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

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    account: Account,
    bytes: usize,
}

/// There is no room for it. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The account, or all accounts at its address, would have more than their share.
    #[error("more than the share of one node")]
    Share,
    /// All is taken, and no other account has more.
    #[error("all that is kept for others is in use")]
    All,
}

/// The addresses that count as one: an IPv4 address, a /64 of IPv6. Nodes of this machine are told apart by their keys.
pub(crate) fn site_of(addr: IpAddr) -> Option<IpAddr> {
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
            flow: Flow::default(),
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

impl Account {
    /// Takes `bytes`.
    ///
    /// # Errors
    /// There is no room for them; nothing is taken.
    pub fn take(&self, bytes: usize) -> Result<Lease, NoRoom> {
        self.grow(bytes)?;
        Ok(Lease { account: self.clone(), bytes })
    }

    /// Bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// From now on it is evicted only when no other is left: it is of this node itself, or of one that the operator named.
    pub fn trust(&self) {
        self.0.is_trusted.store(true, Relaxed);
    }

    /// What is done for it.
    pub(crate) fn flow(&self) -> &Flow {
        &self.0.flow
    }

    /// Its node has a connection until what is returned is dropped. Without one it makes room before all others.
    #[must_use]
    pub fn connected(&self) -> Connected {
        self.0.connections.fetch_add(1, Relaxed);
        Connected(self.clone())
    }

    /// The most that it may take.
    #[must_use]
    pub fn share(&self) -> usize {
        self.0.budget.max / ACCOUNT_PARTS
    }

    /// Cancelled when it has to give back all it has: its connections end.
    #[must_use]
    pub fn evicted(&self) -> &CancellationToken {
        &self.0.evicted
    }

    fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        let Shared { used, site, budget, .. } = &*self.0;
        let counters =
            [Some((used, self.share())), site.as_ref().map(|site| (&site.used, budget.max / SITE_PARTS))];
        let is_over = counters.into_iter().flatten().fold(false, |is_over, (used, share)| {
            is_over | (used.fetch_add(bytes, Relaxed).saturating_add(bytes) > share)
        });
        let is_full = budget.used.fetch_add(bytes, Relaxed).saturating_add(bytes) > budget.max;
        let taken = match (is_over, is_full) {
            (true, _) => Err(NoRoom::Share),
            (_, true) if !budget.make_room(&self.0) => Err(NoRoom::All),
            _ => Ok(()),
        };
        if taken.is_err() {
            self.shrink(bytes);
            budget.refused.fetch_add(1, Relaxed);
        }
        taken
    }

    fn shrink(&self, bytes: usize) {
        let Shared { used, site, budget, .. } = &*self.0;
        used.fetch_sub(bytes, Relaxed);
        if let Some(site) = site {
            site.used.fetch_sub(bytes, Relaxed);
        }
        budget.used.fetch_sub(bytes, Relaxed);
    }
}

impl Lease {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more, or gives some back.
    ///
    /// # Errors
    /// There is no room for more; it stays as it is.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NoRoom> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.grow(more)?,
            None => self.account.shrink(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.account.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    const MIB: usize = 1024 * 1024;

    fn node(n: u16) -> NodeId {
        let mut seed = [0; 32];
        seed[..2].copy_from_slice(&n.to_le_bytes());
        Identity::from_seed(&seed).id()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_account_takes_its_share_and_gives_it_back() {
        let budget = Budget::new(48 * MIB);
        let account = budget.account(ip("127.0.0.1"), node(1));
        let mut lease = account.take(16 * MIB).unwrap();
        assert_eq!(account.take(1).unwrap_err(), NoRoom::Share);
        assert_eq!(budget.account(ip("127.0.0.1"), node(1)).used(), 16 * MIB, "the same account");
        lease.resize(MIB).unwrap();
        assert!(lease.resize(16 * MIB + 1).is_err());
        assert_eq!((lease.bytes(), budget.used(), budget.refused()), (MIB, MIB, 2));
        drop(lease);
        drop(account);
        assert_eq!(budget.used(), 0);
        assert!(budget.accounts.lock().is_empty() && budget.sites.lock().is_empty());
    }

    #[test]
    fn many_keys_at_one_address_share_one_share() {
        let budget = Budget::new(48 * MIB);
        let take = |n, addr| budget.account(ip(addr), node(n)).take(10 * MIB);
        let (_first, _second) = (take(1, "192.0.2.1").unwrap(), take(2, "192.0.2.1").unwrap());
        assert_eq!(take(3, "192.0.2.1").unwrap_err(), NoRoom::Share);
        let _other = take(3, "192.0.2.2").unwrap();
        assert_eq!(site_of(ip("2001:db8::1:2:3:4")), site_of(ip("2001:db8::9")), "a /64 is one");
        assert_eq!(site_of(ip("::ffff:192.0.2.1")), site_of(ip("192.0.2.1")));
        assert_eq!(site_of(ip("::1")), None);
    }

    #[test]
    fn the_largest_makes_room_for_all_others() {
        let budget = Budget::new(48 * MIB);
        let local = |n| budget.account(ip("127.0.0.1"), node(n));
        let greedy: Vec<Lease> =
            (0..4).map(|n| local(n).take((11 + usize::from(n % 2)) * MIB).unwrap()).collect();
        let honest = local(9);
        let lease = honest.take(3 * MIB).unwrap();
        assert_eq!(budget.evicted(), 1);
        assert_eq!(greedy.iter().filter(|lease| lease.account.evicted().is_cancelled()).count(), 1);
        assert!(!honest.evicted().is_cancelled());
        let again = local(9).take(MIB).unwrap();
        assert_eq!(budget.evicted(), 1, "what was evicted is not evicted again while it goes");
        drop((lease, again, greedy, honest));
        assert_eq!(budget.used(), 0);
        assert!(budget.accounts.lock().is_empty());
    }

    #[test]
    fn a_trusted_account_stays_while_others_can_make_room() {
        let budget = Budget::new(16 * MIB);
        let local = |n| budget.account(ip("::1"), node(n));
        let trusted = local(0);
        trusted.trust();
        let _kept = trusted.take(5 * MIB).unwrap();
        let _others: Vec<_> = (1..=11).map(|n| local(n).take(MIB).unwrap()).collect();
        let _more = local(12).take(MIB / 2).unwrap();
        assert!(!trusted.evicted().is_cancelled() && budget.evicted() == 1);
    }

    /// Goal: many keys that come late, each with less than an honest node has, do not throw it out; what nodes left behind
    /// goes before anything else.
    #[test]
    fn who_left_makes_room_first_and_who_came_first_last() {
        let budget = Budget::new(48 * MIB);
        let local = |n| budget.account(ip("127.0.0.1"), node(n));
        let is_evicted = |account: &Account| account.evicted().is_cancelled();
        let (honest, late) = (local(0), local(1000));
        let (_first, gone) = (honest.connected(), local(1));
        let _kept = honest.take(8 * MIB).unwrap();
        let mut leases = vec![gone.take(4 * MIB).unwrap()];
        let mut open = Vec::new();
        for n in 2..200 {
            let rogue = local(n);
            open.push(rogue.connected());
            leases.retain(|lease| !is_evicted(&lease.account));
            leases.extend(rogue.take(MIB)); // who comes last of many alike is refused
            assert_eq!(is_evicted(&gone), budget.evicted() > 0, "it goes first");
        }
        assert!(!is_evicted(&honest) && is_evicted(&gone));
        let _late = late.connected();
        let _few = late.take(MIB / 2).unwrap();
        assert!(!is_evicted(&late), "small ones stay");
        open.clear();
        let more = honest.take(MIB).unwrap();
        assert!(!is_evicted(&honest) && !is_evicted(&late));
        drop(more);
    }

    /// Goal: the last clone of an evicted account may be dropped while its successor is made.
    #[test]
    fn an_account_made_anew_while_the_evicted_one_goes_locks_nobody_out() {
        let budget = Budget::new(0);
        let (send, receive) = std::sync::mpsc::sync_channel::<Account>(1);
        let (done, is_done) = std::sync::mpsc::channel();
        let own = Arc::clone(&budget);
        std::thread::spawn(move || {
            for _ in 0..20_000 {
                let account = own.account(ip("127.0.0.1"), node(1));
                account.evicted().cancel();
                let _ = send.send(account); // dropped there, while the next one is made here
            }
            let _ = done.send(());
        });
        std::thread::spawn(move || receive.into_iter().for_each(drop));
        is_done.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn the_largest_itself_is_refused() {
        let budget = Budget::new(16 * MIB);
        let local = |n: u16| budget.account(ip("::1"), node(n));
        let _small: Vec<Lease> = (0..48).map(|n| local(n).take(MIB / 4).unwrap()).collect();
        let greedy = local(99);
        let _most = greedy.take(4 * MIB).unwrap();
        assert_eq!(greedy.take(MIB).unwrap_err(), NoRoom::All);
        assert_eq!((budget.evicted(), greedy.used()), (0, 4 * MIB));
        assert_eq!(
            greedy.0.refused.load(Relaxed),
            REFUSED_IN_A_ROW,
            "and further ones cost no look at the others"
        );
        assert_eq!(greedy.take(MIB).unwrap_err(), NoRoom::All);
        assert_eq!(greedy.0.refused.load(Relaxed), REFUSED_IN_A_ROW - 1);
    }
}
