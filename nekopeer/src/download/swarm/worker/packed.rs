//! Decides which runs are requested compressed, and decompresses, verifies and writes those that come.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use nekoproto::{ByteRange, Manifest, Packing};

use super::{Requested, StreamWorker, len};
use crate::{
    content::packed::unpack,
    download::{
        file::bases::{BaseError, Bases},
        swarm::{
            source::{FetchError, PrefetchedRange, UNIT_BYTES, bytes_of},
            transfer::WireRatio,
        },
    },
};

/// Shorter runs are asked for as they are: there is little to save.
const PACKED_FROM: u64 = 4 * 1024;
/// Slower than this, in bytes a second, a run that can be packed to two thirds comes sooner packed, at 300 MB/s on one core.
const PACKED_BELOW: f64 = 100e6;
/// Leases that are asked for as they are after a run that could not be packed.
const PLAIN_RUNS: u32 = 16;

/// When runs of one connection are asked for packed: always after a version that is here, else where that is faster.
#[derive(Debug, Default)]
pub(super) struct PackingPolicy {
    is_over: bool,
    /// Leases that are asked for as they are.
    plain: u32,
    /// Bytes that came, and how long they took.
    came: u64,
    took: Duration,
}

impl PackingPolicy {
    /// Whether the next lease, of so many bytes from a source that is far or not, is.
    pub(super) fn next(&mut self, bytes: u64, is_far: bool, bases: &Bases) -> bool {
        if self.is_over || bytes < PACKED_FROM {
            return false;
        }
        if !bases.contents().is_empty() {
            return true;
        }
        if self.plain > 0 {
            self.plain -= 1;
            return false;
        }
        let is_slow = !self.took.is_zero() && (self.came as f64) < PACKED_BELOW * self.took.as_secs_f64();
        is_slow || self.took.is_zero() && is_far
    }

    /// Bytes came for a run, as long after those of the one before.
    pub(super) fn came(&mut self, bytes: u64, took: Duration) {
        self.came += bytes;
        self.took += took;
    }
}

impl StreamWorker<'_> {
    pub(super) fn is_packed(&mut self, run: &Range<usize>) -> bool {
        let assembly = &self.transfer.assembly;
        let bytes = assembly.manifest().range(run.end - 1).end - assembly.manifest().range(run.start).start;
        self.packs.next(bytes, self.source.is_far(), assembly.bases())
    }

    /// Leases what is missing of the chunks that were requested ahead, if some were, perhaps with the question behind them whether
    /// this is the newest version. False to end the connection: what is here changed since, and with it the bases that the reply
    /// may name.
    pub(super) fn lease_prefetched(&mut self) -> bool {
        let assembly = &self.transfer.assembly;
        let Some(PrefetchedRange { range, bases }) = self.source.take_prefetched() else { return true };
        let chunks = whole_chunks(assembly.manifest(), range);
        self.transfer.lease(self.id, chunks.clone());
        self.asked.push_back(Requested::Run { chunks, packed: Some(range), is_last: true });
        if self.source.is_asked() {
            self.is_verdict_asked = true;
            self.asked.push_back(Requested::Verdict);
        }
        bases == assembly.bases().contents()
    }

    /// Asks for a lease in parts of [`UNIT_BYTES`].
    pub(super) fn ask_packed(&mut self, run: Range<usize>) -> Result<(), FetchError> {
        let (bases, manifest) =
            (self.transfer.assembly.bases().contents(), self.transfer.assembly.manifest());
        for (chunks, is_last) in units(manifest, run) {
            let range = bytes_of(manifest, &chunks);
            self.source.ask_packed(&self.transfer.record, range, bases.clone())?;
            self.asked.push_back(Requested::Run { chunks, packed: Some(range), is_last });
        }
        Ok(())
    }

    /// Receives the bytes in `range`, unpacks them, and verifies and writes `run`, which they have; false to end the connection. A run
    /// that comes wrong after a base of this reader is left to others and to this source, as it is: the base may be to blame. How
    /// long it took counts from the reply before: a limit makes a short reply wait before its first byte.
    pub(super) fn receive_packed(&mut self, range: ByteRange, run: Range<usize>) -> Result<bool, FetchError> {
        let (began, plain) = (Instant::now(), range.len);
        let bytes = self.source.packed(plain)?;
        self.packed.resize(bytes, 0);
        let (transfer, id, came) = (self.transfer, self.id, WireRatio { bytes: bytes as u64, run: plain });
        let each = |bytes, keeps_pace| transfer.came(id, came.unpacked(bytes), keeps_pace);
        self.source.receive(&mut self.packed, 0, bytes, transfer.limit(), each)?;
        let took = began.elapsed();
        self.packs.came(bytes as u64, took);
        let (packing, packed) = Packing::split(&self.packed).ok_or(FetchError::BadPacking)?;
        let (measured, plain) = (plain, len(plain));
        self.buffer.resize(self.buffer.len().max(plain), 0);
        let unpacked = unpacked(&packing, packed, transfer.assembly.bases(), &mut self.buffer[..plain])?;
        self.came = came;
        if matches!(packing, Packing::Plain) {
            (self.packs.plain, self.came) = (PLAIN_RUNS, WireRatio::PLAIN);
        }
        let taken = match unpacked {
            true if run.is_empty() => return Ok(true),
            true => {
                let manifest = transfer.assembly.manifest();
                let (begin, end) = (manifest.range(run.start).start, manifest.range(run.end - 1).end);
                self.buffer.copy_within(len(begin - range.offset)..len(end - range.offset), 0);
                let held = len(end - begin);
                self.verifier.begin(begin);
                self.verifier.feed(begin, &self.buffer[..held], |index, hash| {
                    transfer.assembly.has_segment(index, hash);
                });
                self.take(run.clone(), held, true)
            }
            false => Err(FetchError::Corrupt),
        };
        match taken {
            Err(FetchError::Corrupt) if matches!(packing, Packing::After { .. }) => {
                transfer.assembly.bases().are_wrong();
                self.packs.is_over = true;
                transfer.refused(id, run);
                Ok(true)
            }
            taken => {
                transfer.measured(id, measured, took); // once its chunks are had: the next one begins
                Ok(taken?.is_some())
            }
        }
    }
}

/// Unpacks into all of `run`; false if the base is not what it should be.
///
/// # Errors
/// The source is to blame.
fn unpacked(packing: &Packing, bytes: &[u8], bases: &Bases, run: &mut [u8]) -> Result<bool, FetchError> {
    let is_done = match packing {
        Packing::Plain if bytes.len() == run.len() => {
            run.copy_from_slice(bytes);
            true
        }
        Packing::Plain => {
            let [offered, asked] = [bytes.len(), run.len()].map(|len| len as u64);
            return Err(FetchError::WrongLength { offered, asked });
        }
        Packing::Frame => unpack(&[], bytes, run),
        Packing::After { base, ranges } => match bases.read(*base, ranges) {
            Ok(prefix) if unpack(&prefix, bytes, run) => true,
            Ok(_) | Err(BaseError::Unreadable) => return Ok(false),
            Err(BaseError::Outside) => false,
        },
    };
    if is_done { Ok(true) } else { Err(FetchError::BadPacking) }
}

/// The chunks of which all bytes are in `range`.
fn whole_chunks(manifest: &Manifest, range: ByteRange) -> Range<usize> {
    let mut chunks = manifest.chunks_in(range.offset..range.offset + range.len);
    while !chunks.is_empty() && manifest.range(chunks.start).start < range.offset {
        chunks.start += 1;
    }
    while !chunks.is_empty() && manifest.range(chunks.end - 1).end > range.offset + range.len {
        chunks.end -= 1;
    }
    chunks
}

/// Splits a lease into parts of at most [`UNIT_BYTES`] or one chunk; the last is marked.
fn units(manifest: &Manifest, run: Range<usize>) -> Vec<(Range<usize>, bool)> {
    let (mut units, mut next) = (Vec::new(), run.start);
    while next < run.end {
        let start = manifest.range(next).start;
        let fits = |index: &usize| manifest.range(*index).end - start <= UNIT_BYTES;
        let end = (next + 1..run.end).take_while(fits).last().map_or(next + 1, |last| last + 1);
        units.push((next..end, end == run.end));
        next = end;
    }
    units
}

#[cfg(test)]
mod tests {
    use nekoproto::{Chunk, ChunkHash};

    use super::*;

    #[test]
    fn a_chunk_that_was_requested_in_part_is_left_out() {
        let chunk = Chunk { len: 10, hash: ChunkHash::from_bytes([0; 32]) };
        let manifest = Manifest::new(vec![chunk; 4]).unwrap();
        let whole = |offset, len| whole_chunks(&manifest, ByteRange { offset, len });
        assert_eq!([whole(0, 40), whole(0, 10), whole(10, 20)], [0..4, 0..1, 1..3]);
        assert_eq!([whole(1, 39), whole(0, 39), whole(5, 30)], [1..4, 0..3, 1..3]);
        assert!([whole(5, 10), whole(11, 3), whole(1, 9)].iter().all(Range::is_empty));
    }
}
