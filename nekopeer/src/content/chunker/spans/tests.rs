//! Any division of a file among threads gives the same chunks and hash as one thread.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use fastcdc::v2020::FastCDC;
use proptest::prelude::*;
use testkit::goods::bytes as random;

use super::*;

const SPAN: u64 = 256 * 1024;

impl ReadAt for Vec<u8> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let len = rest.len().min(buffer.len()).min(100_000); // a read may return less than requested
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

fn cut(min: u32, average: u32, max: u32) -> Cut {
    Cut { min, average, max }
}

/// The chunks and the hash that one thread computes in memory.
fn by_one(bytes: &[u8], cut: Cut) -> FoundCuts {
    let chunks = FastCDC::new(bytes, cut.min as usize, cut.average as usize, cut.max as usize)
        .map(|chunk| {
            let bytes = &bytes[chunk.offset..chunk.offset + chunk.length];
            Chunk { len: len_u32(bytes), hash: hash(bytes) }
        })
        .collect();
    let mut segments = crate::content::outboard::Segments::new(bytes.len() as u64);
    if bytes.is_empty() {
        segments.put(0, crate::content::outboard::of_nothing());
    }
    crate::content::outboard::SegmentHasher::new(bytes.len() as u64, 0)
        .update(bytes, |index, hash| segments.put(index, hash));
    let content = ContentHash::from_bytes(*blake3::hash(bytes).as_bytes());
    FoundCuts { chunks, content, outboard: segments.to_outboard() }
}

fn by_many(bytes: &Vec<u8>, cut: Cut, span_bytes: u64, workers: usize) -> FoundCuts {
    let counted = AtomicU64::new(0);
    let plan = SpanPlan { size: bytes.len() as u64, cut, span_bytes, workers };
    let found = cut_all(bytes, plan, &|more| {
        counted.fetch_add(more, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    assert_eq!(counted.into_inner(), bytes.len() as u64, "each byte is counted once");
    found
}

/// Data whose cuts agree soon, late or never: random, constant, periodic, and mixtures.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let len = || 0..5 * usize::try_from(SPAN).unwrap();
    let noise = (any::<u64>(), len()).prop_map(|(seed, len)| random(seed, len));
    let constant = (any::<u8>(), len()).prop_map(|(byte, len)| vec![byte; len]);
    let periodic = (any::<u64>(), 1..5000usize, len())
        .prop_map(|(seed, period, len)| random(seed, period).into_iter().cycle().take(len).collect());
    let one = prop_oneof![noise, constant, periodic].boxed();
    prop_oneof![
        one.clone(),
        prop::collection::vec(one, 2..4).prop_map(|pieces| {
            let mut all = pieces.concat();
            all.truncate(5 * usize::try_from(SPAN).unwrap());
            all
        })
    ]
}

fn cuts() -> impl Strategy<Value = Cut> {
    prop_oneof![
        Just(cut(64, 256, 1024)),
        Just(cut(256, 1024, 2048)),
        Just(cut(1024, 4096, 9998)),
        Just(cut(16 * 1024, 64 * 1024, 128 * 1024)),
        Just(cut(64 * 1024, 256 * 1024, 512 * 1024)), // longer than a span
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn many_threads_find_what_one_finds(
        bytes in bytes(), cut in cuts(), spans in 1..3u64, workers in 1..5usize,
    ) {
        let (many, one) = (by_many(&bytes, cut, spans * SPAN, workers), by_one(&bytes, cut));
        // Not `assert_eq!`: it would print thousands of chunks.
        prop_assert!(many.chunks == one.chunks, "{} and {} chunks", many.chunks.len(), one.chunks.len());
        prop_assert_eq!(many.content, one.content);
    }
}

/// Zeros are cut at the maximum length, so cuts agree only if the span length is a multiple of it.
#[test]
fn ends_that_never_agree_are_found_all_the_same() {
    let zeros = vec![0; usize::try_from(7 * SPAN).unwrap() + 5];
    for max in [1026, 1024, 100_002] {
        let cut = cut(64, 256, max);
        assert_eq!(by_one(&zeros, cut).chunks[0].len, max, "the longest length");
        assert!(by_many(&zeros, cut, SPAN, 3) == by_one(&zeros, cut), "{max}");
    }
}

#[test]
fn files_around_the_borders_of_spans_are_found_whole() {
    let cut = cut(256, 1024, 2048);
    for len in [0, 1, SPAN - 1, SPAN, SPAN + 1, 2 * SPAN, 3 * SPAN - 1, 3 * SPAN + 100] {
        let bytes = random(len, usize::try_from(len).unwrap());
        assert!(by_many(&bytes, cut, SPAN, 2) == by_one(&bytes, cut), "{len}");
    }
}

#[test]
fn a_file_that_shrinks_or_a_stop_ends_all_threads() {
    let bytes = random(1, usize::try_from(4 * SPAN).unwrap());
    let plan = SpanPlan { size: 5 * SPAN, cut: cut(256, 1024, 2048), span_bytes: SPAN, workers: 3 };
    assert!(matches!(cut_all(&bytes, plan, &|_| Ok(())), Err(Halt::Changed)));
    let stopped = cut_all(&bytes, SpanPlan { size: 4 * SPAN, ..plan }, &|_| Err(Halt::Stopped));
    assert!(matches!(stopped, Err(Halt::Stopped)));
}

#[test]
fn plans_of_all_sizes_keep_their_bounds() {
    for shift in 0..=40 {
        let size = 1u64 << shift;
        let cut = Cut::for_size(size);
        for cut in [cut, Cut::for_next_version(size, Some(cut.average * 2))] {
            let plan = SpanPlan::new(size, cut);
            assert!(plan.span_bytes.is_multiple_of(segment_bytes(size)), "{size}");
            assert!(plan.workers * Cutter::new(cut).buffer_bytes() <= BUFFERS_BYTES_MAX, "{size}");
            assert_eq!(plan.span(plan.spans() - 1).end, size);
        }
    }
}
