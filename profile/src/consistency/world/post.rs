//! Messages: who sends them, what they cost, and what is done where they arrive.

use std::slice;

use super::*;

/// A packet that is lost is sent again after a second, and after two more (RFC 6298); by then the call has timed out.
const SENT_AGAIN: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];

impl World {
    /// Does what a peer has decided.
    pub(super) fn carry_out(&mut self, peer: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Ask(question) => self.ask(peer, question),
                Act::Fetch => self.fetch(peer),
                Act::Remind(record) => {
                    self.call_peer(Link::Peers, FOLDER, ToPeer::News(record.to_signed()));
                }
                Act::Offer { record, is_new, announce } => {
                    self.peers[peer].is_listed = false;
                    let life = self.peers[peer].lives;
                    self.call_indexer(peer, ToIndexer::Register { peer, life, record, is_new, announce });
                }
                Act::Announce(record) => {
                    self.committed.push(self.queue.now());
                    self.newest = self.newest.max(record.version.get());
                    self.history.push(record.clone());
                    if let Role::Folder { announcing, .. } = &mut self.peers[peer].role {
                        *announcing = Some(record);
                        self.queue.after(HANGS_AFTER, Event::Announces(peer));
                    }
                }
            }
        }
    }

    pub(super) fn message_id(&mut self) -> MsgId {
        self.calls += 1;
        MsgId::from_u128(self.calls.into())
    }

    fn ask(&mut self, peer: usize, question: Question) {
        self.calls += 1;
        let call = self.calls;
        self.peers[peer].asks = Some((call, question.clone()));
        self.queue.after(ANSWER_WITHIN, Event::GivesUp(peer, call, false));
        self.call_peer(Link::Peers, FOLDER, ToPeer::Confirm { from: peer, call, question });
    }

    fn fetch(&mut self, peer: usize) {
        self.calls += 1;
        let call = self.calls;
        self.peers[peer].fetches = Some(call);
        self.queue.after(ANSWER_WITHIN, Event::GivesUp(peer, call, true));
        self.call_peer(Link::Peers, FOLDER, ToPeer::Fetch { from: peer, call });
    }

    pub(super) fn call_indexer(&mut self, peer: usize, message: ToIndexer) {
        let link = if self.is_folder(peer) { Link::OriginIndexer } else { Link::ReaderIndexer };
        let home = self.peers[peer].home;
        self.send(link, home, message);
    }

    fn send(&mut self, link: Link, to: usize, message: ToIndexer) {
        match &message {
            ToIndexer::Register { record, is_new: true, announce, .. } => {
                let records = Records::first_of([record.to_signed()]);
                let request = RegisterRequest { records, announce: *announce, partial: false };
                self.tally.origin += 1;
                self.tally.invalidating.count(&request);
            }
            ToIndexer::Invalidate(request) => self.tally.invalidating.count(request),
            _ => {}
        }
        let may_double = matches!(message, ToIndexer::Invalidate(_));
        for at in self.arrivals(link, may_double) {
            self.queue.add(at, Event::ToIndexer(to, message.clone()));
        }
    }

    pub(super) fn call_peer(&mut self, link: Link, to: usize, message: ToPeer) {
        match &message {
            ToPeer::News(record) => self.tally.invalidating.count(&Records::first_of([record.clone()])),
            ToPeer::Told { record, .. } => {
                self.tally.invalidating.count(&Records::first_of([record.to_signed()]));
            }
            ToPeer::Confirm { question, .. } => {
                self.tally.origin += 1;
                self.tally.asking.count(&[question.held()].as_slice());
            }
            ToPeer::Confirmed { verdict, .. } => {
                self.tally.asking.bytes += encoded(&slice::from_ref(verdict))
            }
            _ => {}
        }
        for at in self.arrivals(link, matches!(message, ToPeer::News(_) | ToPeer::Told { .. })) {
            self.queue.add(at, Event::ToPeer(to, message.clone()));
        }
    }

    fn arrivals(&mut self, link: Link, may_double: bool) -> Vec<Duration> {
        let doubled = self.setting.weather.doubled;
        let copies = 1 + usize::from(may_double && doubled > 0.0 && self.rng.random_bool(doubled));
        (0..copies).filter_map(|_| Some(self.queue.now() + self.takes(link)?)).collect()
    }

    /// How long a message takes over such a link; `None` if it does not arrive.
    pub(super) fn takes(&mut self, link: Link) -> Option<Duration> {
        let Self { setting: Setting { weather, .. }, queue, rng, .. } = self;
        let sent = SENT_AGAIN.iter().find(|after| weather.carries(link, queue.now() + **after, rng))?;
        Some(*sent + weather.delay(rng))
    }

    pub(super) fn at_indexer(&mut self, to: usize, message: ToIndexer) {
        let now = self.now();
        match message {
            ToIndexer::Register { peer, life, record, announce, .. } => {
                let Some(session) = self.session(peer, life) else { return };
                let id = self.message_id();
                let indexer = &mut self.indexers[to];
                let (told, newer) = indexer.register(&session, record.clone().into(), announce, id, now);
                self.tell(told);
                let newer = newer.map(|newer| newer.to_signed());
                self.call_own(peer, ToPeer::Registered { life, record, newer });
            }
            ToIndexer::Renew { peer, life } => {
                let Some(session) = self.session(peer, life) else { return };
                let is_listed = self.indexers[to].renew(&session, now);
                self.call_own(peer, ToPeer::Renewed { life, is_listed });
            }
            ToIndexer::Invalidate(request) => {
                let record = request.records.iter().next().cloned();
                let verified = record.and_then(|record| self.verifier.verify(record).ok());
                if let Some(record) = verified {
                    let told = self.indexers[to].invalidate(&request, record.into(), now);
                    self.tell(told);
                }
            }
        }
    }

    /// The connection of a peer, if it is still that of this life.
    fn session(&self, peer: usize, life: usize) -> Option<Arc<Session>> {
        let one = &self.peers[peer];
        one.session.clone().filter(|_| one.lives == life)
    }

    fn tell(&mut self, told: Told) {
        for (peer, record) in told.peers {
            self.call_own(peer, ToPeer::News(record.to_signed()));
        }
        for (neighbor, request) in told.neighbors {
            self.send(Link::Indexers, neighbor, ToIndexer::Invalidate(request));
        }
    }

    /// An indexer to a peer that is connected to it.
    fn call_own(&mut self, peer: usize, message: ToPeer) {
        let link = if self.is_folder(peer) { Link::OriginIndexer } else { Link::ReaderIndexer };
        self.call_peer(link, peer, message);
    }

    pub(super) fn at_peer(&mut self, to: usize, message: ToPeer) {
        let now = self.now();
        let one = &mut self.peers[to];
        match (message, &mut one.role) {
            (ToPeer::News(record), Role::Folder { folder, .. }) => {
                let acts = folder.hear(record);
                self.carry_out(to, acts);
            }
            (ToPeer::News(record), Role::Reader(reader)) => {
                reader.hear(record);
                self.wake(to);
            }
            (ToPeer::Told { from, record }, Role::Reader(reader)) => {
                reader.hear(record.to_signed());
                self.call_peer(Link::Peers, from, ToPeer::Acknowledged { from: to, record });
                self.wake(to);
            }
            (ToPeer::Acknowledged { from, record }, Role::Folder { folder, .. }) => {
                folder.acknowledged(&record, &identity(from).id());
            }
            (ToPeer::Registered { life, .. } | ToPeer::Renewed { life, .. }, _) if life != one.lives => {}
            (ToPeer::Registered { record, newer, .. }, Role::Folder { folder, .. }) => {
                one.is_listed = newer.is_none() && folder.offered() == Some(&record);
                let acts = folder.registered(&record, newer);
                self.announce(to, Some(&record));
                self.carry_out(to, acts);
            }
            (ToPeer::Registered { record, newer, .. }, Role::Reader(reader)) => {
                one.is_listed = *reader.held() == record;
                newer.into_iter().for_each(|newer| reader.hear(newer));
                self.wake(to);
            }
            (ToPeer::Renewed { is_listed, .. }, _) => {
                if one.is_listed && !is_listed {
                    self.offers(to);
                }
            }
            (ToPeer::Confirm { from, call, question }, Role::Folder { folder, .. }) => {
                let verdict = folder.confirm(&question.held(), holder(from, from), now);
                self.call_peer(Link::Peers, from, ToPeer::Confirmed { call, question, verdict });
            }
            (ToPeer::Fetch { from, call }, Role::Folder { folder, .. }) => {
                let record = folder.served();
                self.call_peer(Link::Peers, from, ToPeer::Fetched { call, record });
            }
            (ToPeer::Confirmed { call, question, verdict }, _) => {
                if one.asks.take_if(|(asks, _)| *asks == call).is_some() {
                    self.answered(to, &question, Some(verdict));
                }
            }
            (ToPeer::Fetched { call, record }, _) => {
                if one.fetches == Some(call) {
                    self.fetched(to, record);
                }
            }
            (
                ToPeer::Confirm { .. } | ToPeer::Fetch { .. } | ToPeer::Acknowledged { .. },
                Role::Reader(_),
            )
            | (ToPeer::Told { .. }, Role::Folder { .. }) => {}
        }
    }
}

impl Traffic {
    fn count(&mut self, call: &impl Serialize) {
        self.messages += 1;
        self.bytes += encoded(call);
    }
}

/// The length of the arguments of a call, or of its answer.
fn encoded(value: &impl Serialize) -> usize {
    codec::encode(value).map_or(0, |bytes| bytes.len())
}
