//! One connection to a source: asks ahead, receives, verifies, writes. Runs on a thread of its own.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{FetchRefusal, Holder};

use super::{check::Check, job::Job};
use crate::{
    chunker::hash,
    fetch::{FetchError, Source},
    state::schedule::{Next, Offer, StreamId},
    treehash::Feed,
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
/// How long to wait at once when there is nothing to do.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A connection that had nothing to do for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// What was asked and has not come yet.
enum Asked {
    Run(Range<usize>),
    Have,
}

/// Works until all is fetched, the source has nothing for us, or nobody needs more.
///
/// # Errors
/// The source failed; what was leased to it is leased to others.
pub(super) fn work(job: &Job, source: Source, holder: &Holder) -> Result<(), FetchError> {
    let Some(id) = job.opened(holder.node, source.hang_up()) else { return Ok(()) };
    let partial = holder.partial.then(|| {
        let now = Instant::now();
        now.checked_sub(HAVE_EVERY).unwrap_or(now)
    });
    let check = Check::new(job.assembly().outline().cloned(), job.size());
    let asked = VecDeque::new();
    let refused = false;
    let worked =
        Stream { job, source, holder, id, asked, buffer: Vec::new(), feed: None, check, refused, partial }
            .work();
    job.closed(id);
    worked
}

struct Stream<'a> {
    job: &'a Job,
    source: Source,
    holder: &'a Holder,
    id: StreamId,
    asked: VecDeque<Asked>,
    buffer: Vec<u8>,
    feed: Option<Feed>,
    check: Check,
    /// The source refused what was asked last because it is busy, or has not got it yet.
    refused: bool,
    /// When a source that is still downloading was last asked what it has.
    partial: Option<Instant>,
}

impl Stream<'_> {
    fn work(&mut self) -> Result<(), FetchError> {
        let (mut worked_at, mut refusals) = (Instant::now(), 0);
        loop {
            if self.refused && self.asked.is_empty() {
                self.refused = false;
                self.job.pause(REFUSED_PAUSE);
            }
            // After a refusal nothing is asked before all that was asked is answered.
            let next = if self.refused { Next::Wait } else { self.ask_ahead()? };
            match self.asked.pop_front() {
                Some(Asked::Run(run)) => match self.source.grant(self.job.assembly().manifest(), &run) {
                    Ok(()) if self.receive(run.clone())? => (worked_at, refusals) = (Instant::now(), 0),
                    Ok(()) => return Ok(()),
                    // The stream is still good, and what was asked behind it may be granted.
                    Err(FetchError::Refused(FetchRefusal::Busy | FetchRefusal::NotYet))
                        if refusals < REFUSALS_MAX =>
                    {
                        refusals += 1;
                        self.refused = true;
                        self.job.refused(self.id, run);
                    }
                    Err(error) => return Err(error),
                },
                Some(Asked::Have) => {
                    let offer = self.source.have(self.job.assembly().manifest().chunks().len())?;
                    if offer == Offer::All {
                        self.partial = None;
                    }
                    self.job.offers_now(self.holder.node, offer);
                }
                None if matches!(next, Next::Done | Next::StruckOut) => return Ok(()),
                None if worked_at.elapsed() > IDLE_MAX => return Ok(()),
                None => self.job.wait(LOOK_EVERY),
            }
        }
    }

    fn ask_ahead(&mut self) -> Result<Next, FetchError> {
        if self.partial.is_some_and(|asked_at| asked_at.elapsed() >= HAVE_EVERY) {
            self.partial = Some(Instant::now());
            self.source.ask_have(self.job.record())?;
            self.asked.push_back(Asked::Have);
        }
        let mut next = Next::Wait;
        while self.asked.len() < ASKED_AHEAD {
            next = self.job.next(self.id);
            let Next::Fetch(run) = next else { break };
            self.source.ask(self.job.record(), self.job.assembly().manifest(), &run)?;
            next = Next::Wait;
            self.asked.push_back(Asked::Run(run));
        }
        Ok(next)
    }

    /// Receives one run; false when there is no point in going on.
    fn receive(&mut self, run: Range<usize>) -> Result<bool, FetchError> {
        let began = Instant::now();
        let manifest = Arc::clone(self.job.assembly().manifest());
        let counter = self.job.progress().source(self.holder.node, self.holder.addr);
        let end = manifest.range(run.end - 1).end;
        let bytes = end - manifest.range(run.start).start;
        let (mut next, mut held) = (run.start, 0);
        self.check.begin(manifest.range(run.start).start);
        while next < run.end {
            if !self.job.wants_any((next..run.end).chain(self.asked_chunks())) {
                return Ok(false); // others were faster: what is on its way is of no use
            }
            let chunk = manifest.range(next);
            let coming = len(end - chunk.start);
            let needed = len(self.check.needs(&chunk, end) - chunk.start);
            let room = needed.max(coming.min(TAKEN_AT_ONCE));
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            let before = held;
            held = self.source.receive(&mut self.buffer[..room], held, needed, self.job.limit())?;
            counter.add((held - before) as u64);
            self.check.feed(chunk.start, &self.buffer[..held], |index, hash| {
                self.job.assembly().has_segment(index, hash);
            });
            let Some(taken) = self.take(next..run.end, held, held == coming)? else { return Ok(false) };
            next = taken.end;
            let used = taken.map(|index| manifest.chunks()[index].len as usize).sum();
            self.buffer.copy_within(used..held, 0);
            held -= used;
        }
        self.job.measured(self.id, bytes, began.elapsed());
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
        let manifest = self.job.assembly().manifest();
        let offset = manifest.range(chunks.start).start;
        let (mut good, mut corrupt) = (chunks.start..chunks.start, false);
        for index in chunks {
            let range = manifest.range(index);
            if range.end > offset + held as u64 {
                break;
            }
            if !self.check.has_verified(&range) {
                if !last && self.check.may_yet_verify(&range) {
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
            let is_wanted = self.job.wants(at);
            let same = |index: &usize| self.job.wants(*index) == is_wanted;
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
        let (job, id) = (self.job, self.id);
        let manifest = job.assembly().manifest();
        let range = manifest.range(chunks.start).start..manifest.range(chunks.end - 1).end;
        job.moved(range.end - range.start);
        let bytes = &self.buffer[len(range.start - offset)..len(range.end - offset)];
        let took = |index| job.had(index, Some(id));
        let written = if self.check.is_used() {
            job.assembly().put(chunks.start, bytes, || {}, took)
        } else {
            job.assembly().write(chunks.start, bytes, &mut self.feed, took)
        };
        job.stored(written).is_some()
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
