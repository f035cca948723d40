//! What goes wrong on top of links and sessions: replays, forgeries, restarts, restored folders.

use nekoproto::limits::TTL_MAX;
use nekoproto::{Record, Version};

use super::*;

/// Mean time between mishaps.
const MISHAP_EVERY: Duration = Duration::from_secs(5);

impl World {
    pub(super) fn mishap(&mut self) {
        let pause = exponential(MISHAP_EVERY, &mut self.rng);
        self.queue.after(pause, Event::Mishap);
        match self.setting.mishaps {
            None => {}
            Some(Mishaps::Messages) => {
                let place = self.rng.random_range(0..self.history.len());
                let old = self.history[place].to_signed();
                let record = if self.rng.random_bool(0.5) { Some(old) } else { self.forged(&old) };
                if let Some(record) = record {
                    self.inject(record);
                }
            }
            Some(Mishaps::Restarts) => {
                let peer = self.rng.random_range(0..self.peers.len());
                self.starts_again(peer, None);
            }
            // Seldom, so that what is restored is also published and read.
            Some(Mishaps::Backups) if self.rng.random_bool(0.1) => {
                let Role::Folder { backups, .. } = &self.peers[FOLDER].role else { return };
                let backup = backups[self.rng.random_range(0..backups.len())].clone();
                self.starts_again(FOLDER, Some(backup));
            }
            Some(Mishaps::Backups) => {}
        }
    }

    /// Somebody sends this record to anyone.
    fn inject(&mut self, record: SignedRecord) {
        let to = self.rng.random_range(0..self.peers.len());
        if self.rng.random_bool(0.5) {
            self.queue.after(Duration::ZERO, Event::ToPeer(to, ToPeer::News(record)));
        } else {
            let (msg_id, ttl_hops) = (self.message_id(), self.rng.random_range(0..=TTL_MAX));
            let (records, covered) = (Records::first_of([record]), Covered::new());
            let message = ToIndexer::Invalidate(InvalidateRequest {
                msg_id,
                records,
                ttl_hops,
                covered,
                from_guest: false,
            });
            let to = self.peers[to].home;
            self.queue.after(Duration::ZERO, Event::ToIndexer(to, message));
        }
    }

    fn starts_again(&mut self, peer: usize, disk: Option<Disk>) {
        if self.peers[peer].session.is_none() {
            return;
        }
        self.goes(peer);
        let now = self.now();
        if let Role::Folder { folder, .. } = &mut self.peers[peer].role {
            folder.restart(disk, now);
        }
        self.comes(peer);
    }

    /// The same with a higher number, under the signature of the true one.
    fn forged(&mut self, record: &SignedRecord) -> Option<SignedRecord> {
        let of = record.unverified();
        let version = Version::new(of.version.get() + 5)?;
        let mut bytes = codec::encode(&Record { version, ..of.clone() }).ok()?;
        bytes.extend(codec::encode(record.signature()).ok()?);
        let forged = codec::decode(&bytes).ok()?;
        self.tally.forged += 1;
        Some(forged)
    }
}
