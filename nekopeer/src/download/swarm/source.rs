//! The client side of the data stream: manifests and verified chunks from one source. Everything here
//! blocks, except connecting.

mod error;
mod verdict;

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    ByteRange, ContentHash, DataReply, DataRequest, Grant, Held, Holder, List, Manifest, Portion, Purpose,
    Record, Verdict,
    limits::{BASES_MAX, MANIFEST_BYTES_MAX, PACKING_BYTES_MAX, STALL_TIMEOUT, UNPACKED_BYTES_MAX},
    transport::{DataError, DataStream, Endpoint, HangUp, encoded},
};

pub(crate) use self::error::FetchError;
use crate::{
    content::{
        bitfield,
        outboard::{SegmentHash, Segments},
    },
    state::{pace::Pace, schedule::Availability},
    util::{rate::Rate, tasks::finished},
};

/// Bytes of one packed run, unless it is a longer chunk: longer ones save nothing more.
pub(crate) const UNIT_BYTES: u64 = 1024 * 1024;
const _: () = assert!(UNIT_BYTES <= UNPACKED_BYTES_MAX);
/// A source on another machine that took so long to connect is not in this network.
const FAR_FROM: Duration = Duration::from_millis(10);

/// Bytes that were requested packed, ahead of the list of chunks, for a reader of these bases: the reply is still to come.
#[derive(Debug)]
pub(crate) struct PrefetchedRange {
    pub(crate) range: ByteRange,
    pub(crate) bases: List<ContentHash, BASES_MAX>,
}

/// A data stream to one holder.
#[derive(Debug)]
pub(crate) struct Source {
    stream: DataStream,
    pace: Pace,
    round_trips: Duration,
    is_far: bool,
    /// It was not told where this node listens, and takes it for no holder and no subscriber.
    is_unlisted: bool,
    prefetched: Option<PrefetchedRange>,
    /// Which part of the file it is to be asked for first, as it said last.
    portion: Option<Portion>,
    /// What the origin was asked about last, when, and what it said.
    asked: Option<(Held, Instant)>,
    verdict: Option<Verdict>,
    /// Whether it was open before this download: the other end, or the way to it, may be gone without a word.
    is_kept: bool,
}

impl Source {
    /// Connects to `holder` and verifies its id.
    ///
    /// # Cancel safety
    /// Safe. The handshake goes on to its end: one that is cut off counts as one in which nobody proved the key, and
    /// its address would be left alone for a while because another source was faster.
    pub(crate) async fn connect(endpoint: &Arc<Endpoint>, holder: &Holder) -> Result<Self, FetchError> {
        let (dialer, Holder { addr, node, .. }) = (Arc::clone(endpoint), *holder);
        let began = Instant::now();
        let dialing = async move { dialer.dial_node(addr, Purpose::Data, node).await };
        let connection = finished(tokio::spawn(dialing)).await?;
        let is_unlisted = !endpoint.listens(); // nor did it before
        let stream = DataStream::new(connection.io).map_err(DataError::from)?;
        let (pace, round_trips) = (Pace::default(), began.elapsed());
        let is_far = !addr.ip().is_loopback() && round_trips >= FAR_FROM;
        Ok(Self {
            stream,
            pace,
            round_trips,
            is_far,
            is_unlisted,
            prefetched: None,
            portion: None,
            asked: None,
            verdict: None,
            is_kept: false,
        })
    }

    /// How long it took to connect: a few round trips.
    pub(crate) const fn round_trips(&self) -> Duration {
        self.round_trips
    }

    /// Whether it is on another machine, and no connection to it is fast at first.
    pub(crate) const fn is_far(&self) -> bool {
        self.is_far
    }

    pub(crate) const fn is_unlisted(&self) -> bool {
        self.is_unlisted
    }

    /// The same, for a later download.
    pub(crate) fn kept(self) -> Self {
        Self { pace: Pace::default(), portion: None, asked: None, verdict: None, is_kept: true, ..self }
    }

    pub(crate) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// A handle that closes this stream from another thread.
    pub(crate) fn hang_up(&self) -> HangUp {
        self.stream.hang_up()
    }

    /// Requests the manifest of `record` and the outboard; [`manifest`](Self::manifest) receives the one, and then
    /// [`outboard`](Self::outboard) the other.
    pub(crate) fn ask_layout(&mut self, record: &Record) -> Result<(), FetchError> {
        self.stream.send(&DataRequest::Manifest(record.manifest))?;
        Ok(self.stream.send(&DataRequest::Outboard(record.manifest))?)
    }

    /// Requests a part of the file packed, behind its layout, for a reader that has `bases`: the reply comes as that to
    /// [`ask_packed`](Self::ask_packed) for a run does.
    pub(crate) fn prefetch(
        &mut self,
        record: &Record,
        range: ByteRange,
        bases: List<ContentHash, BASES_MAX>,
    ) -> Result<(), FetchError> {
        self.prefetched = Some(PrefetchedRange { range, bases: bases.clone() });
        self.ask_packed(record, range, bases)
    }

    /// Whether so many bytes were [requested ahead](Self::prefetch).
    pub(crate) fn has_prefetched(&self, bytes: u64) -> bool {
        self.prefetched.as_ref().is_some_and(|ahead| ahead.range.len == bytes)
    }

    /// What was [requested ahead](Self::prefetch), if its reply is the next that comes.
    pub(crate) const fn take_prefetched(&mut self) -> Option<PrefetchedRange> {
        self.prefetched.take()
    }

    /// Receives the manifest of `record`, verified, with its encoded form.
    pub(crate) fn manifest(&mut self, record: &Record) -> Result<(Manifest, Vec<u8>), FetchError> {
        let bytes = self.body(MANIFEST_BYTES_MAX)?;
        let manifest = Manifest::decode_for(record, &bytes)?;
        Ok((manifest, bytes))
    }

    /// Receives it, verified against the content hash. `None` if the source does not have it or sent a wrong one.
    pub(crate) fn outboard(&mut self, record: &Record) -> Result<Option<Segments>, FetchError> {
        let max = Segments::new(record.size).len() * size_of::<SegmentHash>();
        match self.body(max as u64) {
            Ok(bytes) => Ok(Segments::from_outboard(&bytes, record.size, &record.content)),
            Err(FetchError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests the chunks `run` of `manifest`. Replies come in the order of the requests: one
    /// [`grant`](Self::grant), then each [`chunk`](Self::chunk).
    pub(crate) fn ask(
        &mut self,
        record: &Record,
        manifest: &Manifest,
        run: &Range<usize>,
    ) -> Result<(), FetchError> {
        let range = bytes_of(manifest, run);
        let ranges = List::first_of([range]);
        Ok(self.stream.send(&DataRequest::Get { content: record.content, ranges })?)
    }

    /// Receives the grant for the oldest outstanding request.
    pub(crate) fn grant(&mut self, manifest: &Manifest, run: &Range<usize>) -> Result<(), FetchError> {
        let asked = bytes_of(manifest, run).len;
        let grant = self.reply()?;
        if grant.len == asked { Ok(()) } else { Err(FetchError::WrongLength { offered: grant.len, asked }) }
    }

    /// Requests the bytes in `range` packed, for a reader that has `bases`: [`packed`](Self::packed) receives the grant, and then
    /// [`receive`](Self::receive) the bytes.
    pub(crate) fn ask_packed(
        &mut self,
        record: &Record,
        range: ByteRange,
        bases: List<ContentHash, BASES_MAX>,
    ) -> Result<(), FetchError> {
        Ok(self.stream.send(&DataRequest::Packed { content: record.content, range, bases })?)
    }

    /// Receives the grant for the oldest outstanding request, which was one for so many bytes, packed. Returns how many follow.
    pub(crate) fn packed(&mut self, bytes: u64) -> Result<usize, FetchError> {
        let asked = bytes + PACKING_BYTES_MAX;
        let grant = self.reply()?;
        let len = usize::try_from(grant.len).ok().filter(|_| grant.len <= asked);
        len.ok_or(FetchError::WrongLength { offered: grant.len, asked })
    }

    /// Which part of the file it is to be asked for first, if it said so since this was called last.
    pub(crate) const fn take_portion(&mut self) -> Option<Portion> {
        self.portion.take()
    }

    /// Receives granted bytes into `buffer`, after the `held` bytes already in it, as fast as `limit` allows:
    /// until it holds at least `needed` bytes, and more if they have arrived. Returns the bytes held. `came` gets the
    /// number of bytes of each piece, and whether the source has kept the least speed for some time.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        mut held: usize,
        needed: usize,
        limit: &Rate,
        came: impl Fn(u64, bool),
    ) -> Result<usize, FetchError> {
        while held < needed {
            let room = buffer.len() - held;
            let piece = limit.piece().map_or(room, |piece| room.min(usize::try_from(piece).unwrap_or(room)));
            let received = self.receive_some(&mut buffer[held..held + piece], &came)?;
            if limit.wait_for(received as u64) {
                came(0, true); // the own limit makes it slow
            }
            held += received;
        }
        while limit.piece().is_none() && held < buffer.len() {
            match self.stream.receive_ready(&mut buffer[held..])? {
                0 => break,
                received => {
                    came(received as u64, false);
                    held += received;
                }
            }
        }
        Ok(held)
    }

    /// Requests all of each of some small files, in one write; [`whole`](Self::whole) receives them in this order.
    pub(crate) fn ask_whole(&mut self, files: &[(ContentHash, u64)]) -> Result<(), FetchError> {
        let mut requests = Vec::new();
        for &(content, len) in files.iter().filter(|(_, len)| *len > 0) {
            let ranges = List::first_of([ByteRange { offset: 0, len }]);
            requests.append(&mut encoded(&DataRequest::Get { content, ranges }, 0)?);
        }
        Ok(self.stream.send_bytes(&requests)?)
    }

    /// Receives the next small file requested, verified, as fast as `limit` allows.
    pub(crate) fn whole(
        &mut self,
        content: ContentHash,
        size: u64,
        limit: &Rate,
    ) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        if size > 0 {
            let grant = self.reply()?;
            let len = usize::try_from(size).ok().filter(|_| grant.len == size);
            bytes.resize(len.ok_or(FetchError::WrongLength { offered: grant.len, asked: size })?, 0);
            limit.wait_for(size);
            self.fill(&mut bytes)?;
        }
        let is_it = blake3::hash(&bytes).as_bytes() == content.as_bytes();
        if is_it { Ok(bytes) } else { Err(FetchError::Corrupt) }
    }

    /// Requests the source's bit field; [`have`](Self::have) receives it in the order of the requests.
    pub(crate) fn ask_have(&mut self, record: &Record) -> Result<(), FetchError> {
        Ok(self.stream.send(&DataRequest::Have(record.content))?)
    }

    pub(crate) fn have(&mut self, chunks: usize) -> Result<Availability, FetchError> {
        let asked = chunks.div_ceil(8) as u64;
        let bytes = self.body(asked)?;
        if bytes.is_empty() {
            return Ok(Availability::All);
        }
        let wrong = FetchError::WrongLength { offered: bytes.len() as u64, asked };
        bitfield::from_bytes(&bytes, chunks).map(Availability::Some).ok_or(wrong)
    }

    /// Receives a reply and all of its bytes, at most `max`.
    fn body(&mut self, max: u64) -> Result<Vec<u8>, FetchError> {
        let grant = self.reply()?;
        let len = usize::try_from(grant.len).ok().filter(|_| grant.len <= max);
        let mut bytes = vec![0; len.ok_or(FetchError::WrongLength { offered: grant.len, asked: max })?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FetchError> {
        let mut filled = 0;
        while filled < bytes.len() {
            filled += self.receive_some(&mut bytes[filled..], &|_, _| {})?;
        }
        Ok(())
    }

    /// Receives some bytes, unless the source is too slow.
    fn receive_some(&mut self, buffer: &mut [u8], came: &impl Fn(u64, bool)) -> Result<usize, FetchError> {
        let began = Instant::now();
        self.stream.end_at(Some(began + self.pace.patience()));
        let received = match self.stream.receive_some(buffer) {
            // The end of the window, unless the stream itself gave up before.
            Err(DataError::Stalled) if began.elapsed() >= self.pace.patience() => 0,
            received => received?,
        };
        let kept_pace = self.pace.came(received as u64, began.elapsed());
        if kept_pace == Some(false) {
            return Err(FetchError::TooSlow);
        }
        came(received as u64, kept_pace == Some(true));
        if received == 0 { self.receive_some(buffer, came) } else { Ok(received) }
    }

    fn reply(&mut self) -> Result<Grant, FetchError> {
        self.stream.end_at(None);
        let reply: DataReply = self.stream.receive(STALL_TIMEOUT)?;
        let grant = reply?;
        self.portion = grant.portion.or(self.portion);
        Ok(grant)
    }
}

pub(super) fn bytes_of(manifest: &Manifest, run: &Range<usize>) -> ByteRange {
    let offset = manifest.range(run.start).start;
    ByteRange { offset, len: manifest.range(run.end - 1).end - offset }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Role, tasks::spawn_until, transport::Security};
    use testkit::peer::endpoint;
    use tokio::time::timeout;
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::*;

    /// Whenever another source is faster.
    #[tokio::test]
    async fn holder_whose_connections_were_not_waited_for_is_not_left_alone() {
        let [reader, holder] = [1, 2].map(|seed| endpoint(seed, Role::Peer, Security::Tls));
        let listener = holder.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let at = Holder::new(holder.node(), listener.local_addr());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let _stop = stop.clone().drop_guard();
        for _ in 0..3 {
            assert!(timeout(Duration::ZERO, Source::connect(&reader, &at)).await.is_err());
        }
        let serve = |_| std::future::pending();
        spawn_until(&tasks, &stop, listener.run(stop.clone(), tasks.clone(), serve));
        Source::connect(&reader, &at).await.unwrap();
    }
}
