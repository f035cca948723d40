//! What goes wrong on top of links and sessions: replays, forgeries, restarts, restored folders.

use nekoproto::{Record, Version, limits::TTL_MAX};

use super::*;
use crate::scenarios::consistency::setting::Mishaps;

impl World {
    pub(super) fn mishap(&mut self, mishaps: Mishaps) {
        match mishaps {
            Mishaps::Messages => {
                let place = self.rng.random_range(0..self.history.len());
                let old = self.history[place].1.to_signed();
                let record = if self.rng.random_bool(0.5) { Some(old) } else { self.forged(&old) };
                if let Some(record) = record {
                    self.inject(record);
                }
            }
            Mishaps::Restarts => {
                let n = self.rng.random_range(0..self.peers.len());
                self.starts_again(n, None);
            }
            // Seldom, so that what is restored is also published and read.
            Mishaps::Backups if self.rng.random_bool(0.1) => {
                let backup = self.rng.random_range(0..self.backups.len());
                self.starts_again(FOLDER, Some(self.backups[backup].clone()));
            }
            Mishaps::Backups => {}
        }
    }

    /// Somebody sends this record to anyone.
    fn inject(&mut self, record: SignedRecord) {
        let to = self.rng.random_range(0..self.peers.len());
        if self.rng.random_bool(0.5) {
            self.after(Duration::ZERO, move |world| world.hears(to, record, Message::Invalidation));
        } else {
            let (to, ttl_hops) = (self.peers[to].home, self.rng.random_range(0..=TTL_MAX));
            let request = self.invalidation(record, ttl_hops);
            self.after(Duration::ZERO, move |world| world.invalidated(to, &request));
        }
    }

    fn starts_again(&mut self, n: usize, disk: Option<Disk>) {
        if self.is_there(n) {
            self.goes(n);
            disk.into_iter().for_each(|disk| self.folder.disk = disk);
            self.comes(n);
        }
    }

    /// The same with a higher number, under the signature of the true one.
    fn forged(&mut self, record: &SignedRecord) -> Option<SignedRecord> {
        let of = record.unverified();
        let version = Version::new(of.version.get() + 5)?;
        let mut bytes = codec::encode(&Record { version, ..of.clone() }).ok()?;
        bytes.extend(codec::encode(record.signature()).ok()?);
        let forged = codec::decode(&bytes).ok()?;
        self.log.push(Fact::Forged);
        Some(forged)
    }
}
