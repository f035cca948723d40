//! One connection to a source: asks ahead, receives, verifies, writes. Runs on a thread of its own.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{FetchRefusal, Holder};

use super::{
    source::{FetchError, Source},
    transfer::Transfer,
    verify::Verifier,
};
use crate::{
    content::{chunker::hash, outboard::SegmentHasher},
    state::schedule::{Availability, Next, StreamId},
};

/// Runs asked for before the first of them has come, so that the source never waits for us.
const ASKED_AHEAD: usize = 2;
/// Bytes received before they are verified and written, if they come as fast: they stay in the processor's
/// cache, and few pages of the file are touched twice.
const TAKEN_AT_ONCE: usize = 384 * 1024;
/// How often a source that is still downloading is asked what it has by now.
const HAVE_EVERY: Duration = Duration::from_millis(200);
/// Runs that a source may refuse in a row because it is busy, and the pause after one.
const REFUSALS_MAX: u32 = 100;
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// How long a thread waits at once when there is nothing to do.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A connection that had nothing to do for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// What was asked and has not come yet.
enum Asked {
    Run(Range<usize>),
    Have,
}

/// How it goes with the source, which refused this many runs in a row.
#[derive(Clone, Copy)]
enum State {
    /// It is asked ahead.
    Asking { refusals: u32 },
    /// It has just refused a run: all that was asked is answered before more is asked.
    Draining { refusals: u32 },
}

impl State {
    const BEGIN: Self = Self::Asking { refusals: 0 };

    const fn refusals(self) -> u32 {
        match self {
            Self::Asking { refusals } | Self::Draining { refusals } => refusals,
        }
    }
}

/// Works until all is fetched, the source has nothing for us, or nobody needs more.
///
/// # Errors
/// The source failed; what was leased to it is leased to others.
pub(super) fn work(transfer: &Transfer, source: Source, holder: &Holder) -> Result<(), FetchError> {
    let Some(id) = transfer.opened(holder.node, source.hang_up()) else { return Ok(()) };
    let verifier = Verifier::new(transfer.assembly().outboard().cloned(), transfer.size());
    let mut worker = Worker {
        transfer,
        source,
        holder,
        id,
        asked: VecDeque::new(),
        buffer: Vec::new(),
        hasher: None,
        verifier,
        state: State::BEGIN,
        worked_at: Instant::now(),
        ask_have_at: holder.partial.then(Instant::now),
    };
    let worked = worker.work();
    transfer.closed(id);
    worked
}

struct Worker<'a> {
    transfer: &'a Transfer,
    source: Source,
    holder: &'a Holder,
    id: StreamId,
    asked: VecDeque<Asked>,
    buffer: Vec<u8>,
    /// Hashes what is written in a row, where no segments are known.
    hasher: Option<SegmentHasher>,
    verifier: Verifier,
    state: State,
    /// When it last received something.
    worked_at: Instant,
    /// When a source that is still downloading is next asked what it has.
    ask_have_at: Option<Instant>,
}

impl Worker<'_> {
    fn work(&mut self) -> Result<(), FetchError> {
        loop {
            if let (State::Draining { refusals }, true) = (self.state, self.asked.is_empty()) {
                self.transfer.pause(REFUSED_PAUSE);
                self.state = State::Asking { refusals };
            }
            let next = match self.state {
                State::Asking { .. } => self.ask_ahead()?,
                State::Draining { .. } => Next::Wait,
            };
            match self.asked.pop_front() {
                Some(Asked::Run(run)) => match self.source.grant(self.transfer.assembly().manifest(), &run) {
                    Ok(()) if self.receive(run.clone())? => {
                        (self.worked_at, self.state) = (Instant::now(), State::BEGIN);
                    }
                    Ok(()) => return Ok(()),
                    // The stream is still good, and what was asked behind it may be granted.
                    Err(FetchError::Refused(FetchRefusal::Busy | FetchRefusal::NotYet))
                        if self.state.refusals() < REFUSALS_MAX =>
                    {
                        self.state = State::Draining { refusals: self.state.refusals() + 1 };
                        self.transfer.refused(self.id, run);
                    }
                    Err(error) => return Err(error),
                },
                Some(Asked::Have) => {
                    let available = self.source.have(self.transfer.assembly().manifest().chunks().len())?;
                    if available == Availability::All {
                        self.ask_have_at = None;
                    }
                    self.transfer.offers_now(self.holder.node, available);
                }
                None if matches!(next, Next::Done | Next::StruckOut) => return Ok(()),
                None if self.worked_at.elapsed() > IDLE_MAX => return Ok(()),
                None => self.transfer.wait(LOOK_EVERY),
            }
        }
    }

    fn ask_ahead(&mut self) -> Result<Next, FetchError> {
        if self.ask_have_at.is_some_and(|at| at <= Instant::now()) {
            self.ask_have_at = Some(Instant::now() + HAVE_EVERY);
            self.source.ask_have(self.transfer.record())?;
            self.asked.push_back(Asked::Have);
        }
        while self.asked.len() < ASKED_AHEAD {
            match self.transfer.next(self.id) {
                Next::Fetch(run) => {
                    self.source.ask(self.transfer.record(), self.transfer.assembly().manifest(), &run)?;
                    self.asked.push_back(Asked::Run(run));
                }
                next => return Ok(next),
            }
        }
        Ok(Next::Wait)
    }

    /// Receives one run; false when there is no point in going on.
    fn receive(&mut self, run: Range<usize>) -> Result<bool, FetchError> {
        let began = Instant::now();
        let manifest = Arc::clone(self.transfer.assembly().manifest());
        let counter = self.transfer.progress().source(self.holder.node, self.holder.addr);
        let end = manifest.range(run.end - 1).end;
        let bytes = end - manifest.range(run.start).start;
        let (mut next, mut held) = (run.start, 0);
        self.verifier.begin(manifest.range(run.start).start);
        while next < run.end {
            if !self.transfer.wants_any((next..run.end).chain(self.asked_chunks())) {
                return Ok(false); // others were faster: what is on its way is of no use
            }
            let chunk = manifest.range(next);
            let coming = len(end - chunk.start);
            let needed = len(self.verifier.needs(&chunk, end) - chunk.start);
            let room = needed.max(coming.min(TAKEN_AT_ONCE));
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            let before = held;
            held = self.source.receive(&mut self.buffer[..room], held, needed, self.transfer.limit())?;
            counter.add((held - before) as u64);
            self.verifier.feed(chunk.start, &self.buffer[..held], |index, hash| {
                self.transfer.assembly().has_segment(index, hash);
            });
            let Some(taken) = self.take(next..run.end, held, held == coming)? else { return Ok(false) };
            next = taken.end;
            let used = taken.map(|index| manifest.chunks()[index].len as usize).sum();
            self.buffer.copy_within(used..held, 0);
            held -= used;
        }
        self.transfer.measured(self.id, bytes, began.elapsed());
        Ok(true)
    }

    /// Verifies the chunks at the beginning of the buffer, which holds `held` bytes, and writes those that
    /// are of use. A chunk whose segments are not complete waits for them, unless it is the `last` of what
    /// was asked. `None` if the disk failed.
    fn take(
        &mut self,
        chunks: Range<usize>,
        held: usize,
        last: bool,
    ) -> Result<Option<Range<usize>>, FetchError> {
        let manifest = self.transfer.assembly().manifest();
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
        // Most often all of them, as one.
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

    /// Writes verified chunks; the buffer begins at `offset` of the file. False if the disk failed.
    fn write(&mut self, chunks: Range<usize>, offset: u64) -> bool {
        let (transfer, id) = (self.transfer, self.id);
        let manifest = transfer.assembly().manifest();
        let range = manifest.range(chunks.start).start..manifest.range(chunks.end - 1).end;
        transfer.moved(range.end - range.start);
        let bytes = &self.buffer[len(range.start - offset)..len(range.end - offset)];
        let took = |index| transfer.had(index, Some(id));
        let written = if self.verifier.is_used() {
            transfer.assembly().put(chunks.start, bytes, || {}, took)
        } else {
            transfer.assembly().write(chunks.start, bytes, &mut self.hasher, took)
        };
        transfer.stored(written).is_some()
    }

    fn asked_chunks(&self) -> impl Iterator<Item = usize> + '_ {
        self.asked.iter().flat_map(|asked| match asked {
            Asked::Run(run) => run.clone(),
            Asked::Have => 0..0,
        })
    }
}

/// A number of bytes in memory.
fn len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
