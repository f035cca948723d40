//! Tests of `index.rs`.

use profile::index::*;

#[test]
fn names_have_thirty_bytes_and_are_signed_in_order() {
    assert_eq!(name_of(7).len(), 30);
    let names: Vec<String> =
        sign(Origin::Own, 1, 5..12).iter().map(|record| record.name.to_string()).collect();
    assert_eq!(names, (5..12).map(name_of).collect::<Vec<_>>());
}
