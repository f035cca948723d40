//! [`Pace`]: a scan that would not end in its time is narrowed to the first names, so that none is missing among them.

use nekoproto::{FileName, NodeId, Position};

/// All of the time of a scan, or of its way. Parts of it are in thousandths.
pub const WHOLE: u32 = 1000;
/// The part of its time that a scan has spent before it is narrowed.
const UNHURRIED: u32 = WHOLE / 4;
/// The part between two narrowings, in which the first shows its effect.
const STEP: u32 = WHOLE / 32;
/// Names of which the middle one becomes the end. Of more, every second is dropped.
const SAMPLES_MAX: usize = 64;

/// How far a scan gets in its time.
#[derive(Debug, Default)]
pub(in crate::state) struct Pace {
    /// Names are looked at before this one only.
    end: Option<Box<[u8]>>,
    samples: Vec<Box<[u8]>>,
    /// One of so many names that come is a sample.
    every: usize,
    seen: usize,
    /// What is spent when it may be narrowed next.
    next: u32,
}

impl Pace {
    /// Whether this name is before the end.
    pub(in crate::state) fn takes(&self, name: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| name < end)
    }

    /// Takes note of one of the names that are compared, and is narrowed to half of them if the scan has `spent` more of
    /// its time than of its way, where `done` is how much of how much.
    pub(in crate::state) fn keep(&mut self, name: &[u8], spent: u32, (done, all): (usize, usize)) {
        self.seen += 1;
        if self.seen >= self.every {
            self.seen = 0;
            self.samples.push(name.into());
        }
        if self.samples.len() > SAMPLES_MAX {
            let mut keeps = false;
            self.samples.retain(|_| {
                keeps = !keeps;
                keeps
            });
            self.every = 2 * self.every.max(1);
        }
        let done = u32::try_from(done.saturating_mul(WHOLE as usize) / all.max(1)).unwrap_or(WHOLE);
        if spent < self.next || spent <= UNHURRIED + done / 2 {
            return;
        }
        self.samples.sort_unstable();
        self.samples.truncate(self.samples.len() / 2 + 1);
        self.end = self.samples.pop().or_else(|| self.end.take());
        self.next = spent + STEP;
    }

    /// Where a scan goes on that found all names before the end.
    pub(in crate::state) fn next(&self) -> Option<Position> {
        let name = FileName::new(str::from_utf8(self.end.as_deref()?).ok()?).ok()?;
        Some(Position { name, origin: NodeId::from_bytes([0; 32]) })
    }
}
