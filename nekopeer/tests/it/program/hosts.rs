//! Programs on the hosts of an emulated network.

use testkit::lan::Lan;

use super::{
    indexer::{LISTENS, an_indexer},
    *,
};

/// Time limit for the network to mend itself, which takes 5 s where nothing else runs.
pub(crate) const SOON: Duration = LIMIT;
/// What is shared unless a test says something else.
pub(crate) const NAME: &str = "notes.md";

pub(crate) fn indexer(lan: &Lan, host: u8, listen: &str, neighbors: &[&str]) -> Running {
    let addrs: Vec<_> = [&[listen], neighbors].concat().iter().map(|addr| addr.parse().unwrap()).collect();
    let mut running = Running::start(lan.host(host).command(&an_indexer(&addrs)));
    running.out_line(LISTENS);
    running
}

pub(crate) fn home(lan: &Lan, host: u8, indexer: &str) -> Home {
    Home::with(&["--indexer", indexer]).on(lan.host(host))
}

/// The same, where indexers are found by themselves.
pub(crate) fn home_that_discovers(lan: &Lan, host: u8) -> Home {
    Home::with(&["--no-discovery=false"]).on(lan.host(host))
}

impl Home {
    pub(crate) fn shares(&self, bytes: impl AsRef<[u8]>) -> Running {
        self.share_file(NAME, bytes)
    }

    /// Gets `what`, which is [`NAME`] or a ticket of it, and expects these bytes. A command that does not find it is
    /// repeated for a while: news travel, and questions to all hosts may get lost.
    #[track_caller]
    pub(crate) fn gets_soon(&self, what: &str, bytes: impl AsRef<[u8]>) {
        let (began, mut last) = (Instant::now(), None);
        loop {
            let left = SOON.saturating_sub(began.elapsed());
            let ended = self.start(&["get", what]).wait_within(left);
            if ended.as_ref().is_some_and(|ended| ended.code == Some(0)) {
                break;
            }
            last = ended.or(last);
            assert!(began.elapsed() < SOON, "{what} did not come within {SOON:?}: {last:?}");
        }
        assert!(self.read(NAME) == bytes.as_ref(), "it has other bytes");
    }

    #[track_caller]
    pub(crate) fn has_soon(&self, following: &mut Running, bytes: &str) {
        let is_there = || fs::read(self.path(NAME)).is_ok_and(|now| now == bytes.as_bytes());
        until_within(SOON, following, bytes, is_there);
    }
}
