//! What rogue nodes do, and how that is called.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Keys that register one name.
pub const SQUATTERS: usize = 1100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// A neighbor that confirms heartbeats and never answers a query.
    Silent,
    /// A neighbor that answers one query each 0.4 s.
    Slow,
    /// A neighbor that answers with signed records of others and 16 false holders at a third party's port.
    Replay,
    /// The same, where readers download.
    ReplayGet,
    /// 300 neighbors that redial as real ones do, and then leave.
    Crowd,
    /// Neighbors that come and go, 150 a second.
    Churn,
    /// 64 neighbors with summaries of the largest size.
    Summaries,
    /// 8 connections that send large requests and read one answer each 0.4 s.
    Unread,
    /// 2 000 connections with an unfinished frame of 512 KiB each.
    Unfinished,
    /// 16 384 connections from one host, each opened again at once.
    Flood,
    /// 300 connections that begin a handshake and then say nothing.
    Hellos,
    /// As many message ids as go through one connection.
    Ids,
    /// 4 connections that query 128 names at a time.
    Work,
    /// 2 connections that search by patterns that are long to match.
    Finds,
    /// 4 connections that send route probes of as many hops as are allowed.
    Probes,
    /// 300 000 names of 1 000 bytes from one peer.
    Names,
    /// 12 000 names from each of 120 keys.
    Keys,
    /// 32 keys that register one name.
    Origins,
    /// 32 streams, each with a key of its own, that ask a peer for 32 MiB and read 4 KB/s.
    SlowReaders,
    /// 10 000 data streams without a request.
    IdleStreams,
    /// A holder, of some files the only one, that sends 1 byte/s.
    Drip,
    /// A file of 1 TiB whose chunks are all zero.
    Zeros,
    /// A neighbor that may have every name, and answers after so many milliseconds, with nothing.
    Late(u16),
    /// So many neighbors that may have every name, and answer at once, with nothing.
    CrowdOf(u16),
    /// Neighbors that send what they are asked and told to another honest node at once, ahead of the honest copy.
    Ahead,
    /// A neighbor that says that it speaks for another honest node, and answers nothing.
    ForgedRelay,
    /// A neighbor that answers with as many records as an answer holds, signed for the very name, and made-up holders.
    JunkHits,
    /// A neighbor whose neighbors change, and whose summary begins anew, as fast as it is let.
    Toggle,
    /// [`SQUATTERS`] keys that register one name before its origin does.
    Squat,
    /// The same with signatures that do not hold.
    SquatForged,
    /// 2 200 event streams, and 3 000 connections whose replies are not read, at the HTTP door.
    Streams,
}

impl Attack {
    /// All of them, with their names on command lines and in results.
    pub const ALL: &[(Self, &str)] = &[
        (Self::Silent, "silent"),
        (Self::Slow, "slow"),
        (Self::Replay, "replay"),
        (Self::ReplayGet, "replay-get"),
        (Self::Crowd, "crowd"),
        (Self::Churn, "churn"),
        (Self::Summaries, "summaries"),
        (Self::Unread, "unread"),
        (Self::Unfinished, "unfinished"),
        (Self::Flood, "flood"),
        (Self::Hellos, "hellos"),
        (Self::Ids, "ids"),
        (Self::Work, "work"),
        (Self::Finds, "finds"),
        (Self::Probes, "probes"),
        (Self::Names, "names"),
        (Self::Keys, "keys"),
        (Self::Origins, "origins"),
        (Self::SlowReaders, "slow-readers"),
        (Self::IdleStreams, "idle-streams"),
        (Self::Drip, "drip"),
        (Self::Zeros, "zeros"),
        (Self::Late(50), "late-50"),
        (Self::Late(100), "late-100"),
        (Self::Late(200), "late-200"),
        (Self::Late(1100), "late-1100"),
        (Self::CrowdOf(1), "crowd-1"),
        (Self::CrowdOf(64), "crowd-64"),
        (Self::CrowdOf(256), "crowd-256"),
        (Self::Ahead, "ahead"),
        (Self::ForgedRelay, "forged-relay"),
        (Self::JunkHits, "junk-hits"),
        (Self::Toggle, "toggle"),
        (Self::Squat, "squat"),
        (Self::SquatForged, "squat-forged"),
        (Self::Streams, "streams"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(attack, _)| *attack == self).map_or("", |(_, name)| name)
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
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(attack, _)| *attack).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no attack is called {name}; there are {}", names.join(", "))
        })
    }
}
