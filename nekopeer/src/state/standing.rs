//! Whose numbers stand: of which names an indexer has confirmed a number since this process started.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use nekoproto::FileName;

/// Names of which an indexer has listed a version of this peer since the process started. What the data folder says
/// of such a name is as new as the process: the next number, though not confirmed yet, was not used before. Of any
/// other name the folder may be a restored one. Eight bytes a name, since there may be very many.
#[derive(Debug)]
pub(crate) struct Standing {
    hasher: RandomState,
    names: HashSet<u64>,
    /// This peer has no indexer, so that nobody else lists its numbers.
    is_alone: bool,
}

impl Standing {
    /// For a peer with `indexers` indexers.
    pub(crate) fn new(indexers: usize) -> Self {
        Self { hasher: RandomState::new(), names: HashSet::new(), is_alone: indexers == 0 }
    }

    /// An indexer has listed a version of `name`.
    pub(crate) fn confirmed(&mut self, name: &FileName) {
        self.names.insert(self.hasher.hash_one(name));
    }

    /// Whether a version of `name` may be handed out whose number no indexer has confirmed.
    pub(crate) fn covers(&self, name: &FileName) -> bool {
        self.is_alone || self.names.contains(&self.hasher.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// What a data folder says of one file.
    #[derive(Clone, Copy, Debug, Default)]
    struct Folder {
        version: u64,
        content: u64,
        is_pending: bool,
    }

    /// One folder, its copies, its indexer, and what readers were handed.
    struct Sim {
        folder: Folder,
        copies: Vec<Folder>,
        standing: Standing,
        listed: (u64, u64),
        is_up: bool,
        handed: BTreeMap<u64, u64>,
    }

    impl Sim {
        fn restart(&mut self) {
            self.standing = Standing::new(1);
            self.register();
        }

        /// The indexer, if it is up, lists the version, or shows a later or other one: then it gets another number.
        fn register(&mut self) {
            let Folder { version, content, .. } = self.folder;
            if !self.is_up || version == 0 {
                return;
            }
            if (version, content) != self.listed && version <= self.listed.0 {
                if !self.folder.is_pending {
                    return; // superseded: it is not offered until the user publishes again
                }
                self.folder.version = self.listed.0 + 1;
            }
            self.listed = (self.folder.version, content);
            self.folder.is_pending = false;
            self.standing.confirmed(&name());
            self.copies.push(self.folder);
        }

        /// A reader with an older version asks the folder itself.
        fn ask(&mut self) {
            let Folder { version, content, is_pending } = self.folder;
            if version > 0 && (!is_pending || self.standing.covers(&name())) {
                let handed = *self.handed.entry(version).or_insert(content);
                assert_eq!(handed, content, "two contents of version {version}");
            }
        }
    }

    fn name() -> FileName {
        FileName::new("a").unwrap()
    }

    /// Goal: no reader gets another content under a number than any other reader has, and a process that has heard its
    /// indexer hands out what it publishes while the indexer is away.
    /// Method: random publishes, restarts, restored folders and absences of the indexer. Readers register what they
    /// have before the folder does.
    #[test]
    fn restored_folder_hands_out_no_number_that_was_used() {
        let mut handed_while_away = 0;
        for seed in 0..500 {
            println!("seed {seed}");
            let mut random = StdRng::seed_from_u64(seed);
            let (folder, copies, handed) = Default::default();
            let standing = Standing::new(1);
            let mut sim = Sim { folder, copies, standing, listed: (0, 0), is_up: true, handed };
            for content in 1..80 {
                match random.random_range(0..8) {
                    0 | 1 => {
                        let version = sim.folder.version.max(if sim.is_up { sim.listed.0 } else { 0 }) + 1;
                        sim.folder = Folder { version, content, is_pending: true };
                        sim.copies.push(sim.folder);
                        sim.register();
                    }
                    2 if !sim.copies.is_empty() => {
                        sim.folder = sim.copies[random.random_range(0..sim.copies.len())];
                        sim.restart();
                    }
                    3 => sim.restart(),
                    4 => sim.is_up = false,
                    5 => {
                        let last = sim
                            .handed
                            .last_key_value()
                            .map_or((0, 0), |(version, content)| (*version, *content));
                        sim.listed = sim.listed.max(last);
                        sim.is_up = true;
                        sim.register();
                    }
                    _ => {
                        handed_while_away +=
                            usize::from(sim.folder.is_pending && sim.standing.covers(&name()));
                        sim.ask();
                    }
                }
            }
        }
        assert!(handed_while_away > 100, "{handed_while_away}");
    }

    #[test]
    fn peer_without_indexers_hands_out_what_it_has() {
        assert!(Standing::new(0).covers(&name()) && !Standing::new(2).covers(&name()));
    }
}
