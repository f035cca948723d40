//! Fetches the manifest of a version from a holder, unless the record implies it; in the same round trip all of a file of at most
//! 1 MiB, if the holder is far.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{Holder, Manifest, Record, VerifiedRecord, limits::CHUNK_AVERAGE_MIN};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Downloader,
    error::exhausted,
    file::bases::Bases,
    plan::Layout,
    swarm::{
        Begin, SILENCE_TOLD,
        busy::Busy,
        named,
        source::{FetchError, Source, UNIT_BYTES},
    },
};
use crate::{
    content::outboard::Segments, failure::Failure, library::Library, peers::held, util::progress::Progress,
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
        let (mut last, mut busy) = (None, Busy::default());
        let sources = begin.iter_mut().enumerate();
        let mut connected: VecDeque<(usize, Source)> =
            sources.filter_map(|(place, (_, source))| Some((place, source.take()?))).collect();
        let mut ready: HashSet<usize> = connected.iter().map(|(place, _)| *place).collect();
        // To one that was kept, another connection is made where it does not answer in time.
        let kept = connected.iter().filter(|(_, source)| source.is_kept()).map(|(place, _)| *place);
        let mut waiting: VecDeque<usize> =
            (0..begin.len()).filter(|place| !ready.contains(place)).chain(kept).collect();
        let (mut asked, mut is_asked) = (FuturesUnordered::new(), false);
        let (mut refused, mut next_at) = (Vec::new(), Instant::now());
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
                    let with_file = source.as_ref().is_some_and(|at| prefetch.is_of_use(record, &holder, at));
                    if let Some(source) = &source {
                        (is_asked, next_at) = (true, Instant::now() + time_for(record, source, with_file));
                    }
                    asked.push(async move { (place, self.step(record, &holder, source, with_file).await) });
                }
            }
            if asked.is_empty() {
                if refused.is_empty() || busy.is_over() {
                    return Err(exhausted(record, last));
                }
                tokio::time::sleep(busy.pause()).await;
                waiting.extend(refused.drain(..));
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
                    refused.extend(error.is_busy().then_some(place));
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

    /// Connects to `holder`, or asks the `source` that is connected for the manifest; `with_file` for all of the file too.
    async fn step(
        &self,
        record: &VerifiedRecord,
        holder: &Holder,
        source: Option<Source>,
        with_file: bool,
    ) -> Result<ManifestStep, FetchError> {
        let Some(source) = source else {
            return Source::connect(&self.endpoint, holder).await.map(ManifestStep::Connected);
        };
        let (guard, wanted) = (source.hang_up().on_drop(), record.clone());
        let is_origin = holder.node == record.origin;
        let ask = move |library: &Arc<Library>| {
            let mut source = source;
            source.ask_layout(&wanted)?;
            // Unless its bytes are here.
            if with_file && library.catalogue.with_content(&wanted.content).is_empty() {
                source.prefetch(&wanted, Bases::find(&library.catalogue, &wanted).contents())?;
                if is_origin && !library.is_listed() {
                    source.ask_verdict(held(&wanted))?;
                }
            }
            manifest_of(source, &wanted)
        };
        let found = self.library.blocking(ask).await;
        guard.disarm();
        found
    }
}

fn be_next(waiting: &mut VecDeque<usize>, place: usize) {
    waiting.retain(|waiting| *waiting != place);
    waiting.push_front(place);
}

/// What is requested of a holder beside the manifest, before that says which chunks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefetch {
    WholeFile,
    Nothing,
}

impl Prefetch {
    /// Whether it saves a round trip that is worth the bytes.
    fn is_of_use(self, record: &Record, holder: &Holder, source: &Source) -> bool {
        self == Self::WholeFile && record.size <= UNIT_BYTES && source.is_far() && !holder.partial
    }
}

enum ManifestStep {
    Connected(Source),
    /// The source if its stream is still usable, the manifest and its bytes, and the outboard if it has that.
    Found(Option<Source>, (Manifest, Vec<u8>), Option<Segments>),
}

/// How long the manifest of `record` takes to come from an honest source.
fn time_for(record: &Record, source: &Source, with_file: bool) -> Duration {
    let file = if with_file { record.size } else { 0 };
    let bytes = record.size / CHUNK_AVERAGE_MIN * CHUNK_ENTRY_BYTES + file;
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
