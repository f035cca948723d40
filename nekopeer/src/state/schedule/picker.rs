//! Chooses the chunks that a stream fetches next. Policy only: it reads the [`Ledger`] and changes nothing.

use std::{ops::Range, time::Duration};

use nekoproto::Portion;
use rand::{Rng, RngExt};

use super::{
    Next, Order,
    ledger::{Availability, Ledger, STRIKES_MAX, StreamId},
    stream::Stream,
};

/// A lease is as long as the stream moves in some round trips, within these bounds in seconds: what is leased by several
/// readers at once comes from the complete sources more than once.
const LEASE_SECS_MIN: f64 = 0.05;
const LEASE_SECS_MAX: f64 = 1.0;
/// Minimum bytes of a lease while the speed of the stream is unknown; the more, up to [`LEASE_BYTES_MIN`], the further its source
/// is, as for 100 Mbit/s. What a crowd of readers asks one source for at first, none of them has before all of it is sent.
const LEASE_BYTES_FIRST: u64 = 128 * 1024;
/// Bytes for each second that it took to connect: three round trips.
const FIRST_SPEED: f64 = 4.0 * 1024.0 * 1024.0;
/// A portion is at least so many leases, unless they get shorter than this: others fetch the first of them meanwhile.
const LEASES_OF_PORTION: u64 = 16;
const LEASE_BYTES_OF_CROWD: u64 = 64 * 1024;
/// Bounds of a lease, in bytes.
const LEASE_BYTES_MIN: u64 = 256 * 1024;
const LEASE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// So many leases of each stream are what is missing at least: the last ones are short, so that all streams end together.
const LEASES_LEFT: u64 = 2;
/// The last ones are at least so long: a stream has two, which are a round trip of 50 ms at 160 Mbit/s.
const LAST_LEASE_BYTES: u64 = 512 * 1024;
/// A lease is at most so many times as long as what the stream has delivered: a limit of its source lets the first bytes pass.
const LEASE_GROWS_BY: u64 = 4;
/// Maximum number of chunks examined for the rarest, to bound the cost of a choice.
const LOOKED_AT_MAX: usize = 32 * 1024;
/// Time for which a stream to a complete source leaves to other readers what is not in this reader's portion, and for which one
/// of them counts after its last chunk.
const LEFT_FOR: Duration = Duration::from_secs(5);
const BRINGS_FOR: Duration = Duration::from_secs(2);
/// A leased chunk is fetched a second time if that saves at least this time, in seconds.
const WORTH_SECS: f64 = 0.1;
/// Speed that a stream is taken to have until it delivered something, in bytes per second.
const SPEED_UNKNOWN: f64 = 256.0 * 1024.0;

pub(super) fn pick(
    ledger: &Ledger,
    stream: StreamId,
    order: Order,
    random: &mut impl Rng,
    now: Duration,
) -> Next {
    if ledger.left == 0 {
        return Next::Done;
    }
    let Some(known) = ledger.streams.get(&stream) else { return Next::StruckOut };
    let source = ledger.sources.get(&known.source).filter(|source| source.strikes < STRIKES_MAX);
    let Some(source) = source else { return Next::StruckOut };
    let is_complete = source.available == Availability::All;
    let start = match order {
        Order::InOrder => Some(0),
        Order::RarestFirst { .. } if !is_complete => None,
        Order::RarestFirst { from } if known.portion.of <= 1 => Some(from),
        // Readers that download concurrently get the same availability. If all continued from their own last chunk, they
        // would request the same chunks from the complete sources: so each of these gives a reader a portion of the file,
        // of which it begins with what no other reader has. The rest comes from the others, if they do what they can.
        Order::RarestFirst { .. } => match first_of_portion(ledger, known.portion) {
            None if !ledger.missing.is_clear() && is_left_to_readers(ledger, known, now) => {
                return Next::Wait;
            }
            first => first,
        },
    };
    let start = start.unwrap_or_else(|| random.random_range(0..ledger.lens.len()));
    let run = match first_missing(ledger, order, &source.available, start) {
        Some(first) => {
            let bytes = known.lease_bytes().min(share_of_rest(ledger)).min(of_crowd(ledger, known));
            Some(run_of_missing(ledger, first, bytes, &source.available))
        }
        None => to_take_over(ledger, stream, known, &source.available, now),
    };
    run.map_or(Next::Wait, Next::Fetch)
}

/// The first chunk in a portion that is missing here and at all others that download it.
fn first_of_portion(ledger: &Ledger, portion: Portion) -> Option<usize> {
    let mut chunks = portion.of_chunks(ledger.lens.len());
    chunks.find(|index| ledger.missing.contains(*index) && ledger.copies[*index] == 0)
}

/// Bytes of a lease where others read the file from the same source.
fn of_crowd(ledger: &Ledger, stream: &Stream) -> u64 {
    match stream.portion.of {
        0..=1 => u64::MAX,
        of => (ledger.bytes / (u64::from(of) * LEASES_OF_PORTION)).max(LEASE_BYTES_OF_CROWD),
    }
}

/// Whether a stream to a complete source leaves to other readers what is not in this reader's portion: they bring more than
/// complete sources do, and meanwhile its source sends them what nobody has. Now and then it asks for some, as it may have become
/// faster.
fn is_left_to_readers(ledger: &Ledger, stream: &Stream, now: Duration) -> bool {
    let lately = |stream: &Stream, time| now.saturating_sub(stream.moved_at) < time;
    let (mut complete, mut readers) = (0.0, 0.0);
    for other in ledger.streams.values() {
        let speed = other.speed.unwrap_or_default();
        match ledger.sources.get(&other.source).map(|source| source.available == Availability::All) {
            Some(true) if lately(other, LEFT_FOR) => complete += speed,
            Some(false) if lately(other, BRINGS_FOR) => readers += speed,
            _ => {}
        }
    }
    stream.speed.is_some() && complete < readers && lately(stream, LEFT_FOR)
}

/// The first chunk to fetch among those missing and `available`: the rarest, in order from `start`, or the
/// first of the file.
fn first_missing(ledger: &Ledger, order: Order, available: &Availability, start: usize) -> Option<usize> {
    let count = ledger.lens.len();
    let is_wanted = |index: &usize| ledger.missing.contains(*index) && available.contains(*index);
    if ledger.missing.is_clear() {
        return None;
    }
    if order == Order::InOrder {
        return (0..count).find(is_wanted);
    }
    let mut best: Option<(u8, usize)> = None;
    for index in (start..count).chain(0..start).filter(is_wanted).take(LOOKED_AT_MAX) {
        let copies = ledger.copies[index];
        if best.is_none_or(|(fewest, _)| copies < fewest) {
            best = Some((copies, index));
        }
        if copies == 0 {
            break;
        }
    }
    best.map(|(_, index)| index)
}

/// Bytes that each stream may lease of what is missing.
fn share_of_rest(ledger: &Ledger) -> u64 {
    let usual = ledger.bytes / ledger.lens.len().max(1) as u64;
    let missing = ledger.missing.count_ones(..) as u64 * usual;
    (missing / (LEASES_LEFT * ledger.streams.len().max(1) as u64)).max(LAST_LEASE_BYTES)
}

/// Consecutive missing chunks as rare as `first`, from `first` on: at least one, at most `bytes` bytes.
fn run_of_missing(ledger: &Ledger, first: usize, bytes: u64, available: &Availability) -> Range<usize> {
    let mut end = first + 1;
    let mut sum = u64::from(ledger.lens[first]);
    // Less rare chunks are left to the partial sources that have them.
    let as_rare =
        |index: usize| *available != Availability::All || ledger.copies[index] == ledger.copies[first];
    let same = |index: usize| ledger.missing.contains(index) && available.contains(index) && as_rare(index);
    while end < ledger.lens.len() && same(end) && sum + u64::from(ledger.lens[end]) <= bytes {
        sum += u64::from(ledger.lens[end]);
        end += 1;
    }
    first..end
}

/// What of the leases of the slowest other stream this one would deliver first, if its source has them and is faster.
///
/// A stream that is late is hedged: some of what it was asked for is asked of another source too; of one at a time, and
/// until too much of that was in vain. One that is stalled is not waited for in any case.
fn to_take_over(
    ledger: &Ledger,
    own_id: StreamId,
    own: &Stream,
    available: &Availability,
    now: Duration,
) -> Option<Range<usize>> {
    if !ledger.missing.is_clear() || !own.leased.is_empty() {
        return None; // not the end: other streams fetch what this source lacks
    }
    let own_speed = own.speed.unwrap_or(SPEED_UNKNOWN);
    let others = ledger.streams.iter().filter(|(id, other)| **id != own_id && other.has_a_speed(now));
    let mut late: Vec<(f64, &Stream)> = others
        .map(|(_, other)| (other.seconds_left(now, own_speed), other))
        // Another connection to the same source is no faster, unless that one is stalled.
        .filter(|(seconds, other)| other.source != own.source || seconds.is_infinite())
        .collect();
    late.sort_by(|a, b| b.0.total_cmp(&a.0));
    let may_hedge = ledger.may_hedge(now);
    let may_take = |index| available.contains(index) && ledger.may_be_leased_again(index, now);
    late.into_iter().find_map(|(seconds, other)| {
        let most = match other.is_stalled(now) {
            true => f64::INFINITY,
            false if may_hedge => ledger.hedge_bytes().max(LEASE_BYTES_MIN) as f64,
            false => return None,
        };
        // At the end both have delivered for the same time.
        let share = other.bytes as f64 * own_speed / (own_speed + other.bytes as f64 / seconds);
        let run = last_of(ledger, other, share.min(most), may_take)?;
        let bytes: u64 = run.clone().map(|index| u64::from(ledger.lens[index])).sum();
        let own_seconds = own.round_trips.as_secs_f64() + bytes as f64 / own_speed;
        (own_seconds + WORTH_SECS < seconds).then_some(run)
    })
}

/// The last run of consecutive leases of `stream` that `may` be taken: at least one, at most `bytes` bytes.
fn last_of(
    ledger: &Ledger,
    stream: &Stream,
    bytes: f64,
    may: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    let end = stream.leased.iter().rev().copied().find(|index| may(*index))? + 1;
    let mut start = end - 1;
    let mut sum = u64::from(ledger.lens[start]);
    while start > 0 && stream.leased.contains(&(start - 1)) && may(start - 1) {
        sum += u64::from(ledger.lens[start - 1]);
        if sum as f64 > bytes {
            break;
        }
        start -= 1;
    }
    Some(start..end)
}

impl Stream {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and clamped")]
    fn lease_bytes(&self) -> u64 {
        let round_trips = self.round_trips.as_secs_f64();
        let Some(speed) = self.speed else {
            return ((FIRST_SPEED * round_trips) as u64).clamp(LEASE_BYTES_FIRST, LEASE_BYTES_MIN);
        };
        let secs = round_trips.clamp(LEASE_SECS_MIN, LEASE_SECS_MAX);
        let most = LEASE_BYTES_MAX.min(LEASE_GROWS_BY * self.longest);
        ((speed * secs) as u64).min(most).max(LEASE_BYTES_MIN)
    }
}
