//! Tests of `relay/ring.rs`.

use profile::relay::ring::*;

#[test]
fn probe_of_ten_hops_round_three_nodes_is_dropped_at_the_second_with_stop_eleven() {
    let ring = Ring { nodes: 3, hops: 10 };
    assert_eq!((ring.way().count(), ring.way().last(), ring.dropped_at()), (11, Some(1), 1));
    // The counts of a relay that was measured elsewhere, to 6 234 of which three quarters were passed on.
    let [first, second, third] = [0, 1, 2].map(|node| ring.counts(node, 100));
    assert_eq!((first.received, first.forwarded, first.circles, first.out_of_hops), (400, 400, 300, 0));
    assert_eq!((second.received, second.forwarded, second.circles, second.out_of_hops), (400, 300, 300, 100));
    assert_eq!((third.received, third.forwarded, third.circles, third.out_of_hops), (300, 300, 200, 0));
}

#[test]
fn counts_of_all_nodes_add_up() {
    for (nodes, hops) in (2..9).flat_map(|nodes| (0..40).map(move |hops| (nodes, hops))) {
        let ring = Ring { nodes, hops };
        let all: Vec<_> = (0..nodes).map(|node| ring.counts(node, 7)).collect();
        assert_eq!(all.iter().map(|one| one.received).sum::<u64>(), 7 * (u64::from(hops) + 1));
        assert_eq!(all.iter().map(|one| one.forwarded).sum::<u64>(), 7 * u64::from(hops));
        assert_eq!(all.iter().map(|one| one.out_of_hops).sum::<u64>(), 7);
        let came = all.iter().filter(|one| one.received > 0).count() as u64;
        assert_eq!(all.iter().map(|one| one.circles).sum::<u64>(), 7 * (u64::from(hops) + 1 - came));
    }
}

#[test]
fn every_difference_counts() {
    let ring = Ring { nodes: 3, hops: 10 };
    let counts = ring.counts(1, 10);
    assert_eq!(off(&counts, &counts), 0);
    let lost = nekoindexer::ProbeCounts { received: counts.received - 1, lost: 2, ..counts };
    assert_eq!(off(&lost, &counts), 3);
}
