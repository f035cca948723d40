//! Fetches the manifest of a version from a holder, unless the record implies it, and prefetches bytes of the file from a far one.
//!
//! These are all of a file of at most 1 MiB, or some chunks of a larger one: they come in the manifest's round trip.

use std::{
    collections::{HashSet, VecDeque},
    mem::take,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{ByteRange, Cut, Holder, Manifest, Record, VerifiedRecord, limits::CHUNK_AVERAGE_MIN};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Downloader,
    error::exhausted,
    file::bases::Bases,
    plan::Layout,
    swarm::{
        Begin, ROUND_PAUSE, ROUNDS, SECOND_STREAM_FROM, SILENCE_TOLD,
        busy::Busy,
        named,
        source::{FetchError, Source, UNIT_BYTES},
    },
};
use crate::{
    content::outboard::Segments, failure::Failure, library::Library, peers::held, state::choice::Target,
    storage::partial, util::progress::Progress,
};

/// Sources asked for the manifest at once.
const ASKED_MAX: usize = 3;
/// Bounds of the time that a source has, from the connection on, before the next is asked too.
const ASK_ANOTHER_AFTER_MIN: Duration = Duration::from_millis(10);
const ASK_ANOTHER_AFTER_MAX: Duration = Duration::from_secs(1);
/// Time that a source has to be connected before another is: no bytes are asked for yet.
const CONNECT_ANOTHER_AFTER: Duration = Duration::from_millis(15);
/// Speed of a source that is not asked twice, in bytes of its manifest per second, and their number for each chunk.
const USUAL_SPEED: u64 = 4 * 1024 * 1024;
const CHUNK_ENTRY_BYTES: u64 = 36;
/// Chunks of average length of a larger file that are requested beside its manifest: more than a new connection sends in the round
/// trip until the next request comes.
const CHUNKS_AHEAD: u64 = 4;

impl Downloader {
    /// The manifest of `record`, from the first of `sources` that delivers it, unless the record implies it. While one
    /// takes its time, others are asked too. Sources that are connected are asked first.
    async fn find_manifest(
        &self,
        record: &VerifiedRecord,
        mut begin: Begin,
        prefetch: Prefetch,
    ) -> Result<Layout, Failure> {
        if let Some((manifest, encoded)) = Manifest::implied_by(record) {
            let manifest = Arc::new(manifest);
            return Ok(Layout { manifest, encoded: encoded.into(), outboard: None, begin });
        }
        let (mut last, mut again) = (None, AskedAgain::default());
        let sources = begin.iter_mut().enumerate();
        let mut connected: VecDeque<(usize, Source)> =
            sources.filter_map(|(place, (_, source))| Some((place, source.take()?))).collect();
        let mut ready: HashSet<usize> = connected.iter().map(|(place, _)| *place).collect();
        // To one that was kept, another connection is made where it does not answer in time.
        let kept = connected.iter().filter(|(_, source)| source.is_kept()).map(|(place, _)| *place);
        let mut waiting: VecDeque<usize> =
            (0..begin.len()).filter(|place| !ready.contains(place)).chain(kept).collect();
        let (mut asked, mut is_asked) = (FuturesUnordered::new(), false);
        let mut next_at = Instant::now();
        loop {
            if asked.is_empty() || next_at <= Instant::now() {
                let next = connected.pop_front().map(|(place, source)| (place, Some(source)));
                let next = match next {
                    None if asked.len() < ASKED_MAX => waiting.pop_front().map(|place| (place, None)),
                    next => next,
                };
                next_at = Instant::now() + CONNECT_ANOTHER_AFTER;
                if let Some((place, source)) = next {
                    let holder = begin[place].0;
                    let ahead = source.as_ref().and_then(|at| prefetch.range(record, &holder, at));
                    if let Some(source) = &source {
                        (is_asked, next_at) = (true, Instant::now() + time_for(record, source, ahead));
                    }
                    asked.push(async move { (place, self.step(record, &holder, source, ahead).await) });
                }
            }
            if asked.is_empty() {
                let Some((places, pause)) = again.next() else { return Err(exhausted(record, last)) };
                tokio::time::sleep(pause).await;
                waiting.extend(places);
                continue;
            }
            let is_another = !connected.is_empty() || (!waiting.is_empty() && asked.len() < ASKED_MAX);
            let (place, step) = tokio::select! {
                Some(ended) = asked.next() => ended,
                () = sleep_until(next_at), if is_another => continue,
            };
            match step {
                Ok(ManifestStep::Connected(source)) => {
                    connected.push_back((place, source));
                    if !is_asked {
                        next_at = Instant::now();
                    }
                }
                Ok(ManifestStep::Found(source, (manifest, encoded), outboard)) => {
                    begin[place].1 = source;
                    for (place, source) in connected {
                        begin[place].1 = Some(source);
                    }
                    drop(asked);
                    let (manifest, outboard) = (Arc::new(manifest), outboard.map(Arc::new));
                    return Ok(Layout { manifest, encoded: encoded.into(), outboard, begin });
                }
                // What was ready may have been closed meanwhile.
                Err(FetchError::Stream(_)) if ready.remove(&place) => be_next(&mut waiting, place),
                Err(error) => {
                    again.note(place, &error);
                    last = Some(format!("{}: {error}", named(&begin[place].0)));
                    (is_asked, next_at) = (false, Instant::now());
                }
            }
        }
    }

    /// As [`find_manifest`](Self::find_manifest); if it takes long, the user is told what is waited for.
    pub(super) async fn find_layout(
        &self,
        record: &VerifiedRecord,
        sources: Begin,
        prefetch: Prefetch,
        progress: &Progress,
    ) -> Result<Layout, Failure> {
        let names: Vec<String> = sources.iter().map(|(holder, _)| named(holder)).collect();
        let finding = self.find_manifest(record, sources, prefetch);
        tokio::pin!(finding);
        if let Ok(found) = timeout(SILENCE_TOLD, &mut finding).await {
            return found;
        }
        let text = format!("waiting for the list of chunks of {} from {}", record.name, names.join(" and "));
        progress.waits_for(Some(text));
        let found = finding.await;
        progress.waits_for(None);
        found
    }

    /// Connects a second time to the only source of a large file: bytes come over it before it is known which chunks they are.
    pub(super) fn connect_second(&self, target: &Target) -> Option<JoinHandle<Option<(Holder, Source)>>> {
        let (record, &[holder]) = (target.record.clone(), &target.sources[..]) else { return None };
        if record.size < SECOND_STREAM_FROM {
            return None;
        }
        let (endpoint, library) = (Arc::clone(&self.endpoint), Arc::clone(&self.library));
        Some(tokio::spawn(async move {
            let mut source = Source::connect(&endpoint, &holder).await.ok()?;
            let ask = move |library: &Arc<Library>| {
                let ahead = Prefetch::Bytes.range(&record, &holder, &source);
                prefetch(library, &mut source, &record, ahead).map(|()| source)
            };
            Some((holder, library.blocking(ask).await.ok()?))
        }))
    }

    /// Connects to `holder`, or asks the `source` that is connected for the manifest, and for the bytes in `ahead`.
    async fn step(
        &self,
        record: &VerifiedRecord,
        holder: &Holder,
        source: Option<Source>,
        ahead: Option<ByteRange>,
    ) -> Result<ManifestStep, FetchError> {
        let Some(source) = source else {
            return Source::connect(&self.endpoint, holder).await.map(ManifestStep::Connected);
        };
        let (guard, wanted) = (source.hang_up().on_drop(), record.clone());
        let is_origin = holder.node == record.origin;
        let ask = move |library: &Arc<Library>| {
            let mut source = source;
            source.ask_layout(&wanted)?;
            prefetch(library, &mut source, &wanted, ahead)?;
            if is_origin && source.is_unlisted() && source.has_prefetched(wanted.size) {
                source.ask_verdict(held(&wanted))?;
            }
            manifest_of(source, &wanted)
        };
        let found = self.library.blocking(ask).await;
        guard.disarm();
        found
    }
}

/// Places of sources that failed and may deliver later.
#[derive(Debug, Default)]
struct AskedAgain {
    busy: Busy,
    refused: Vec<usize>,
    lost: Vec<usize>,
    rounds: u32,
}

impl AskedAgain {
    fn note(&mut self, place: usize, error: &FetchError) {
        self.refused.extend(error.is_busy().then_some(place));
        self.lost.extend(error.is_of_link().then_some(place));
    }

    /// Those that are asked next, and after which pause.
    fn next(&mut self) -> Option<(Vec<usize>, Duration)> {
        if !self.refused.is_empty() && !self.busy.is_over() {
            return Some((take(&mut self.refused), self.busy.pause()));
        }
        self.rounds += 1;
        let is_next = self.rounds < ROUNDS && !self.lost.is_empty();
        is_next.then(|| (take(&mut self.lost), ROUND_PAUSE))
    }
}

fn be_next(waiting: &mut VecDeque<usize>, place: usize) {
    waiting.retain(|waiting| *waiting != place);
    waiting.push_front(place);
}

/// What is requested of a holder beside the manifest, before that says which chunks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefetch {
    Bytes,
    Nothing,
}

impl Prefetch {
    /// The bytes for which it saves a round trip that is worth them: all, or a part of a file that many may begin to download now,
    /// each with another one.
    fn range(self, record: &Record, holder: &Holder, source: &Source) -> Option<ByteRange> {
        let is_of_use = self == Self::Bytes && source.is_far() && !holder.partial;
        if is_of_use { bytes_ahead(record.size) } else { None }
    }
}

/// Requests the bytes in `range`, unless they are here, or most of them.
fn prefetch(
    library: &Library,
    source: &mut Source,
    record: &Record,
    range: Option<ByteRange>,
) -> Result<(), FetchError> {
    let catalogue = &library.catalogue;
    let Some(range) = range.filter(|_| catalogue.with_content(&record.content).is_empty()) else {
        return Ok(());
    };
    let bases = Bases::find(catalogue, record).contents();
    // Of a large file with an earlier version here, or that was begun, many chunks are.
    let are_many_here = || !bases.is_empty() || partial::is_begun(&library.data_dir, &record.name);
    if range.len < record.size && are_many_here() {
        return Ok(());
    }
    source.prefetch(record, range, bases)
}

/// All bytes of a file of so many, or a few chunks anywhere in it; `None` if too few fit into a unit.
fn bytes_ahead(size: u64) -> Option<ByteRange> {
    if size <= UNIT_BYTES {
        return Some(ByteRange { offset: 0, len: size });
    }
    let len = CHUNKS_AHEAD * u64::from(Cut::for_size(size).average);
    (len <= UNIT_BYTES).then(|| ByteRange { offset: rand::random_range(0..=size - len), len })
}

enum ManifestStep {
    Connected(Source),
    /// The source if its stream is still usable, the manifest and its bytes, and the outboard if it has that.
    Found(Option<Source>, (Manifest, Vec<u8>), Option<Segments>),
}

/// How long the manifest of `record` takes to come from an honest source, with the bytes in `ahead`.
fn time_for(record: &Record, source: &Source, ahead: Option<ByteRange>) -> Duration {
    let bytes = record.size / CHUNK_AVERAGE_MIN * CHUNK_ENTRY_BYTES + ahead.map_or(0, |range| range.len);
    let takes = source.round_trips() + Duration::from_micros(bytes * 1_000_000 / USUAL_SPEED);
    takes.clamp(ASK_ANOTHER_AFTER_MIN, ASK_ANOTHER_AFTER_MAX)
}

/// The manifest and the outboard that `source` was asked for, and the source if its stream is still usable.
fn manifest_of(mut source: Source, record: &VerifiedRecord) -> Result<ManifestStep, FetchError> {
    let manifest = source.manifest(record)?;
    Ok(match source.outboard(record) {
        Ok(outboard) => ManifestStep::Found(Some(source), manifest, outboard),
        Err(_) => ManifestStep::Found(None, manifest, None), // reconnected when chunks are fetched
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_requested_ahead_lies_in_the_file_and_is_no_more_than_a_unit() {
        for size in [1, UNIT_BYTES, UNIT_BYTES + 1, 3 * UNIT_BYTES, 1 << 30, 1 << 32] {
            for _ in 0..100 {
                let ByteRange { offset, len } = bytes_ahead(size).unwrap();
                assert!(
                    offset + len <= size && (1..=UNIT_BYTES).contains(&len),
                    "{offset} + {len} of {size}"
                );
            }
        }
        assert_eq!(bytes_ahead(UNIT_BYTES).unwrap().len, UNIT_BYTES);
        assert_eq!(bytes_ahead(1 << 40), None, "a unit has no whole chunk");
    }
}
