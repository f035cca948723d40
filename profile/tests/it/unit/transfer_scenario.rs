//! Tests of `transfer/scenario.rs`.

use nekoproto::limits::FILE_BYTES_MAX;
use profile::transfer::scenario::*;
use std::num::NonZeroU64;

#[test]
fn what_makes_no_sense_is_refused() {
    let good = Scenario::whole(1 << 20);
    good.check().unwrap();
    let bulk = Bulk { size: 1000, sparse: false };
    let change = Change { percent: 1.0, places: 20, how: How::Insert };
    let wrong = [
        Scenario { sources: 17, ..good.clone() },
        Scenario { readers: 0, ..good.clone() },
        Scenario { corrupt: Some(1.0), ..good.clone() },
        Scenario { sources: 2, what: What::Publish(bulk), ..good.clone() },
        Scenario { what: What::Change(bulk, change), ..good.clone() },
        Scenario { what: What::Files { count: 0, bytes: (1, 2) }, ..good.clone() },
        Scenario::whole(FILE_BYTES_MAX + 1),
    ];
    for scenario in wrong {
        let error = scenario.check().unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_scenario_names_its_command() {
    let cap = NonZeroU64::new(50_000_000);
    let many =
        Scenario { sources: 4, readers: 2, cap_up: cap, corrupt: Some(1.0), ..Scenario::whole(1 << 30) };
    assert_eq!(
        many.command(),
        "profile transfer --size 1GiB --sources 4 --readers 2 --corrupt 1 --cap-up 50MB"
    );
    assert_eq!(many.slug(), "1-gib-4-sources-2-readers-one-of-them-corrupts-1-percent-50mb-s-up");
    let change = Change { percent: 1.0, places: 20, how: How::InPlace };
    let changed =
        Scenario { what: What::Change(Bulk { size: 1 << 20, sparse: false }, change), ..many.clone() };
    assert!(changed.command().contains("--change 1 --places 20 --how in-place"), "{}", changed.command());
    assert_eq!(many.disk_bytes(), (1 << 30) * (1 + 2 + 2));
}
