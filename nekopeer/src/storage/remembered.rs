//! Keeps the addresses of indexers that tickets named, or that were heard, in a file of the data folder, so that later commands
//! find them.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    net::SocketAddr,
    path::Path,
};

use nekoproto::{IndexerAddr, NetworkName, NodeId, clock::unix_ms, open_private};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// Addresses that are kept, the newest first.
pub(crate) const REMEMBERED_MAX: usize = 8;
/// For how many milliseconds one that was heard is used without being heard again: whoever announces one in some network
/// gets no hold on what is asked in the next.
const HEARD_FOR_MS: u64 = 60_000;
const FILE: &str = "indexers.json";
/// Bytes of the file that are read: more than that many addresses take.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A network, as a folder's peer or a ticket belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Home {
    pub(crate) network: NetworkName,
    /// Plain TCP instead of TLS.
    pub(crate) insecure: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptIndexers {
    network: String,
    insecure: bool,
    addr: SocketAddr,
    key: String,
    /// Until when it is used if it was heard, in milliseconds since 1970; no such limit if a ticket named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
}

impl KeptIndexers {
    fn of(home: &Home, indexer: &IndexerAddr, until_ms: Option<u64>) -> Self {
        let (IndexerAddr { addr, node }, network) = (*indexer, home.network.to_string());
        Self { network, insecure: home.insecure, addr, key: node.to_string(), until_ms }
    }

    fn is_over(&self) -> bool {
        // The clock may have been set back: what is kept for long is not meant to be.
        self.until_ms
            .is_some_and(|until_ms| !(1..=HEARD_FOR_MS).contains(&until_ms.saturating_sub(unix_ms())))
    }
}

/// The indexers of this network that were remembered, the newest first. Blocking.
pub(crate) fn remembered(data_dir: &Path, home: &Home) -> Vec<IndexerAddr> {
    let is_wanted =
        |kept: &KeptIndexers| kept.network == home.network.to_string() && kept.insecure == home.insecure;
    let is_wanted = |kept: &KeptIndexers| is_wanted(kept) && !kept.is_over();
    let read = read(data_dir).into_iter().take(REMEMBERED_MAX).filter(is_wanted);
    read.filter_map(|kept| Some(IndexerAddr { addr: kept.addr, node: kept.key.parse::<NodeId>().ok()? }))
        .collect()
}

/// Puts these indexers first, and forgets the oldest beyond [`REMEMBERED_MAX`]. Blocking.
pub(crate) fn remember(data_dir: &Path, home: &Home, indexers: &[IndexerAddr]) -> io::Result<()> {
    let named = indexers.iter().map(|indexer| KeptIndexers::of(home, indexer, None));
    keep(data_dir, named.chain(read(data_dir)))
}

/// Keeps these, which were heard, for [`HEARD_FOR_MS`], unless there are [`REMEMBERED_MAX`] others. Blocking.
pub(crate) fn remember_heard(data_dir: &Path, home: &Home, indexers: &[IndexerAddr]) -> io::Result<()> {
    let until_ms = unix_ms() + HEARD_FOR_MS;
    let heard = indexers.iter().map(|indexer| KeptIndexers::of(home, indexer, Some(until_ms)));
    keep(data_dir, read(data_dir).into_iter().chain(heard))
}

fn keep(data_dir: &Path, all: impl Iterator<Item = KeptIndexers>) -> io::Result<()> {
    let mut kept: Vec<KeptIndexers> = Vec::new();
    for one in all.filter(|one| !one.is_over()) {
        let is_same = |other: &KeptIndexers| {
            (&other.network, other.insecure, other.addr, &other.key)
                == (&one.network, one.insecure, one.addr, &one.key)
        };
        if kept.len() < REMEMBERED_MAX && !kept.iter().any(is_same) {
            kept.push(one);
        }
    }
    let mut file = NamedTempFile::new_in(data_dir)?;
    serde_json::to_writer_pretty(&mut file, &kept)?;
    file.write_all(b"\n")?;
    file.persist(data_dir.join(FILE)).map(drop).map_err(|error| error.error)
}

fn read(data_dir: &Path) -> Vec<KeptIndexers> {
    let path = data_dir.join(FILE);
    let mut text = String::new();
    let reading = open_private(&path, OpenOptions::new().read(true))
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    match reading.and_then(|_| Ok(serde_json::from_str(&text)?)) {
        Ok(kept) => kept,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the indexers that are known from before cannot be read");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn indexer(n: u8) -> IndexerAddr {
        let addr = SocketAddr::from(([192, 0, 2, n], 7707));
        IndexerAddr { addr, node: Identity::from_seed(&[n; 32]).id() }
    }

    #[test]
    fn newest_come_first_and_the_oldest_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home { network: NetworkName::default(), insecure: false };
        assert!(remembered(dir.path(), &home).is_empty());
        for n in 0..12 {
            remember(dir.path(), &home, &[indexer(n)]).unwrap();
        }
        remember(dir.path(), &home, &[indexer(9)]).unwrap();
        let expected: Vec<_> = [9, 11, 10, 8, 7, 6, 5, 4].map(indexer).into();
        assert_eq!(remembered(dir.path(), &home), expected);
        let other = Home { network: NetworkName::try_from("other".to_owned()).unwrap(), insecure: false };
        assert!(remembered(dir.path(), &other).is_empty());
        assert!(remembered(dir.path(), &Home { insecure: true, ..home.clone() }).is_empty());
        std::fs::write(dir.path().join(FILE), "[{").unwrap();
        assert!(remembered(dir.path(), &home).is_empty(), "a damaged file is none");
        remember(dir.path(), &home, &[indexer(1)]).unwrap();
        assert_eq!(remembered(dir.path(), &home), [indexer(1)]);
    }

    #[test]
    fn heard_ones_come_last_and_are_used_for_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home { network: NetworkName::default(), insecure: false };
        remember_heard(dir.path(), &home, &[indexer(1), indexer(2)]).unwrap();
        remember(dir.path(), &home, &[indexer(2), indexer(3)]).unwrap();
        assert_eq!(remembered(dir.path(), &home), [2, 3, 1].map(indexer));
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        let until = |ms: u64| {
            let mut kept: Vec<KeptIndexers> = serde_json::from_str(&text).unwrap();
            kept.iter_mut().for_each(|kept| kept.until_ms = kept.until_ms.map(|_| ms));
            std::fs::write(dir.path().join(FILE), serde_json::to_string(&kept).unwrap()).unwrap();
            remembered(dir.path(), &home).len()
        };
        assert_eq!([until(unix_ms() - 1), until(unix_ms() + 3_600_000)], [2, 2]);
    }
}
