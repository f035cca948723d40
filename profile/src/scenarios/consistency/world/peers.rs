//! The life of a peer: it comes and goes, registers, publishes or reads, asks, downloads, and tells its subscribers.

use std::slice;

use nekoproto::Held;

use super::*;

/// As in the shell: the time for a peer to answer, for an indexer to acknowledge before subscribers are told anyway, and
/// between renewals of a lease.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const HANGS_AFTER: Duration = Duration::from_secs(1);
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long a publish waits for the network to say which versions it knows.
const ASKING_MAX: Duration = Duration::from_secs(1);
/// Pauses before subscribers are told again. Indexers are told after so many times.
const AGAIN_MIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(10);
const SPREAD_AFTER: u32 = 2;
/// Time away, as a part of the time that a node is there.
const AWAY_PART: u32 = 4;
const PORT_FIRST: u16 = 1000;

pub(super) fn holder(n: usize) -> Holder {
    let port = PORT_FIRST + u16::try_from(n).unwrap_or(0);
    Holder::new(NODES[n].id(), ([127, 0, 0, 1], port).into())
}

fn peer_at(holder: &Holder) -> usize {
    usize::from(holder.addr.port() - PORT_FIRST)
}

impl World {
    pub(super) fn is_there(&self, n: usize) -> bool {
        self.peers[n].session.is_some()
    }

    /// `event`, unless the peer goes before.
    fn while_there(&self, n: usize, event: impl FnOnce(&mut Self) + 'static) -> Event {
        let life = self.peers[n].lives;
        Box::new(move |world| {
            if world.is_there(n) && world.peers[n].lives == life {
                event(world);
            }
        })
    }

    pub(super) fn comes(&mut self, n: usize) {
        let session = self.connect(n);
        let (now, peer) = (self.now(), &mut self.peers[n]);
        (peer.session, peer.is_listed) = (Some(session), false);
        peer.lives += 1;
        match &mut peer.reader {
            Some(reader) => reader.restart(now),
            None => self.folder.restart(now),
        }
        self.offers(n, false);
        if n == FOLDER
            && let Some(record) = self.folder.untold(now)
        {
            self.spread(&record);
        }
        self.wake(n);
        self.renews(n);
        if let Some(mean) = self.setting.session {
            let stays = self.exponential(mean);
            self.after(stays, move |world| {
                world.goes(n);
                let away = world.exponential(mean / AWAY_PART);
                world.after(away, move |world| world.comes(n));
            });
        }
    }

    pub(super) fn goes(&mut self, n: usize) {
        let (now, peer) = (self.now(), &mut self.peers[n]);
        peer.wake_at = None;
        peer.calls.clear();
        self.announcing.take_if(|_| n == FOLDER);
        if let Some(session) = peer.session.take() {
            self.indexers[peer.home].state.index.disconnected(&session, now);
        }
    }

    /// Renews its lease after a pause, again and again; registers what is not listed.
    fn renews(&mut self, n: usize) {
        let renews = move |world: &mut Self| {
            world.renews(n);
            let renew = move |world: &mut Self| world.renew(n);
            world.call_indexer(n, renew, move |world, is_kept| {
                if !is_kept && world.peers[n].is_listed {
                    world.offers(n, false);
                }
            });
            if !world.peers[n].is_listed {
                world.offers(n, false);
            }
        };
        self.after(RENEW_EVERY, self.while_there(n, renews));
    }

    /// Registers what a peer offers. Indexers tell each other of a new version, unless the folder `tells_all`.
    fn offers(&mut self, n: usize, tells_all: bool) {
        let (offered, is_new) = match &self.peers[n].reader {
            Some(reader) => (Some(&reader.held), false),
            None => (self.folder.offered(), !self.folder.disk.is_told),
        };
        let Some(record) = offered.cloned() else { return };
        let announce = is_new && !tells_all;
        self.peers[n].is_listed = false;
        if is_new {
            let records = Records::first_of([record.to_signed()]);
            self.note(Message::Registration, &RegisterRequest { records, announce, partial: false });
        }
        let offered = record.clone();
        let register = move |world: &mut Self| world.register(n, &offered, announce);
        self.call_indexer(n, register, move |world, newer| world.registered(n, &record, newer));
    }

    fn registered(&mut self, n: usize, record: &VerifiedRecord, newer: Option<VerifiedRecord>) {
        let peer = &mut self.peers[n];
        if let Some(reader) = &mut peer.reader {
            peer.is_listed = reader.held == *record;
            newer.into_iter().for_each(|newer| reader.learn(newer));
            self.wake(n);
        } else {
            peer.is_listed = newer.is_none() && self.folder.offered() == Some(record);
            let change = self.folder.registered(record, newer);
            self.announce(Some(record));
            self.changed(change);
        }
    }

    pub(super) fn tell_peer(&mut self, n: usize, link: Link, message: Message, record: SignedRecord) {
        self.note(message, &Records::first_of([record.clone()]));
        self.send_news(link, move |world| world.hears(n, record, message));
    }

    /// A version arrives, from anyone. A notice is acknowledged.
    pub(super) fn hears(&mut self, n: usize, record: SignedRecord, message: Message) {
        let Some(record) = self.verifier.verify(record).ok().filter(|_| self.is_there(n)) else { return };
        if let Some(reader) = &mut self.peers[n].reader {
            reader.learn(record.clone());
            if message == Message::Notice {
                self.send(Link::ReaderOrigin, move |world| {
                    if world.is_there(FOLDER) {
                        world.folder.acknowledged(&record, &NODES[n].id());
                    }
                });
            }
            self.wake(n);
        } else {
            let change = self.folder.settle(record, false);
            self.changed(change);
        }
    }

    /// A call to the own indexer, and its answer, unless the peer goes before.
    fn call_indexer<A: 'static>(
        &mut self,
        n: usize,
        serve: impl FnOnce(&mut Self) -> A + 'static,
        done: impl FnOnce(&mut Self, A) + 'static,
    ) {
        let link = own_link(n);
        let arrives = move |world: &mut Self| {
            let answer = serve(world);
            world.send(link, world.while_there(n, move |world| done(world, answer)));
        };
        self.send(link, self.while_there(n, arrives));
    }

    /// A call of a reader to the origin: `done` is given the answer, or nothing if none came in time.
    fn call_origin<A: 'static>(
        &mut self,
        n: usize,
        serve: impl FnOnce(&mut Self) -> A + 'static,
        done: impl FnOnce(&mut Self, Option<A>) + Clone + 'static,
    ) {
        let call = self.number();
        self.peers[n].calls.insert(call);
        let ends = move |world: &mut Self, answer| {
            if world.peers[n].calls.remove(&call) {
                done(world, answer);
            }
        };
        let gives_up = ends.clone();
        self.after(ANSWER_WITHIN, move |world| gives_up(world, None));
        self.send(Link::ReaderOrigin, move |world| {
            if world.is_there(FOLDER) {
                let answer = serve(world);
                world.send(Link::ReaderOrigin, move |world| ends(world, Some(answer)));
            }
        });
    }

    fn wake(&mut self, n: usize) {
        let (now, base) = (self.now(), self.base);
        let Peer { session: Some(_), reader: Some(reader), wake_at, .. } = &mut self.peers[n] else { return };
        let (fetches, asks, next) = reader.wake(now);
        let (known, next) = (reader.known().clone(), next.map(|next| next.saturating_duration_since(base)));
        if let Some(next) = next.filter(|next| wake_at.is_none_or(|at| *next < at)) {
            *wake_at = Some(next);
            self.at(next, move |world| {
                if world.peers[n].wake_at.take_if(|at| *at <= world.now).is_some() {
                    world.wake(n);
                }
            });
        }
        if fetches {
            let served = |world: &mut Self| world.folder.served();
            self.call_origin(n, served, move |world, found| world.fetched(n, found.flatten()));
        }
        if asks {
            self.asks(n, known);
        }
    }

    fn fetched(&mut self, n: usize, found: Option<VerifiedRecord>) {
        let (now, random) = (self.now(), self.rng.random());
        let Some(reader) = &mut self.peers[n].reader else { return };
        let before = reader.held.clone();
        let is_newer = reader.fetched(found, now, random);
        let versions = [&before, &reader.held].map(|record| (record.version, record.content));
        self.log.push(Fact::Downloaded(versions));
        if is_newer {
            self.offers(n, false);
        }
        self.wake(n);
    }

    /// Asks the origin whether `known` is the newest version.
    fn asks(&mut self, n: usize, known: VerifiedRecord) {
        let held = Held { name: known.name.clone(), version: known.version, content: known.content };
        let asked_at = self.now();
        self.note(Message::Question, &slice::from_ref(&held));
        let serve = move |world: &mut Self| {
            let verdict = world.folder.confirm(&held, holder(n), world.now());
            world.note(Message::Answer, &slice::from_ref(&verdict));
            verdict
        };
        self.call_origin(n, serve, move |world, verdict| {
            let (now, random) = (world.now(), world.rng.random());
            let Some(reader) = &mut world.peers[n].reader else { return };
            if reader.answered((&known, asked_at), verdict, now, random) {
                world.tell_peer(FOLDER, Link::ReaderOrigin, Message::Invalidation, known.to_signed());
            }
            world.wake(n);
        });
    }

    pub(super) fn publishes(&mut self) {
        let network = if self.folder.is_asked() { None } else { self.known_to_network() };
        let now = self.now();
        if !self.is_there(FOLDER) {
            return;
        }
        let mut content = [0; 32];
        content[..8].copy_from_slice(&self.history.len().to_le_bytes());
        content[8] = 1;
        let change = self.folder.publish(content, network.as_ref(), now);
        self.backups.push(self.folder.disk.clone());
        self.log.extend(change.map(|_| Fact::Published));
        self.changed(change);
    }

    /// The newest version that the indexers in reach of the folder list, as far as they answer in time.
    fn known_to_network(&mut self) -> Option<VerifiedRecord> {
        let (home, there) = (self.peers[FOLDER].home, [Link::OriginIndexer; 2]);
        let mut newest: Option<VerifiedRecord> = None;
        for n in self.indexers[home].near.clone() {
            let further = [Link::Indexers; 2].into_iter().filter(|_| n != home);
            let takes: Vec<_> = there.into_iter().chain(further).map(|link| self.takes(link)).collect();
            if takes.into_iter().sum::<Option<Duration>>().is_some_and(|takes| takes <= ASKING_MAX)
                && let Some(listed) = self.newest_at(n)
                && let Ok(record) = self.verifier.verify(listed.to_signed())
                && newest.as_ref().is_none_or(|newest| record.version > newest.version)
            {
                newest = Some(record);
            }
        }
        newest
    }

    /// The folder offers another version than before.
    fn changed(&mut self, change: Option<OfferChange>) {
        let Some(change) = change else { return };
        self.offers(FOLDER, change == OfferChange::Published { tells_all: true });
        if change != OfferChange::Adopted {
            self.announcing = self.folder.offered().cloned();
            self.history.extend(self.announcing.clone().map(|record| (self.now, record)));
            match self.folder.served() {
                Some(_) => self.announce(None),
                None => self.after(HANGS_AFTER, |world| world.announce(None)),
            }
        }
    }

    fn announce(&mut self, listed: Option<&VerifiedRecord>) {
        let is_due = |record: &mut VerifiedRecord| listed.is_none_or(|listed| listed == record);
        if let Some(record) = self.announcing.take_if(is_due) {
            self.tell_subscribers(record, 0);
        }
    }

    /// Tells those that have not acknowledged `record`, after so many `tries`; indexers too after some.
    fn tell_subscribers(&mut self, record: VerifiedRecord, tries: u32) {
        let silent = self.folder.told_directly(&record, self.now());
        if silent.is_empty() {
            return;
        }
        // A connection to who has gone is refused at once: the indexers do not reach it either.
        if tries == SPREAD_AFTER && silent.iter().any(|silent| self.is_there(peer_at(silent))) {
            self.spread(&record);
        }
        for n in silent.iter().map(peer_at) {
            self.tell_peer(n, Link::ReaderOrigin, Message::Notice, record.to_signed());
        }
        let pause = ANSWER_WITHIN + AGAIN_MIN.saturating_mul(1 << tries.min(16)).min(AGAIN_MAX);
        let life = self.peers[FOLDER].lives;
        self.after(pause, move |world| {
            if world.peers[FOLDER].lives == life {
                world.tell_subscribers(record, tries + 1);
            }
        });
    }

    /// Has the indexers tell each other.
    fn spread(&mut self, record: &VerifiedRecord) {
        let request = self.invalidation(record.to_signed(), TTL_MAX - 1);
        self.invalidate(Link::OriginIndexer, self.peers[FOLDER].home, request);
    }

    pub(super) fn reads(&mut self, n: usize) {
        let Peer { session: Some(_), reader: Some(reader), home, .. } = &self.peers[n] else { return };
        let ago = |version: Version| {
            let (replaced, _) = self.history.get(usize::try_from(version.get()).unwrap_or(usize::MAX))?;
            Some(self.now.saturating_sub(*replaced))
        };
        let read = Fact::Read(reader.freshness(self.now()), ago(reader.held.version));
        let known = reader.known().version;
        let is_shared = self.history.iter().rev().any(|(_, shared)| shared.version >= known);
        let asked = self.setting.queries.then_some(&self.indexers[*home].near).into_iter().flatten();
        let found = asked.filter_map(|n| self.newest_at(*n)).map(|record| record.version).max();
        let found = found.map(|version| Fact::Found(ago(version)));
        self.log.extend([Some(read), (!is_shared).then_some(Fact::Misled), found].into_iter().flatten());
    }
}

pub(super) const fn own_link(n: usize) -> Link {
    if n == FOLDER { Link::OriginIndexer } else { Link::ReaderIndexer }
}
