//! Reads a file from an offset through a small buffer, and cuts one chunk after the other.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use fastcdc::v2020::{self, Normalization};
use nekoproto::Cut;

use super::Halt;

/// Bytes per read: small enough to be hashed while still in the processor's cache.
const READ_BYTES: usize = 512 * 1024;

/// Bytes that several threads can read at any offset.
pub(super) trait ReadAt: Sync {
    /// Reads into `buffer` from `offset`; returns the number of bytes, 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cutter {
    min: usize,
    average: usize,
    max: usize,
    /// Cut masks before and after the average length.
    masks: (u64, u64),
}

impl Cutter {
    pub(super) fn new(cut: Cut) -> Self {
        let average = cut.average as usize;
        let masks = v2020::select_masks(average, Normalization::Level1);
        Self { min: cut.min as usize, average, max: cut.max as usize, masks }
    }

    /// Bytes per read: more for long chunks, so that moving the rest of the buffer costs less than reading.
    const fn step(&self) -> usize {
        if self.max / 2 > READ_BYTES { self.max / 2 } else { READ_BYTES }
    }

    /// Buffer size with which a file of any size can be cut, in bytes.
    pub(super) const fn buffer_bytes(&self) -> usize {
        self.max + self.step()
    }

    /// Length of the chunk at the beginning of `bytes`. `bytes` must have the maximum chunk length, or end
    /// with the file.
    fn len(&self, bytes: &[u8]) -> usize {
        let (strict, lax) = self.masks;
        v2020::cut(bytes, self.min, self.average, self.max, strict, lax, strict << 1, lax << 1).1
    }
}

/// A window onto a file.
///
/// Invariant: `buffer[held]` are the bytes of the file starting at `at`.
pub(super) struct Window<'a, S> {
    source: &'a S,
    cutter: Cutter,
    buffer: &'a mut Vec<u8>,
    held: Range<usize>,
    at: u64,
    /// End of reading: one maximum chunk length past the last chunk start, or the end of the file.
    limit: u64,
}

impl<'a, S: ReadAt> Window<'a, S> {
    /// A window for the chunks of `source`, a file of `size` bytes, that begin in `range`.
    pub(super) fn new(
        source: &'a S,
        size: u64,
        cutter: Cutter,
        range: Range<u64>,
        buffer: &'a mut Vec<u8>,
    ) -> Self {
        let limit = range.end.saturating_add(cutter.max as u64).min(size);
        let all = usize::try_from(limit.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let wanted = all.min(cutter.buffer_bytes());
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        Self { source, cutter, buffer, held: 0..0, at: range.start, limit }
    }

    /// Offset of the next chunk.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// The next chunk. `fresh` gets every byte that has to be read for it, once and in order.
    pub(super) fn next(&mut self, mut fresh: impl FnMut(&[u8]) -> Result<(), Halt>) -> Result<&[u8], Halt> {
        let wanted = self.cutter.max.min(usize::try_from(self.limit - self.at).unwrap_or(usize::MAX));
        if self.held.len() < wanted {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
            while self.held.len() < wanted {
                fresh(self.read()?)?;
            }
        }
        let start = self.held.start;
        let len = self.cutter.len(&self.buffer[self.held.clone()]);
        self.held.start += len;
        self.at += len as u64;
        Ok(&self.buffer[start..start + len])
    }

    fn read(&mut self) -> Result<&[u8], Halt> {
        let begin = self.held.end;
        let offset = self.at + self.held.len() as u64;
        let left = usize::try_from(self.limit - offset).unwrap_or(usize::MAX);
        let end = self.buffer.len().min(begin + left.min(self.cutter.step()));
        loop {
            match self.source.read_at(&mut self.buffer[begin..end], offset) {
                Ok(0) => return Err(Halt::Changed),
                Ok(read) => {
                    self.held.end += read;
                    return Ok(&self.buffer[begin..begin + read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Halt::Unreadable(error)),
            }
        }
    }
}
