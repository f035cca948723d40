//! The schedule alone, and in a simulation with sources of every kind.

use std::collections::{BTreeMap, HashSet, VecDeque};

use nekoproto::{Chunk, ChunkHash, Identity, Portion};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{stream::STANDS_STILL_AFTER, *};

const NOW: Duration = Duration::ZERO;
const NEAR: Duration = Duration::from_millis(1);

fn source(n: u8) -> SourceId {
    Identity::from_seed(&[n; 32]).id()
}

fn manifest(lens: &[u32]) -> Manifest {
    let chunk = |len: &u32| Chunk { len: *len, hash: ChunkHash::from_bytes([0; 32]) };
    Manifest::new(lens.iter().map(chunk).collect()).unwrap()
}

fn in_order(lens: &[u32], had: &[usize]) -> Schedule {
    let mut bits = Bitfield::with_capacity(lens.len());
    bits.extend(had.iter().copied());
    Schedule::new(&manifest(lens), bits, &Bitfield::with_capacity(lens.len()), Order::InOrder)
}

fn rarest_first(lens: &[u32], from: usize) -> Schedule {
    let none = Bitfield::with_capacity(lens.len());
    let order = Order::RarestFirst { from };
    Schedule::new(&manifest(lens), none.clone(), &none, order)
}

/// A schedule with complete sources 1, 2, ... and one stream to each, with the same number.
fn with_sources(mut schedule: Schedule, count: u8) -> Schedule {
    for n in 1..=count {
        schedule.offers(source(n), Availability::All);
        schedule.opened(u32::from(n), source(n), NEAR, NOW);
    }
    schedule
}

impl Schedule {
    fn check(&self) {
        let ledger = &self.ledger;
        for index in 0..ledger.lens.len() {
            let leased = usize::from(ledger.leases.get(&index).copied().unwrap_or(0));
            let holding = ledger.streams.values().filter(|stream| stream.leased.contains(&index)).count();
            assert_eq!(leased, holding, "chunk {index}");
            let (is_had, is_missing) = (ledger.had.contains(index), ledger.missing.contains(index));
            assert!(!(is_had && is_missing) && (leased == 0 || !is_had && !is_missing));
        }
        assert_eq!(ledger.left, ledger.lens.len() - ledger.had.count_ones(..));
        for stream in ledger.streams.values() {
            let sum: u64 = stream.leased.iter().map(|index| u64::from(ledger.lens[*index])).sum();
            assert_eq!(sum, stream.bytes);
        }
    }
}

#[test]
fn runs_are_contiguous_and_bounded_but_never_empty() {
    const MIB: u32 = 1024 * 1024;
    let lens = [MIB / 2, MIB / 2, MIB / 2, MIB, MIB / 2];
    let mut schedule = with_sources(in_order(&lens, &[1]), 1);
    assert_eq!(schedule.next(1, NOW), Next::Fetch(0..1), "chunk 1 is there already");
    assert_eq!(schedule.next(1, NOW), Next::Fetch(2..3));
    assert_eq!(schedule.next(1, NOW), Next::Fetch(3..4), "a long chunk is taken all the same");
    assert_eq!(schedule.next(1, NOW), Next::Fetch(4..5));
    assert_eq!(schedule.next(1, NOW), Next::Wait);
    for index in 0..5 {
        schedule.had(index, Some(1), NOW);
    }
    assert_eq!(schedule.next(1, NOW), Next::Done);
    schedule.check();
}

#[test]
fn what_was_requested_ahead_is_leased_as_far_as_it_is_missing() {
    let mut schedule = with_sources(in_order(&[10; 6], &[2]), 2);
    schedule.lease(1, 1..4, NOW);
    assert_eq!(schedule.next(2, NOW), Next::Fetch(0..1));
    assert_eq!(schedule.next(2, NOW), Next::Fetch(4..6));
    schedule.check();
    schedule.closed(1);
    assert_eq!(schedule.next(2, NOW), Next::Fetch(1..2), "it did not come");
    assert_eq!(schedule.next(2, NOW), Next::Fetch(3..4));
    schedule.check();
}

#[test]
fn a_faster_stream_gets_longer_runs() {
    let lens = [64 * 1024; 1000];
    let mut schedule = with_sources(in_order(&lens, &[]), 2);
    schedule.measured(1, 150_000_000, 1.0, NOW);
    schedule.measured(2, 1_000_000, 1.0, NOW);
    let Next::Fetch(fast) = schedule.next(1, NOW) else { panic!("nothing for the fast one") };
    let Next::Fetch(slow) = schedule.next(2, NOW) else { panic!("nothing for the slow one") };
    assert!(fast.len() > 20 * slow.len(), "{fast:?} {slow:?}");
}

/// What a lost packet held up comes all at once, and the stream seems fast.
#[test]
fn last_leases_are_short_however_fast_a_stream_seems() {
    let mut schedule = with_sources(in_order(&[64 * 1024; 128], &[]), 2);
    schedule.measured(1, 8 << 20, 0.001, NOW);
    let mut lens = Vec::new();
    while let Next::Fetch(run) = schedule.next(1, NOW) {
        lens.push(run.len());
    }
    assert_eq!(lens[..3], [32, 24, 18], "a quarter of what is missing");
    assert!(lens.iter().rev().skip(1).all(|len| *len >= 8), "{lens:?}");
}

#[test]
fn corrupt_source_is_banned_and_its_chunks_are_missing_again() {
    let mut schedule = with_sources(in_order(&[10, 10], &[]), 2);
    assert_eq!(schedule.next(1, NOW), Next::Fetch(0..2));
    assert_eq!(schedule.next(2, NOW), Next::Wait);
    schedule.had(0, Some(1), NOW);
    schedule.ban(source(1));
    schedule.closed(1);
    schedule.opened(3, source(1), NEAR, NOW);
    assert_eq!(schedule.next(3, NOW), Next::StruckOut);
    assert_eq!(schedule.next(2, NOW), Next::Fetch(1..2));
    schedule.check();
}

#[test]
fn failing_source_strikes_out_after_a_few_tries() {
    let mut schedule = with_sources(in_order(&[10], &[]), 1);
    for stream in 1..=STRIKES_MAX {
        assert_eq!(schedule.next(stream, NOW), Next::Fetch(0..1));
        assert_eq!(schedule.strike(source(1)), stream == STRIKES_MAX);
        schedule.closed(stream);
        schedule.opened(stream + 1, source(1), NEAR, NOW);
    }
    assert_eq!(schedule.next(STRIKES_MAX + 1, NOW), Next::StruckOut);
    assert_eq!(schedule.left(), 1);
}

/// Goal: readers of one source fetch different chunks from it. Method: three of them, none of which hears of the others.
#[test]
fn concurrent_readers_share_the_file_out() {
    const CHUNKS: usize = 90;
    let mut fetched = HashSet::new();
    for place in 0..3 {
        let mut schedule = with_sources(rarest_first(&[256 * 1024; CHUNKS], 0), 1);
        schedule.has_portion(1, Portion { place, of: 3 });
        let mut count = 0;
        while count < CHUNKS / 3 {
            let Next::Fetch(run) = schedule.next(1, NOW) else { panic!("nothing to fetch") };
            for index in run.take(CHUNKS / 3 - count) {
                assert!(fetched.insert(index), "chunk {index} is fetched twice");
                count += 1;
            }
        }
        schedule.check();
    }
    assert_eq!(fetched.len(), CHUNKS);
}

#[test]
fn what_fewest_have_comes_first() {
    let mut schedule = with_sources(rarest_first(&[10; 6], 0), 1);
    let mut some = Bitfield::with_capacity(6);
    some.extend([0, 1, 3, 4]);
    schedule.offers(source(2), Availability::Some(some.clone()));
    schedule.opened(2, source(2), NEAR, NOW);
    let mut runs = |stream: StreamId, most: usize| {
        let next = std::iter::from_fn(|| match schedule.next(stream, NOW) {
            Next::Fetch(run) => Some(run),
            _ => None,
        });
        let mut runs: Vec<Range<usize>> = next.take(most).collect();
        runs.sort_by_key(|run| run.start);
        runs
    };
    assert_eq!(runs(1, 2), [2..3, 5..6], "nobody but the origin has them, in whatever order");
    assert_eq!(runs(2, 4).into_iter().flatten().collect::<Vec<_>>(), [0, 1, 3, 4]);
    some.insert(5);
    schedule.offers(source(2), Availability::Some(some)); // one more chunk
    assert_eq!(schedule.ledger.copies, [1, 1, 0, 1, 1, 1]);
    schedule.check();
}

#[test]
fn a_stream_that_stands_still_at_the_end_is_overtaken_and_its_chunk_comes_once() {
    let mut schedule = with_sources(in_order(&[100_000; 4], &[]), 2);
    schedule.measured(1, 4_000_000, 1.0, NOW);
    schedule.measured(2, 4_000_000, 1.0, NOW);
    assert_eq!(schedule.next(1, NOW), Next::Fetch(0..2));
    assert_eq!(schedule.next(2, NOW), Next::Fetch(2..4));
    assert!([2, 3].into_iter().all(|index| schedule.had(index, Some(2), NOW)));
    assert_eq!(schedule.next(2, NOW), Next::Wait, "the other is as fast");
    let later = NOW + STANDS_STILL_AFTER + Duration::from_millis(1);
    assert_eq!(schedule.next(2, later), Next::Fetch(0..2));
    schedule.had(1, Some(2), later);
    assert!(schedule.wants(0));
    assert!(schedule.had(0, Some(1), later), "delivered after all");
    assert!(!schedule.wants(0) && schedule.left() == 0);
    assert!(!schedule.had(0, Some(2), later), "it counts once");
    assert_eq!(schedule.next(2, later), Next::Done);
    schedule.check();
}

#[test]
fn source_that_hardly_sends_delays_others_by_some_milliseconds() {
    let ms = Duration::from_millis;
    let mut schedule = with_sources(in_order(&[60_000], &[]), 4);
    for drips in [1, 2, 3] {
        let asked = ms(12 * u64::from(drips - 1));
        assert_eq!(schedule.next(drips, asked), Next::Fetch(0..1), "stream {drips}");
        schedule.came(drips, 1);
        assert_eq!(schedule.next(4, asked + ms(9)), Next::Wait, "stream {drips}");
    }
    assert_eq!(schedule.next(4, ms(24 + 12)), Next::Fetch(0..1));
    schedule.had(0, Some(4), ms(40));
    assert_eq!(schedule.left(), 0);
    schedule.check();
}

/// The bytes that come within `rounds` round trips, while TCP finds out what the way takes.
fn slow_start(rounds: u32) -> u64 {
    14_000 * ((1 << rounds) - 1)
}

#[test]
fn far_source_is_asked_alone_while_it_does_what_it_can() {
    let round_trip = Duration::from_millis(50);
    for chunks in [1, 4, 16] {
        let mut schedule = in_order(&vec![64 * 1024; chunks], &[]);
        for n in 1..=2 {
            schedule.offers(source(n), Availability::All);
            schedule.opened(u32::from(n), source(n), 3 * round_trip, NOW);
        }
        while let Next::Fetch(_) = schedule.next(1, NOW) {}
        let (mut came, size) = (0, chunks as u64 * 64 * 1024);
        for millis in (0..).step_by(5) {
            let now = Duration::from_millis(millis);
            let arrived = slow_start(u32::try_from(millis / 50).unwrap()).min(size);
            schedule.came(1, arrived - came);
            came = arrived;
            for index in 0..usize::try_from(came).unwrap() / (64 * 1024) {
                schedule.had(index, Some(1), now);
            }
            if schedule.left() == 0 {
                break;
            }
            assert_eq!(schedule.next(2, now), Next::Wait, "{chunks} chunks, {millis} ms");
        }
    }
}

#[test]
fn what_is_asked_twice_in_vain_is_bounded() {
    let ms = Duration::from_millis;
    let mut schedule = with_sources(in_order(&[64 * 1024; 320], &[]), 2);
    schedule.measured(1, 50_000_000, 1.0, NOW);
    while let Next::Fetch(_) = schedule.next(1, NOW) {}
    let (mut twice, mut now) = (0, NOW);
    for index in 0..320 {
        now += ms(20);
        if let Next::Fetch(run) = schedule.next(2, now) {
            assert_eq!(schedule.next(2, now), Next::Wait, "one at a time");
            twice += run.len();
            let had = run.clone().all(|index| schedule.had(index, Some(1), now));
            assert!(had, "the late one delivers all the same");
            schedule.measured(2, run.len() as u64, 1e-3, now);
        }
        schedule.had(index, Some(1), now);
        schedule.check();
    }
    assert!((1..=2 * 320 / 32 + 1).contains(&twice), "{twice}");
}

#[test]
fn what_is_claimed_is_leased_only_when_the_claim_fails() {
    let mut claimed = Bitfield::with_capacity(3);
    claimed.insert(1);
    let schedule = Schedule::new(&manifest(&[10; 3]), Bitfield::with_capacity(3), &claimed, Order::InOrder);
    let mut schedule = with_sources(schedule, 1);
    assert_eq!(schedule.next(1, NOW), Next::Fetch(0..1));
    assert_eq!(schedule.next(1, NOW), Next::Fetch(2..3));
    assert!([0, 2].into_iter().all(|index| schedule.had(index, Some(1), NOW)));
    assert_eq!(schedule.next(1, NOW), Next::Wait);
    schedule.unclaim(1);
    assert_eq!(schedule.next(1, NOW), Next::Fetch(1..2));
    schedule.check();
}

proptest! {
    #[test]
    fn every_chunk_ends_up_had(
        lens in prop::collection::vec(1..50u32, 1..40),
        steps in prop::collection::vec((1..4u8, 0..10u8), 0..300),
    ) {
        let mut schedule = with_sources(in_order(&lens, &[]), 4);
        let mut now = NOW;
        for (who, what) in steps {
            now += Duration::from_millis(200);
            let stream = u32::from(who);
            match what {
                0 => { schedule.closed(stream); schedule.opened(stream, source(who), NEAR, now); }
                2 => if let Next::Fetch(run) = schedule.next(stream, now) {
                    schedule.refused(stream, run);
                },
                1 if who > 1 => schedule.ban(source(who)),
                _ => if let Next::Fetch(run) = schedule.next(stream, now) {
                    for index in run {
                        prop_assert!(schedule.wants(index));
                        if what > 4 { schedule.had(index, Some(stream), now); }
                    }
                },
            }
            schedule.check();
        }
        (1..4).for_each(|stream| schedule.closed(stream));
        while let Next::Fetch(run) = schedule.next(4, now) {
            prop_assert!(run.into_iter().all(|index| schedule.had(index, Some(4), now)));
        }
        prop_assert_eq!(schedule.left(), 0);
    }
}

struct Outcome {
    seconds: f64,
    fetched: u64,
    useful: u64,
    fetched_twice_early: usize,
}

/// Simulates sources with these speeds (bytes per second; 0 stalls after its first chunks), event by event,
/// with two outstanding runs per stream.
fn simulate(seed: u64, speeds: &[f64], chunks: usize) -> Outcome {
    let mut random = StdRng::seed_from_u64(seed);
    let lens: Vec<u32> = (0..chunks).map(|_| random.random_range(16_000..130_000)).collect();
    let count = u8::try_from(speeds.len()).unwrap();
    let mut schedule = with_sources(rarest_first(&lens, random.random_range(0..chunks)), count);
    let mut queues: BTreeMap<u32, VecDeque<Range<usize>>> =
        (1..=u32::from(count)).map(|n| (n, VecDeque::new())).collect();
    let mut busy_until: BTreeMap<u32, f64> = queues.keys().map(|n| (*n, 0.0)).collect();
    let (mut asked, mut outcome) =
        (HashSet::new(), Outcome { seconds: 0.0, fetched: 0, useful: 0, fetched_twice_early: 0 });
    let (mut clock, mut before) = (0.0, 0.0);
    while schedule.left() > 0 {
        assert!(clock < 1e4, "seed {seed}: no end");
        let now = Duration::from_secs_f64(clock);
        for (stream, _) in queues.iter().filter(|(_, queue)| !queue.is_empty()) {
            #[expect(clippy::cast_possible_truncation, reason = "some bytes")]
            let came = (speeds[*stream as usize - 1] * (clock - before)) as u64;
            schedule.came(*stream, came);
        }
        before = clock;
        for (stream, queue) in &mut queues {
            while queue.len() < 2 {
                let all_asked = schedule.ledger.missing.is_clear();
                let Next::Fetch(run) = schedule.next(*stream, now) else { break };
                let twice = run.clone().filter(|index| !asked.insert(*index)).count();
                outcome.fetched_twice_early += if all_asked { 0 } else { twice };
                queue.push_back(run);
            }
        }
        // The stream that delivers its run first.
        let ready = queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(stream, queue)| {
            let speed = speeds[*stream as usize - 1];
            let bytes: u64 = queue[0].clone().map(|index| u64::from(lens[index])).sum();
            let takes = if speed > 0.0 { bytes as f64 / speed } else { f64::INFINITY };
            (busy_until[stream].max(0.0) + takes, *stream, bytes, takes)
        });
        let first = ready.min_by(|a, b| a.0.total_cmp(&b.0));
        let (at, stream, bytes, takes) = first.expect("something is on its way");
        // Idle streams ask for work again after 0.05 s.
        let look = clock + 0.05;
        if at > look && queues.values().any(VecDeque::is_empty) {
            clock = look;
            for (stream, queue) in &queues {
                if queue.is_empty() {
                    busy_until.insert(*stream, clock);
                }
            }
            continue;
        }
        clock = clock.max(at);
        busy_until.insert(stream, at);
        let run = queues.get_mut(&stream).unwrap().pop_front().unwrap();
        outcome.fetched += bytes;
        schedule.measured(stream, bytes, takes, Duration::from_secs_f64(clock));
        for index in run {
            schedule.had(index, Some(stream), Duration::from_secs_f64(clock));
        }
        schedule.check();
    }
    outcome.seconds = clock;
    outcome.useful = lens.iter().map(|len| u64::from(*len)).sum();
    outcome
}

/// Goal: sources of any speeds together take little longer than the sum of their speeds allows, and no
/// chunk is fetched twice before all are leased.
/// Method: event by event, over random speeds.
#[test]
fn all_sources_are_used_to_the_end_and_nothing_comes_twice_before_it() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let speeds: Vec<f64> =
            (0..random.random_range(1..6)).map(|_| random.random_range(1e6..1e8)).collect();
        let chunks = 2000;
        let outcome = simulate(seed, &speeds, chunks);
        let bytes = chunks as f64 * 73_000.0;
        let ideal = bytes / speeds.iter().sum::<f64>();
        assert!(outcome.seconds < ideal * 1.1 + 1.0, "seed {seed}: {} of {ideal} s", outcome.seconds);
        assert_eq!(outcome.fetched_twice_early, 0, "seed {seed}");
        // Only chunks in transit at the end may be delivered twice.
        let extra = (outcome.fetched - outcome.useful) as f64;
        assert!(extra < speeds.iter().sum::<f64>() * 0.25, "seed {seed}: {extra}");
    }
}
