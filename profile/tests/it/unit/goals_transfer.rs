//! Tests of `goals/transfer.rs`.

use profile::goals::transfer::*;

#[test]
fn every_goal_can_be_measured_also_when_it_is_small() {
    for size in [1 << 20, 1 << 30] {
        let options = Options { size, files: 10, file_bytes: (1, 10), rounds: 3, seed: 1 };
        let all = scenarios(&options);
        assert_eq!(all.len(), 11);
        all.iter().for_each(|scenario| scenario.check().unwrap());
    }
}
