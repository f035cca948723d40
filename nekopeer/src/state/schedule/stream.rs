//! One connection to a source: what it was asked for, and how fast it delivers.

use std::{collections::VecDeque, time::Duration};

use nekoproto::{NodeId, Portion};

pub(crate) type SourceId = NodeId;

/// Bounds of the time that a source is given before what it sends is judged; between them it is as long as it took to
/// connect, some three round trips, and twice that once it has sent what fits into the first of them.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
const PATIENCE_MAX: Duration = Duration::from_millis(250);
const FIRST_ROUND_BYTES: u64 = 8 * 1024;
/// A stream with leases that delivers no chunk for this time counts as stalled.
pub(super) const STANDS_STILL_AFTER: Duration = Duration::from_secs(1);
/// Weight of a new measurement in the average speed of a stream.
const NEW_SPEED_WEIGHT: f64 = 0.5;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) source: SourceId,
    /// The chunks leased to it, in the order of the requests.
    pub(super) leased: VecDeque<usize>,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Bytes per second.
    pub(super) speed: Option<f64>,
    /// Bytes of the longest request that it delivered.
    pub(super) longest: u64,
    pub(super) moved_at: Duration,
    /// How long it took to connect: some round trips.
    pub(super) round_trips: Duration,
    /// Since when its oldest request is waited for, the bytes that have come since, and those of them in chunks had.
    asked_at: Duration,
    pub(super) came: u64,
    pub(super) kept: u64,
    /// What its source is to be asked for first.
    pub(super) portion: Portion,
}

impl Stream {
    pub(super) fn new(source: SourceId, round_trips: Duration, now: Duration) -> Self {
        let (leased, moved_at, asked_at) = (VecDeque::new(), now, now);
        Self {
            source,
            leased,
            bytes: 0,
            speed: None,
            longest: 0,
            moved_at,
            round_trips,
            asked_at,
            came: 0,
            kept: 0,
            portion: Portion::WHOLE,
        }
    }

    /// It delivered one request of so many bytes within `seconds`.
    pub(super) fn measured(&mut self, bytes: u64, seconds: f64, now: Duration) {
        self.asked(now);
        self.longest = self.longest.max(bytes);
        let speed = bytes as f64 / seconds.max(1e-6);
        let mixed = |before: f64| before + (speed - before) * NEW_SPEED_WEIGHT;
        self.speed = Some(self.speed.map_or(speed, mixed));
    }

    /// Its oldest request is waited for from `now` on.
    pub(super) const fn asked(&mut self, now: Duration) {
        (self.asked_at, self.came, self.kept) = (now, 0, 0);
    }

    pub(super) fn is_stalled(&self, now: Duration) -> bool {
        !self.leased.is_empty() && now.saturating_sub(self.moved_at) > STANDS_STILL_AFTER
    }

    /// Whether it was asked so long ago that what it sends tells its speed.
    pub(super) fn is_judged(&self, now: Duration) -> bool {
        let rounds = if self.came < FIRST_ROUND_BYTES { 1 } else { 2 };
        let patience = (self.round_trips * rounds).clamp(PATIENCE_MIN, PATIENCE_MAX * rounds);
        !self.leased.is_empty() && now.saturating_sub(self.asked_at) > patience
    }

    /// Whether it has leases, and it is known how fast it is.
    pub(super) fn has_a_speed(&self, now: Duration) -> bool {
        self.is_judged(now) || (!self.leased.is_empty() && self.speed.is_some())
    }

    /// Seconds until it has delivered all its leases: at the speed of what it sends now; if it was just asked, at the one
    /// before, or at `usual`.
    pub(super) fn seconds_left(&self, now: Duration, usual: f64) -> f64 {
        if self.is_stalled(now) {
            return f64::INFINITY;
        }
        let speed = match self.is_judged(now) {
            true => self.came as f64 / now.saturating_sub(self.asked_at).as_secs_f64(),
            false => self.speed.unwrap_or(usual),
        };
        self.bytes.saturating_sub(self.came.saturating_sub(self.kept)) as f64 / speed
    }

    /// Whether nothing is to be expected of it for a long time.
    pub(super) fn is_stuck(&self, now: Duration) -> bool {
        self.is_judged(now) && self.seconds_left(now, 0.0) > STANDS_STILL_AFTER.as_secs_f64()
    }

    /// Ends the lease of chunk `index`; returns whether there was one.
    pub(super) fn take(&mut self, index: usize, lens: &[u32]) -> bool {
        let place = self.leased.iter().position(|leased| *leased == index);
        if let Some(place) = place {
            self.leased.remove(place);
            self.bytes -= u64::from(lens[index]);
        }
        place.is_some()
    }
}
