//! [`Outgoing`]: frames to be sent.

/// Bytes of capacity that an empty buffer may keep.
const IDLE_BYTES_MAX: usize = 1024;
/// Sent bytes in front of others that are kept, so that the others are not moved for each write.
const SENT_BYTES_KEPT: usize = 64 * 1024;

/// Frames to be sent; part of the first may have been sent.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes.
    pub(super) const fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where further frames are appended.
    pub(super) const fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn append(&mut self, frames: &mut Vec<u8>) {
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
            std::mem::swap(&mut self.bytes, frames);
        } else {
            self.bytes.append(frames);
            frames.shrink_to(IDLE_BYTES_MAX);
        }
    }

    /// `count` further bytes are sent. Memory is given back when none are left.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > IDLE_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else if self.sent > SENT_BYTES_KEPT && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_and_memory_comes_back() {
        let (mut out, mut expected, mut sent) = (Outgoing::default(), Vec::new(), Vec::new());
        for n in 0..2000_u32 {
            let mut frame = vec![n.to_le_bytes()[0]; 1000];
            expected.extend_from_slice(&frame);
            if n % 3 == 0 {
                out.append(&mut frame)
            } else {
                out.end().extend_from_slice(&frame)
            }
            let count = out.len().min(if n % 100 < 60 { 300 } else { 2500 });
            sent.extend_from_slice(&out.unsent()[..count]);
            out.advance(count);
        }
        assert!(out.room() < 4 * out.len() + 4 * SENT_BYTES_KEPT, "{} for {}", out.room(), out.len());
        sent.extend_from_slice(out.unsent());
        out.advance(out.len());
        assert!(sent == expected && out.room() <= IDLE_BYTES_MAX);
    }
}
