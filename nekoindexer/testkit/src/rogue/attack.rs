//! What rogue nodes do, and how that is called.

use crate::prelude::*;
use std::{fmt, str::FromStr};

use super::{
    Order, RogueError, connections, guests, holder, http, indexer, junk::Junk, peer, pretender::Habit,
    streams,
};

/// Keys that register one name.
pub const SQUATTERS: usize = 1100;

/// All of them: what it is, the name on command lines and in results, and what does it.
macro_rules! attacks {
    ($(#[doc = $doc:literal] $attack:ident $name:literal: |$order:ident| $does:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Attack { $(#[doc = $doc] $attack,)* }

        impl Attack {
            /// Each with its name, and what it is.
            pub const ALL: &[(Self, &str, &str)] = &[$((Self::$attack, $name, $doc),)*];

            pub(super) async fn carry_out(self, order: &'static Order) -> Result<(), RogueError> {
                match self { $(Self::$attack => { let $order = order; $does.await })* }
            }
        }
    };
}

attacks! {
    /// A neighbor that confirms heartbeats and answers no query.
    Silent "silent": |order| indexer::neighbors(order, 1, Habit::NeverAnswers, None);
    /// A neighbor that answers one query each 0.4 s.
    Slow "slow": |order| indexer::neighbors(order, 1, Habit::one_each(indexer::ANSWERS_EVERY), None);
    /// A neighbor that answers with true records and 16 false holders at a third party's port.
    Replay "replay": |order| guests::replay(order);
    /// The same, where readers download.
    ReplayGet "replay-get": |order| guests::replay(order);
    /// 300 neighbors that redial as real ones do, and then leave.
    Crowd "crowd": |order| indexer::neighbors(order, 300, Habit::nothing(), None);
    /// 150 neighbors a second that come and go.
    Churn "churn": |order| indexer::come_and_go(order, 150);
    /// 64 neighbors with the largest summary.
    Summaries "summaries": |order| indexer::largest_summaries(order, 64);
    /// 8 connections that ask for large answers, and read one each 0.4 s.
    Unread "unread": |order| connections::unread(order, 8);
    /// 2 000 connections with an unfinished frame of 512 KiB each.
    Unfinished "unfinished": |order| connections::unfinished(order, 2000);
    /// 16 384 connections from one host, each opened again at once.
    Flood "flood": |order| connections::flood(order.indexer, 16 * 1024);
    /// 300 connections a second that begin a handshake and say no more.
    Hellos "hellos": |order| connections::hellos(order, 300);
    /// As many message ids as go through one connection.
    Ids "ids": |order| connections::ids(order);
    /// 4 connections that query 128 names in a call.
    Work "work": |order| connections::work(order, 4);
    /// 2 connections that search by 16 globs that are long to match.
    Finds "finds": |order| connections::finds(order, 2);
    /// 4 connections that send route probes of 64 hops.
    Probes "probes": |order| connections::probes(order, 4);
    /// 300 000 names of 1 000 bytes from one key.
    Names "names": |order| peer::names(order, 1, 300_000, peer::LONG_NAME_BYTES);
    /// 12 000 names from each of 120 keys.
    Keys "keys": |order| peer::names(order, 120, 12_000, 60);
    /// 32 keys that register one name.
    Origins "origins": |order| peer::origins(order, 32, true);
    /// 32 uploads, each of a key of its own, that read 4 KB/s.
    SlowReaders "slow-readers": |order| streams::slow_readers(order, 32);
    /// 10 000 data streams without a request, opened again at once.
    IdleStreams "idle-streams": |order| streams::idle(order, 10_000);
    /// A holder, of some files the only one, that sends 1 byte/s.
    Drip "drip": |order| holder::drip(order);
    /// A file of 1 TiB whose chunks are all zero.
    Zeros "zeros": |order| holder::zeros(order);
    /// A neighbor that by its summary may have every name, and answers after 50 ms with nothing.
    Late50 "late-50": |order| guests::of_all(order, 1, Habit::Late(Duration::from_millis(50)));
    /// The same after 100 ms.
    Late100 "late-100": |order| guests::of_all(order, 1, Habit::Late(Duration::from_millis(100)));
    /// The same after 200 ms.
    Late200 "late-200": |order| guests::of_all(order, 1, Habit::Late(Duration::from_millis(200)));
    /// The same after 1.1 s.
    Late1100 "late-1100": |order| guests::of_all(order, 1, Habit::Late(Duration::from_millis(1100)));
    /// A neighbor that by its summary may have every name, and answers at once with nothing.
    CrowdOf1 "crowd-1": |order| guests::of_all(order, 1, Habit::nothing());
    /// 64 of them, each with a key of its own.
    CrowdOf64 "crowd-64": |order| guests::of_all(order, 64, Habit::nothing());
    /// 256 of them.
    CrowdOf256 "crowd-256": |order| guests::of_all(order, 256, Habit::nothing());
    /// 16 neighbors that send on what they are told at once, under the same id, to the node it is meant for.
    Ahead "ahead": |order| guests::ahead(order, 16);
    /// A neighbor that tells each honest node that it speaks for the other, and answers nothing.
    ForgedRelay "forged-relay": |order| guests::forged_relay(order);
    /// A neighbor that answers with 32 records of the very name, signed by keys of its own, and made-up holders.
    JunkHits "junk-hits": |order| guests::of_all(order, 1, Habit::Signs(Arc::new(Junk::new())));
    /// A neighbor that changes its neighbors, and begins its summary anew, as fast as it is let.
    Toggle "toggle": |order| guests::toggle(order);
    /// 1 100 keys that register a name before its origin does.
    Squat "squat": |order| peer::origins(order, SQUATTERS, true);
    /// The same with signatures that do not hold.
    SquatForged "squat-forged": |order| peer::origins(order, SQUATTERS, false);
    /// 2 200 event streams, and 3 000 connections that ask for a page and read none, at the HTTP door.
    Streams "streams": |order| http::streams(order, 2200, 3000);
}

impl Attack {
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(attack, ..)| *attack == self).map_or("", |(_, name, _)| name)
    }

    /// Whether it is aimed at downloads, and not at queries.
    pub const fn is_of_transfers(self) -> bool {
        matches!(self, Self::ReplayGet | Self::SlowReaders | Self::IdleStreams | Self::Drip | Self::Zeros)
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Attack {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known, _)| *known == name);
        known.map(|(attack, ..)| *attack).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name, _)| *name).collect();
            format!("no attack is called {name}; there are {}", names.join(", "))
        })
    }
}
