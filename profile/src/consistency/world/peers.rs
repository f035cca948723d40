//! The life of a peer: it comes and goes, registers, asks, downloads, and tells its subscribers.

use nekoproto::limits::TTL_MAX;

use super::*;

impl World {
    pub(super) fn comes(&mut self, peer: usize) {
        let now = self.now();
        let key = if self.is_folder(peer) { 0 } else { peer };
        let one = &mut self.peers[peer];
        one.session = Some(self.indexers[one.home].connect(key, peer, now));
        one.is_listed = false;
        one.lives += 1;
        let life = one.lives;
        match &mut one.role {
            Role::Folder { folder, .. } => folder.restart(None, now),
            Role::Reader(reader) => reader.restart(now),
        }
        self.offers(peer);
        let untold = match &self.peers[peer].role {
            Role::Folder { folder, .. } => folder.untold(now),
            Role::Reader(_) => None,
        };
        if let Some(record) = untold {
            self.spread(peer, &record);
        }
        self.wake(peer);
        self.queue.after(RENEW_EVERY, Event::Renews(peer, life));
        if let Some(mean) = self.setting.session {
            let stays = exponential(mean, &mut self.rng);
            self.queue.after(stays, Event::Goes(peer));
        }
    }

    pub(super) fn goes(&mut self, peer: usize) {
        let now = self.now();
        let one = &mut self.peers[peer];
        (one.asks, one.fetches, one.wake_at) = (None, None, None);
        if let Role::Folder { announcing, .. } = &mut one.role {
            *announcing = None;
        }
        if let Some(session) = one.session.take() {
            self.indexers[one.home].disconnect(&session, now);
        }
    }

    pub(super) fn renews(&mut self, peer: usize, life: usize) {
        if self.peers[peer].session.is_none() || self.peers[peer].lives != life {
            return; // another tick begins when it comes again
        }
        self.queue.after(RENEW_EVERY, Event::Renews(peer, life));
        self.call_indexer(peer, ToIndexer::Renew { peer, life });
        if !self.peers[peer].is_listed {
            self.offers(peer);
        }
    }

    pub(super) fn offers(&mut self, peer: usize) {
        let act = match &self.peers[peer].role {
            Role::Folder { folder, .. } => folder.offer(),
            Role::Reader(reader) => {
                Some(Act::Offer { record: reader.held().clone(), is_new: false, announce: false })
            }
        };
        self.carry_out(peer, act.into_iter().collect());
    }

    pub(super) fn wake(&mut self, peer: usize) {
        let now = self.now();
        let Peer { session: Some(_), role: Role::Reader(reader), wake_at, .. } = &mut self.peers[peer] else {
            return;
        };
        let (acts, next) = reader.wake(now);
        if let Some(next) = next {
            let next = next.saturating_duration_since(self.base);
            if wake_at.is_none_or(|at| next < at) {
                *wake_at = Some(next);
                self.queue.add(next, Event::Wakes(peer));
            }
        }
        if !acts.is_empty() {
            self.carry_out(peer, acts);
        }
    }

    pub(super) fn gives_up(&mut self, peer: usize, call: u64, is_fetch: bool) {
        let one = &mut self.peers[peer];
        if is_fetch && one.fetches == Some(call) {
            self.fetched(peer, None);
        } else if let Some((_, question)) = one.asks.take_if(|(asks, _)| !is_fetch && *asks == call) {
            self.answered(peer, &question, None);
        }
    }

    pub(super) fn answered(&mut self, peer: usize, question: &Question, verdict: Option<Verdict>) {
        let (now, random) = (self.now(), self.rng.random());
        if let Role::Reader(reader) = &mut self.peers[peer].role {
            let acts = reader.answered(question, verdict, now, random);
            self.carry_out(peer, acts);
            self.wake(peer);
        }
    }

    pub(super) fn fetched(&mut self, peer: usize, record: Option<SignedRecord>) {
        let (now, random) = (self.now(), self.rng.random());
        self.peers[peer].fetches = None;
        if let Role::Reader(reader) = &mut self.peers[peer].role {
            let before = reader.held().clone();
            let acts = reader.fetched(record, now, random);
            self.tally.holds(&before, reader.held());
            self.carry_out(peer, acts);
            self.wake(peer);
        }
    }

    pub(super) fn announce(&mut self, peer: usize, listed: Option<&VerifiedRecord>) {
        let Role::Folder { announcing, .. } = &mut self.peers[peer].role else { return };
        let Some(record) = announcing.take_if(|record| listed.is_none_or(|listed| listed == record)) else {
            return;
        };
        self.tell_subscribers(peer, record, 0);
    }

    /// Tells those that have not acknowledged `record`, after so many `tries`.
    pub(super) fn tell_subscribers(&mut self, peer: usize, record: VerifiedRecord, tries: u32) {
        let now = self.now();
        let Role::Folder { folder, .. } = &self.peers[peer].role else { return };
        let silent = folder.told_directly(&record, now);
        if silent.is_empty() {
            return;
        }
        // A connection to who has gone is refused at once: the indexers do not reach it either.
        let is_there = |silent: &Holder| self.peers[peer_at(silent)].session.is_some();
        if tries == SPREAD_AFTER && silent.iter().any(is_there) {
            self.spread(peer, &record);
        }
        for subscriber in silent {
            self.tally.origin += 1;
            let told = ToPeer::Told { from: peer, record: record.clone() };
            self.call_peer(Link::Peers, peer_at(&subscriber), told);
        }
        let pause = ANSWER_WITHIN + AGAIN_MIN.saturating_mul(1 << tries.min(16)).min(AGAIN_MAX);
        self.queue.after(pause, Event::TellsAgain(peer, self.peers[peer].lives, record, tries + 1));
    }

    /// Has the indexers tell each other.
    fn spread(&mut self, peer: usize, record: &VerifiedRecord) {
        let (records, covered) = (Records::first_of([record.to_signed()]), Covered::new());
        let (msg_id, ttl_hops) = (self.message_id(), TTL_MAX - 1);
        let request = InvalidateRequest { msg_id, records, ttl_hops, covered, from_guest: false };
        self.call_indexer(peer, ToIndexer::Invalidate(request));
    }
}
