//! One connection to a source: requests ahead, receives, verifies, writes. Runs on its own thread.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{ByteRange, FetchRefusal, Holder};

mod packed;

use self::packed::PackingPolicy;
use super::{
    busy::Busy,
    source::{FetchError, Source},
    transfer::{Transfer, WireRatio},
    verify::Verifier,
};
use crate::{
    content::{chunker::hash, outboard::SegmentHasher},
    peers::{ANSWER_WITHIN, held},
    state::schedule::{Availability, Next, StreamId},
    util::progress::SourceProgress,
};

/// Outstanding leases per connection, so that the source always has one to answer.
const ASKED_AHEAD: usize = 2;
/// Bytes verified and written at a time, if they arrive fast enough: few enough to stay in the
/// processor's cache, and enough to write most pages of the file once.
const TAKEN_AT_ONCE: usize = 384 * 1024;
/// Minimum interval between requests for the bit field of a source that is still downloading, and that between any two of them,
/// to whichever of these sources: each answer wakes all threads of the download.
const HAVE_EVERY: Duration = Duration::from_millis(100);
const HAVE_APART: Duration = Duration::from_millis(25);
/// Bounds of the time that an idle thread waits before it looks for work again: half as long as it has had none.
const LOOK_SOON: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Idle time after which a connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(10);

enum Requested {
    /// A leased run or a part of it.
    Run {
        chunks: Range<usize>,
        /// The bytes that were requested packed: those of the chunks, or more where it was not known yet which chunks they are.
        packed: Option<ByteRange>,
        is_last: bool,
    },
    Have,
    /// Whether this is the newest version, which its origin knows.
    Verdict,
}

#[derive(Clone, Copy)]
enum Requesting {
    /// Requests are sent ahead.
    Asking,
    /// It just refused a run: no further requests until all outstanding ones are answered.
    Draining,
}

/// Works until all is fetched, the source has no wanted chunk, or the download ends. The connection to the origin is kept if
/// nothing is under way on it.
pub(super) fn work(transfer: &Transfer, source: Source, holder: &Holder) -> Result<StreamEnd, FetchError> {
    let Some(id) = transfer.opened(holder.node, &source) else { return Ok(StreamEnd::Quiet) };
    let verifier = Verifier::new(transfer.assembly.outboard().cloned(), transfer.size());
    let mut worker = StreamWorker {
        transfer,
        source,
        holder,
        id,
        asked: VecDeque::new(),
        buffer: Vec::new(),
        hasher: None,
        verifier,
        counter: transfer.progress.source(holder.node, holder.addr),
        state: Requesting::Asking,
        busy: Busy::default(),
        worked_at: Instant::now(),
        ask_have_at: holder.partial.then(Instant::now),
        is_verdict_asked: false,
        packs: PackingPolicy::default(),
        came: WireRatio::PLAIN,
        packed: Vec::new(),
    };
    let worked = worker.work();
    let is_open = transfer.closed(id);
    if is_open && matches!(worked, Ok(StreamEnd::Quiet)) && holder.node == transfer.record.origin {
        transfer.keeps(worker.source);
    }
    match worked {
        Err(FetchError::Stream(_) | FetchError::Connect(_)) if !is_open => Ok(StreamEnd::Left),
        worked => worked,
    }
}

/// How the work on a connection ended, where the source is not to blame.
pub(super) enum StreamEnd {
    /// Every reply came.
    Quiet,
    /// Bytes are under way that are not wanted.
    Midway,
    /// This side closed the connection meanwhile, to connect anew.
    Left,
}

struct StreamWorker<'a> {
    transfer: &'a Transfer,
    source: Source,
    holder: &'a Holder,
    id: StreamId,
    asked: VecDeque<Requested>,
    buffer: Vec<u8>,
    /// Hashes consecutive writes, if no segments are known.
    hasher: Option<SegmentHasher>,
    verifier: Verifier,
    counter: Arc<SourceProgress>,
    state: Requesting,
    /// Its refusals since it last delivered.
    busy: Busy,
    /// When it last received bytes.
    worked_at: Instant,
    /// When to request the bit field next, for a source that is still downloading.
    ask_have_at: Option<Instant>,
    is_verdict_asked: bool,
    packs: PackingPolicy,
    /// In how many bytes the run came that is being written.
    came: WireRatio,
    packed: Vec<u8>,
}

impl StreamWorker<'_> {
    fn work(&mut self) -> Result<StreamEnd, FetchError> {
        if !self.lease_prefetched() {
            return Ok(StreamEnd::Midway);
        }
        loop {
            if let (Requesting::Draining, true) = (self.state, self.asked.is_empty()) {
                self.transfer.pause(self.busy.pause());
                self.state = Requesting::Asking;
            }
            let next = match self.state {
                Requesting::Asking => self.ask_ahead()?,
                Requesting::Draining => Next::Wait,
            };
            match self.asked.pop_front() {
                Some(Requested::Run { chunks, packed, .. }) => {
                    match self.deliver(chunks.clone(), packed) {
                        Ok(true) => {
                            (self.worked_at, self.state) = (Instant::now(), Requesting::Asking);
                            self.busy = Busy::default();
                            if let Some(portion) = self.source.take_portion() {
                                self.transfer.has_portion(self.id, portion);
                            }
                        }
                        Ok(false) => return Ok(StreamEnd::Midway),
                        // The stream is still usable, and later requests may be granted.
                        Err(FetchError::Refused(FetchRefusal::Busy | FetchRefusal::NotYet))
                            if !self.busy.is_over() =>
                        {
                            self.state = Requesting::Draining;
                            self.transfer.refused(self.id, chunks);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Some(Requested::Have) => {
                    let available = self.source.have(self.transfer.assembly.manifest().chunks().len())?;
                    if available == Availability::All {
                        self.ask_have_at = None;
                    }
                    self.transfer.offers_now(self.holder.node, available);
                }
                Some(Requested::Verdict) => match self.source.hear_verdict(ANSWER_WITHIN) {
                    Ok(()) | Err(FetchError::Refused(_)) => {} // it is asked again when the file is there
                    Err(error) => return Err(error),
                },
                None if matches!(next, Next::Done | Next::StruckOut) => return Ok(StreamEnd::Quiet),
                None if self.worked_at.elapsed() > IDLE_MAX => return Ok(StreamEnd::Quiet),
                None => self.transfer.wait((self.worked_at.elapsed() / 2).clamp(LOOK_SOON, LOOK_EVERY)),
            }
        }
    }

    fn ask_ahead(&mut self) -> Result<Next, FetchError> {
        let is_have_asked = self.asked.iter().any(|asked| matches!(asked, Requested::Have));
        if !is_have_asked && self.ask_have_at.is_some_and(|at| at <= Instant::now()) {
            let apart = HAVE_APART * self.transfer.partial_sources();
            self.ask_have_at = Some(Instant::now() + HAVE_EVERY.max(apart));
            self.source.ask_have(&self.transfer.record)?;
            self.asked.push_back(Requested::Have);
        }
        let is_lease = |asked: &&Requested| matches!(asked, Requested::Run { is_last: true, .. });
        while self.asked.iter().filter(is_lease).count() < ASKED_AHEAD {
            match self.transfer.next(self.id) {
                Next::Fetch(run) if self.is_packed(&run) => self.ask_packed(run)?,
                Next::Fetch(run) => {
                    self.source.ask(&self.transfer.record, self.transfer.assembly.manifest(), &run)?;
                    self.asked.push_back(Requested::Run { chunks: run, packed: None, is_last: true });
                }
                next => {
                    self.ask_verdict()?;
                    return Ok(next);
                }
            }
        }
        if !self.is_verdict_asked && self.transfer.is_all_leased() {
            self.ask_verdict()?;
        }
        Ok(Next::Wait)
    }

    /// Asks the origin, behind the last run that is asked of it, whether this is the newest version: unless it would note that this
    /// node holds that, before the file is in its place.
    fn ask_verdict(&mut self) -> Result<(), FetchError> {
        let is_last = self.asked.iter().any(|asked| matches!(asked, Requested::Run { .. }));
        let is_origin = self.holder.node == self.transfer.record.origin;
        let may_ask = is_origin && self.transfer.is_resumable && self.source.is_unlisted();
        if is_last && may_ask && !self.is_verdict_asked {
            self.is_verdict_asked = true;
            self.source.ask_verdict(held(&self.transfer.record))?;
            self.asked.push_back(Requested::Verdict);
        }
        Ok(())
    }

    /// Receives the reply to the oldest request, which was one for this run; false to end the connection.
    fn deliver(&mut self, run: Range<usize>, packed: Option<ByteRange>) -> Result<bool, FetchError> {
        if let Some(range) = packed {
            return self.receive_packed(range, run);
        }
        self.source.grant(self.transfer.assembly.manifest(), &run)?;
        self.came = WireRatio::PLAIN;
        self.receive(run)
    }

    /// Receives one run as it is; false to end the connection.
    fn receive(&mut self, run: Range<usize>) -> Result<bool, FetchError> {
        let began = Instant::now();
        let manifest = Arc::clone(self.transfer.assembly.manifest());
        let end = manifest.range(run.end - 1).end;
        let bytes = end - manifest.range(run.start).start;
        let (mut next, mut held) = (run.start, 0);
        self.verifier.begin(manifest.range(run.start).start);
        while next < run.end {
            if !self.transfer.wants_any((next..run.end).chain(self.asked_chunks())) {
                return Ok(false); // other sources were faster; the bytes in transit are not wanted
            }
            let chunk = manifest.range(next);
            let coming = len(end - chunk.start);
            let needed = len(self.verifier.needs(&chunk, end) - chunk.start);
            let room = needed.max(coming.min(TAKEN_AT_ONCE));
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            let came = |bytes, keeps_pace| self.transfer.came(self.id, bytes, keeps_pace);
            held =
                self.source.receive(&mut self.buffer[..room], held, needed, self.transfer.limit(), came)?;
            self.verifier.feed(chunk.start, &self.buffer[..held], |index, hash| {
                self.transfer.assembly.has_segment(index, hash);
            });
            let Some(taken) = self.take(next..run.end, held, held == coming)? else { return Ok(false) };
            next = taken.end;
            let used = taken.map(|index| manifest.chunks()[index].len as usize).sum();
            self.buffer.copy_within(used..held, 0);
            held -= used;
        }
        self.packs.came(bytes, began.elapsed());
        self.transfer.measured(self.id, bytes, began.elapsed());
        Ok(true)
    }

    /// Verifies the chunks at the beginning of the buffer, which holds `held` bytes, and writes the wanted
    /// ones. A chunk with an incomplete segment waits for it, unless it is the `last` of the request. `None`
    /// if the disk failed.
    fn take(
        &mut self,
        chunks: Range<usize>,
        held: usize,
        last: bool,
    ) -> Result<Option<Range<usize>>, FetchError> {
        let manifest = self.transfer.assembly.manifest();
        let offset = manifest.range(chunks.start).start;
        let (mut good, mut corrupt) = (chunks.start..chunks.start, false);
        for index in chunks {
            let range = manifest.range(index);
            if range.end > offset + held as u64 {
                break;
            }
            if !self.verifier.has_verified(&range) {
                if !last && self.verifier.may_yet_verify(&range) {
                    break;
                }
                let bytes = &self.buffer[len(range.start - offset)..len(range.end - offset)];
                if hash(bytes) != manifest.chunks()[index].hash {
                    corrupt = true;
                    break;
                }
            }
            good.end = index + 1;
        }
        // Usually all of them, in one write.
        let mut at = good.start;
        while at < good.end {
            let is_wanted = self.transfer.wants(at);
            let same = |index: &usize| self.transfer.wants(*index) == is_wanted;
            let end = (at + 1..good.end).find(|index| !same(index)).unwrap_or(good.end);
            if is_wanted && !self.write(at..end, offset) {
                return Ok(None);
            }
            at = end;
        }
        if corrupt { Err(FetchError::Corrupt) } else { Ok(Some(good)) }
    }

    /// Writes verified chunks; the buffer starts at `offset` of the file. False if the disk failed.
    fn write(&mut self, chunks: Range<usize>, offset: u64) -> bool {
        let (transfer, id) = (self.transfer, self.id);
        let manifest = transfer.assembly.manifest();
        let range = manifest.range(chunks.start).start..manifest.range(chunks.end - 1).end;
        let bytes = &self.buffer[len(range.start - offset)..len(range.end - offset)];
        let came = |index| if chunks.contains(&index) { self.came } else { WireRatio::CARRIED };
        let took = |index| self.counter.add(transfer.had(index, Some((id, came(index)))));
        let written = transfer.writing(|| {
            if self.verifier.is_used() {
                transfer.assembly.put(chunks.start, bytes, || {}, took)
            } else {
                transfer.assembly.write(chunks.start, bytes, &mut self.hasher, took)
            }
        });
        transfer.stored(written).is_some()
    }

    fn asked_chunks(&self) -> impl Iterator<Item = usize> + '_ {
        self.asked.iter().flat_map(|asked| match asked {
            Requested::Run { chunks, .. } => chunks.clone(),
            Requested::Have | Requested::Verdict => 0..0,
        })
    }
}

fn len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
